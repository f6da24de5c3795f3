"""HTTP transport: sends operations to a server over one connection pool, and raises its errors here again.

The API key comes from the caller or from HOLDFAST_API_KEY; without one, the transport uses the token that a server of
this user on this machine has stored (`client.local_token`). Every request can be sent twice: reads change nothing,
and writes carry a key. So a request whose response was lost is sent once more, and gets the first response again.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast
from urllib.parse import quote

import msgspec

from holdfast.api.operation import Operation, to_wire
from holdfast.client import local_token
from holdfast.client.client import Client
from holdfast.errors import HoldfastError, InvalidSetting, StoreUnavailable, Unavailable
from holdfast.model import canonical
from holdfast.model.ids import IdSource, RandomIds, check_name
from holdfast.model.limits import BODY_BYTES_MAX
from holdfast.model.streams import AttemptSuperseded, Chunk

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R")

TIMEOUT_S: Final = 60.0
STREAM_TRIES: Final = 5
_STREAMED: Final[dict[str, type[Chunk | AttemptSuperseded]]] = {
    "chunk": Chunk,
    "attempt_superseded": AttemptSuperseded,
}
_JSON: Final = {"Content-Type": "application/json"}


class HttpTransport:
    """Sends operations to the server at this URL."""

    def __init__(self, url: str, *, key: str | None = None, ids: IdSource | None = None) -> None:
        self.ids = RandomIds() if ids is None else ids
        self._http = _connect(url)
        self._url = url
        self._key = key or os.environ.get("HOLDFAST_API_KEY") or None
        self._token = None if self._key else local_token.find_token(url)
        self._authorize()

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, operation: Operation[Q, R], request: Q) -> R:
        wire = to_wire(operation, request, _quote)
        arguments: dict[str, Any] = {}
        if wire.body is not None:
            arguments["content"] = canonical.encode(wire.body, bytes_max=BODY_BYTES_MAX)
            arguments["headers"] = _JSON
        else:
            arguments["params"] = {
                name: str(value) for name, value in wire.query.items() if value is not None
            }
        response = await self.request(operation.method, wire.path, **arguments)
        try:
            return cast("R", decode(response.content, operation.response))
        except (msgspec.MsgspecError, ValueError):
            raise _foreign(response.status_code) from None

    async def request(self, method: str, path: str, **arguments: Any) -> httpx2.Response:
        """The response of a request that succeeded; otherwise its error."""
        token = self._token
        response = await self._send(method, path, arguments)
        if response.status_code == 401 and self._has_new_token(token):
            response = await self._send(method, path, arguments)
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content)
        return response

    async def _send(self, method: str, path: str, arguments: dict[str, Any]) -> httpx2.Response:
        import httpx2

        try:
            return await self._http.request(method, path, **arguments)
        except httpx2.TransportError:
            pass
        try:
            return await self._http.request(method, path, **arguments)
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None

    async def stream(
        self, job_id: str, *, after: str | None, stream: str | None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """The output of a job. A stream that was cut off is requested again, from the last cursor on; after several
        attempts without new events it raises."""
        params = {} if stream is None else {"stream": stream}
        tries = 0
        while True:
            if after is not None:
                params["after"] = after
            try:
                async with aclosing(self._lines(f"/api/jobs/{_quote(job_id)}/stream", params)) as lines:
                    async for kind, data in _parse_events(lines):
                        if kind == "end":
                            return
                        chunk = msgspec.json.decode(data, type=_STREAMED[kind])
                        after, tries = chunk.cursor, 0
                        yield chunk
            except StoreUnavailable:
                if tries >= STREAM_TRIES:
                    raise
            tries += 1
            if tries > STREAM_TRIES:
                msg = f"the stream of job {job_id} was cut off too often"
                raise StoreUnavailable(msg)

    async def _lines(self, path: str, params: dict[str, str]) -> AsyncGenerator[str, None]:
        import httpx2

        try:
            async with self._http.stream("GET", path, params=params) as response:
                if response.status_code >= 400:
                    raise error_of(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    yield line
        except httpx2.TransportError as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        msg = f"{self._url} does not answer: {type(error).__name__}"
        hint = "Check that `holdfast serve` runs there, and HOLDFAST_API_URL."
        return StoreUnavailable(msg, hint=hint)

    def _has_new_token(self, token: str | None) -> bool:
        """Whether the server was restarted since a request was sent with this token. Each request that was in flight
        then is sent once more."""
        if self._key is not None:
            return False
        self._token = local_token.find_token(self._url)
        self._authorize()
        return self._token not in {None, token}

    def _authorize(self) -> None:
        """Send the key or the token with every request."""
        secret = self._key or self._token
        if secret is not None:
            self._http.headers["Authorization"] = f"Bearer {secret}"


class RemoteClient(Client):
    """A client of the server at this URL. Use it as an async context manager, or close it when done."""

    def __init__(self, url: str, *, key: str | None = None, ids: IdSource | None = None) -> None:
        self.url = url
        self._server = HttpTransport(url, key=key, ids=ids)
        super().__init__(self._server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def export(self, job_id: str) -> bytes:
        """The job's journal as one file, signed if the server has a key; see `client.export_file`."""
        path = f"/api/jobs/{_quote(job_id)}/export"
        response = await self._server.request(
            "GET", path, headers={"accept": "application/zip"}, timeout=None
        )
        return response.content


def _quote(part: str) -> str:
    """One percent-encoded part of a path; a part of dots alone would mean another path."""
    return quote(check_name(part, "id"), safe="").replace(".", "%2E")


async def _parse_events(lines: AsyncIterator[str]) -> AsyncIterator[tuple[str, str]]:
    """Server-sent events: their kind and their data."""
    kind, data = "", ""
    async for line in lines:
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and kind:
            yield kind, data
            kind, data = "", ""


def decode(data: bytes, shape: type[T]) -> T:
    """The response as this type, including lone surrogates, which only JSON can carry."""
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeError):
        return msgspec.convert(json.loads(data), shape)


def error_of(status: int, data: bytes) -> HoldfastError:
    """The error of a problem document, as the server raised it."""
    try:
        problem = decode(data, dict[str, Any])
        kind = _KINDS[problem["code"]]
        detail, hint, details = str(problem["detail"]), str(problem["hint"]), dict(problem.get("details", {}))
    except (KeyError, ValueError, TypeError, msgspec.MsgspecError):
        raise _foreign(status) from None
    error = kind.__new__(kind)
    HoldfastError.__init__(error, detail, hint=hint)
    for name, value in details.items():  # the further fields of the error class
        setattr(error, name, value)
    return error


def _foreign(status: int) -> Unavailable:
    msg = f"the server answered {status}, which is not a response of Holdfast"
    return Unavailable(msg, hint="Check HOLDFAST_API_URL: is it a Holdfast server?")


def _all_of(kind: type[HoldfastError]) -> dict[str, type[HoldfastError]]:
    by_code = {kind.code: kind}
    for below in kind.__subclasses__():
        if below.__module__ == HoldfastError.__module__:
            by_code |= _all_of(below)
    return by_code


_KINDS: Final = _all_of(HoldfastError)


def _connect(url: str) -> httpx2.AsyncClient:
    try:
        import httpx2
    except ImportError as error:
        msg = "the HTTP client is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[remote]'") from error
    if not url.startswith(("http://", "https://")):
        msg = f"{url!r} is not the address of a server"
        raise InvalidSetting(msg, hint="Use http://127.0.0.1:8080, as `holdfast serve` printed it.")
    # No proxy from the environment: requests to this machine stay on it.
    return httpx2.AsyncClient(
        base_url=url.rstrip("/"), timeout=TIMEOUT_S, trust_env=False, follow_redirects=False
    )
