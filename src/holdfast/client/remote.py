"""The client over HTTP: the same words to a server, and the same errors back.

Every write goes out under a key, the caller's or one made here, so a request whose answer was lost is sent once more:
it is answered like the first time. How it gets there and who is asking: `client.remote_wire`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.client.paths import path as _path
from holdfast.client.records import Accepted, Checked, EventView, JobView, Need, Trace
from holdfast.client.remote_wire import error_of, read
from holdfast.client.remote_work import RemoteWork
from holdfast.errors import NotOver
from holdfast.model import budget as money
from holdfast.model.budget import Budget
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_QUEUE, JobFilter, JobRecord, Submitted
from holdfast.model.limits import (
    EVENTS_PER_PAGE_MAX,
    PRIORITY_DEFAULT,
    ROWS_PER_PAGE_DEFAULT,
    ROWS_PER_PAGE_MAX,
)
from holdfast.model.page import Page

__all__ = ["RemoteClient", "error_of", "read"]

WAIT_MS: Final = 20_000
"""How long one request waits for a job to end, before it is sent again."""


class RemoteClient(RemoteWork):
    """See `holdfast.client.protocol.Client`. Use it as an async context manager, or close it when done."""

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
        if several := asked.pop("statuses", None):
            fitting = [one for one in several if asked["status"] in {None, one}]
            if not fitting:
                return Page((), None)
            asked["status"] = ",".join(fitting)
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


class _Events(msgspec.Struct, frozen=True):
    items: tuple[EventView, ...]
    next: int | None


def _job(job_id: str, *parts: str) -> str:
    return _path("api", "jobs", job_id, *parts)
