"""The client over HTTP: the same words to a server, and the same errors back.

Every write goes out under a key, the caller's or one made here, so a request whose answer was lost is sent once more:
it is answered like the first time.

Who asks is told by an API key, from the caller or from HOLDFAST_API_KEY; without one, by the token that a server of
this user on this machine has left (`client.tokens`).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import msgspec

from holdfast.client import tokens
from holdfast.client.paths import path as _path
from holdfast.client.records import Accepted, Checked, EventView, JobView, Need, Trace
from holdfast.client.remote_following import RemoteFollowing
from holdfast.errors import HoldfastError, InvalidSetting, NotOver, StoreUnavailable, Unavailable
from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model.budget import Budget
from holdfast.model.ids import IdSource, RandomIds, check_name
from holdfast.model.jobs import DEFAULT_QUEUE, JobFilter, JobRecord, Submitted
from holdfast.model.limits import (
    BODY_BYTES_MAX,
    EVENTS_PER_PAGE_MAX,
    PRIORITY_DEFAULT,
    ROWS_PER_PAGE_DEFAULT,
    ROWS_PER_PAGE_MAX,
)
from holdfast.model.page import Page

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

WAIT_MS: Final = 20_000
"""How long one request waits for a job to end, before it is sent again."""

TIMEOUT_S: Final = 60.0
_JSON: Final = {"Content-Type": "application/json"}


class RemoteClient(RemoteFollowing):
    """See `holdfast.client.protocol.Client`. Use it as an async context manager, or close it when done."""

    def __init__(self, url: str, *, key: str | None = None, ids: IdSource | None = None) -> None:
        self._ids = RandomIds() if ids is None else ids
        self._http = _connected(url)
        self._url = url
        self._key = key or os.environ.get("HOLDFAST_API_KEY") or None
        self._token = None if self._key else tokens.find_token(url)
        self._introduce()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 -- the word for it everywhere else
        *,
        job_id: str | None = None,
        request_key: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
        session_id: str | None = None,
        ready_at: int = 0,
    ) -> Submitted:
        body = {
            "kind": kind,
            "input": input,
            "request_key": request_key,
            "id": self._ids.new("job") if (job_id, request_key) == (None, None) else job_id,
            "queue": queue,
            "priority": priority,
            "session_id": session_id,
            "ready_at": ready_at,
        }
        return await self._post("/api/jobs", body, Submitted)

    async def get(self, job_id: str) -> JobView:
        return await self._get(_job(job_id), JobView)

    async def list(
        self,
        which: JobFilter | None = None,
        *,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[JobRecord]:
        asked = {} if which is None else msgspec.to_builtins(which)
        asked.pop("namespace", None)  # it is the server's to know
        return await self._get("/api/jobs", Page[JobRecord], **asked, limit=limit, cursor=cursor)

    async def events(self, job_id: str, *, after: int = 0, limit: int | None = None) -> tuple[EventView, ...]:
        found: list[EventView] = []
        seen: int | None = after
        while seen is not None and (limit is None or len(found) < limit):
            most = EVENTS_PER_PAGE_MAX if limit is None else min(limit - len(found), EVENTS_PER_PAGE_MAX)
            page = await self._get(_job(job_id, "events"), _Events, after=seen, limit=most)
            found += page.items
            seen = page.next
        return tuple(found)

    async def trace(self, job_id: str) -> Trace:
        return await self._get(_job(job_id, "trace"), Trace)

    async def verify(self, job_id: str) -> Checked:
        return await self._get(_job(job_id, "verify"), Checked)

    async def result(self, job_id: str, *, timeout_s: float | None = None) -> JobView:
        left_ms = None if timeout_s is None else max(int(timeout_s * 1000), 0)
        while True:
            wait_ms = WAIT_MS if left_ms is None else min(left_ms, WAIT_MS)
            job = await self._get(_job(job_id), JobView, wait_ms=wait_ms)
            if job.over:
                return job
            if left_ms is not None:
                left_ms -= wait_ms
                if left_ms <= 0:
                    raise NotOver(f"job {job_id} is {job.status}")

    # ── words to a job ────────────────────────────────────────────────────────────────────────────

    async def cancel(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        return await self._say(_job(job_id, "stop"), operation_id, why=why, by=by)

    async def signal(
        self, job_id: str, name: str, body: Any = None, *, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        return await self._say(_job(job_id, "signal"), operation_id, name=name, body=body, by=by)

    async def answer(
        self,
        job_id: str,
        said: Any,
        *,
        question_id: str | None = None,
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        word = {"answer": said, "question_id": question_id, "by": by}
        return await self._say(_job(job_id, "answer"), operation_id, **word)

    async def reconcile(
        self,
        job_id: str,
        step_key: str,
        decision: str,
        *,
        why: str,
        by: str,
        result: Any = None,
        generation: int | None = None,
        operation_id: str | None = None,
    ) -> Accepted:
        where = _job(job_id, "steps", step_key, "reconcile")
        said = {"decision": decision, "why": why, "by": by, "result": result, "generation": generation}
        return await self._say(where, operation_id, **said)

    async def approve(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        where = _path("api", "approvals", approval, "approve")
        return await self._say(where, operation_id, step_key=step_key, why=why, by=by)

    async def deny(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        where = _path("api", "approvals", approval, "deny")
        return await self._say(where, operation_id, step_key=step_key, why=why, by=by)

    async def resume(
        self,
        job_id: str,
        *,
        choice: str = "continue",
        why: str = "",
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        return await self._say(_job(job_id, "resume"), operation_id, choice=choice, why=why, by=by)

    async def raise_budget(
        self,
        job_id: str,
        limits: Budget,
        *,
        budget_id: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        said = {"limits": money.told(limits), "budget_id": budget_id, "why": why, "by": by}
        return await self._say(_job(job_id, "raise"), operation_id, **said)

    # ── what needs a person ───────────────────────────────────────────────────────────────────────

    async def waiting_for_person(self) -> tuple[Need, ...]:
        needs: list[Need] = []
        cursor: str | None = None
        while True:
            page = await self._get("/api/needs", Page[Need], limit=ROWS_PER_PAGE_MAX, cursor=cursor)
            needs += page.items
            cursor = page.next
            if cursor is None:
                return tuple(needs)

    async def dead_letters(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Need]:
        return await self._get("/api/dead-letters", Page[Need], limit=limit, cursor=cursor)

    async def requeue(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        where = _path("api", "dead-letters", job_id, "requeue")
        return await self._say(where, operation_id, why=why, by=by)

    async def discard(
        self, job_id: str, *, why: str, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        where = _path("api", "dead-letters", job_id, "discard")
        return await self._say(where, operation_id, why=why, by=by)

    async def export(self, job_id: str) -> bytes:
        """The job's journal as one file, signed if the server has a key; see `client.archives`."""
        response = await self._answer(
            "GET", _job(job_id, "export"), {"headers": {"accept": "application/zip"}, "timeout": None}
        )
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content)
        return response.content

    # ── the wire ──────────────────────────────────────────────────────────────────────────────────

    async def _say(self, where: str, operation_id: str | None, **said: Any) -> Accepted:
        """The word is said once, however often it is sent. Its id is in the body, where any name fits."""
        named = self._ids.new("op") if operation_id is None else check_name(operation_id, "operation id")
        return await self._post(where, {**said, "operation_id": named}, Accepted)

    async def _get(self, where: str, shape: type[T], **asked: Any) -> T:
        query = {name: str(value) for name, value in asked.items() if value is not None}
        return await self._send("GET", where, shape, params=query)

    async def _post(self, where: str, body: dict[str, Any], shape: type[T], *, method: str = "POST") -> T:
        data = canonical.encode(body, bytes_max=BODY_BYTES_MAX)
        return await self._send(method, where, shape, content=data, headers=_JSON)

    async def _put(self, where: str, body: dict[str, Any], shape: type[T]) -> T:
        return await self._post(where, body, shape, method="PUT")

    async def _delete(self, where: str, shape: type[T]) -> T:
        return await self._send("DELETE", where, shape)

    async def _lines(
        self, where: str, params: dict[str, str], headers: dict[str, str]
    ) -> AsyncGenerator[str, None]:
        """The lines of a stream, as they come."""
        import httpx2

        try:
            async with self._http.stream("GET", where, params=params, headers=headers) as response:
                if response.status_code >= 400:
                    raise error_of(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    yield line
        except httpx2.TransportError as error:
            raise self._silent(error) from None

    def _silent(self, error: Exception) -> StoreUnavailable:
        msg = f"{self._url} does not answer: {type(error).__name__}"
        hint = "Check that `holdfast serve` runs there, and HOLDFAST_API_URL."
        return StoreUnavailable(msg, hint=hint)

    async def _send(self, method: str, where: str, shape: type[T], **request: Any) -> T:
        response = await self._answer(method, where, request)
        if response.status_code == 401 and self._has_new_token():
            response = await self._answer(method, where, request)
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content)
        return read(response.content, shape)

    async def _answer(self, method: str, where: str, request: dict[str, Any]) -> httpx2.Response:
        """The server's answer. Every request can be sent twice: reads ask, and writes have their keys."""
        import httpx2

        try:
            return await self._http.request(method, where, **request)
        except httpx2.TransportError:
            pass
        try:
            return await self._http.request(method, where, **request)
        except httpx2.TransportError as error:
            raise self._silent(error) from None

    def _has_new_token(self) -> bool:
        """Whether the server was started anew since its token was read."""
        if self._key is not None:
            return False
        before, self._token = self._token, tokens.find_token(self._url)
        self._introduce()
        return self._token not in {None, before}

    def _introduce(self) -> None:
        """Every request says who asks."""
        known_as = self._key or self._token
        if known_as is not None:
            self._http.headers["Authorization"] = f"Bearer {known_as}"


class _Events(msgspec.Struct, frozen=True):
    items: tuple[EventView, ...]
    next: int | None


def read(data: bytes, shape: type[T]) -> T:
    """The answer as this shape; lone surrogates, which only JSON can carry, included."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.convert(json.loads(data), shape)


def error_of(status: int, data: bytes) -> HoldfastError:
    """The error that a problem document tells of, as the server raised it."""
    try:
        problem = read(data, dict[str, Any])
        kind = _KINDS[problem["code"]]
        detail, hint, details = str(problem["detail"]), str(problem["hint"]), dict(problem.get("details", {}))
    except (KeyError, ValueError, TypeError, msgspec.MsgspecError):
        msg = f"the server answered {status}, and not as Holdfast does"
        raise Unavailable(msg, hint="Check HOLDFAST_API_URL: is it a Holdfast server?") from None
    error = kind.__new__(kind)
    HoldfastError.__init__(error, detail, hint=hint)
    for name, value in details.items():  # what the class keeps beside its text
        setattr(error, name, value)
    return error


def _all_of(kind: type[HoldfastError]) -> dict[str, type[HoldfastError]]:
    found = {kind.code: kind}
    for below in kind.__subclasses__():
        if below.__module__ == HoldfastError.__module__:
            found |= _all_of(below)
    return found


_KINDS: Final = _all_of(HoldfastError)


def _job(job_id: str, *parts: str) -> str:
    return _path("api", "jobs", job_id, *parts)


def _connected(url: str) -> httpx2.AsyncClient:
    try:
        import httpx2
    except ImportError as error:
        msg = "the HTTP client is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[remote]'") from error
    if not url.startswith(("http://", "https://")):
        msg = f"{url!r} is not the address of a server"
        raise InvalidSetting(msg, hint="Use http://127.0.0.1:8080, as `holdfast serve` printed it.")
    # No proxy from the environment: what is on this machine stays on it.
    return httpx2.AsyncClient(
        base_url=url.rstrip("/"), timeout=TIMEOUT_S, trust_env=False, follow_redirects=False
    )
