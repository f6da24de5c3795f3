"""The wire under the client over HTTP: one connection pool, who asks, and errors as the server raised them.

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

from holdfast.client import local_token
from holdfast.errors import HoldfastError, InvalidSetting, StoreUnavailable, Unavailable
from holdfast.model import canonical
from holdfast.model.ids import IdSource, RandomIds
from holdfast.model.limits import BODY_BYTES_MAX

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

TIMEOUT_S: Final = 60.0
_JSON: Final = {"Content-Type": "application/json"}


class RemoteWire:
    """A server, spoken to. Use it as an async context manager, or close it when done."""

    def __init__(self, url: str, *, key: str | None = None, ids: IdSource | None = None) -> None:
        self._ids = RandomIds() if ids is None else ids
        self._http = _connected(url)
        self._url = url
        self._key = key or os.environ.get("HOLDFAST_API_KEY") or None
        self._token = None if self._key else local_token.find_token(url)
        self._introduce()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _get(self, where: str, shape: type[T], **asked: Any) -> T:
        query = {name: str(value) for name, value in asked.items() if value is not None}
        return await self._send("GET", where, shape, params=query)

    async def _post(
        self,
        where: str,
        body: dict[str, Any],
        shape: type[T],
        *,
        method: str = "POST",
        key: str | None = None,
    ) -> T:
        """`key`: this request's name, for what has none in its body."""
        data = canonical.encode(body, bytes_max=BODY_BYTES_MAX)
        named = {} if key is None else {"Idempotency-Key": key}
        return await self._send(method, where, shape, content=data, headers=_JSON | named)

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
        sent_as = self._token
        response = await self._answer(method, where, request)
        if response.status_code == 401 and self._has_new_token(sent_as):
            response = await self._answer(method, where, request)
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content)
        try:
            return read(response.content, shape)
        except (msgspec.MsgspecError, ValueError):
            raise _foreign(response.status_code) from None

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

    def _has_new_token(self, sent_as: str | None) -> bool:
        """Whether the server was started anew since a request was sent with this token. Of several that were under
        way then, each is sent once more."""
        if self._key is not None:
            return False
        self._token = local_token.find_token(self._url)
        self._introduce()
        return self._token not in {None, sent_as}

    def _introduce(self) -> None:
        """Every request says who asks."""
        known_as = self._key or self._token
        if known_as is not None:
            self._http.headers["Authorization"] = f"Bearer {known_as}"


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
        raise _foreign(status) from None
    error = kind.__new__(kind)
    HoldfastError.__init__(error, detail, hint=hint)
    for name, value in details.items():  # what the class keeps beside its text
        setattr(error, name, value)
    return error


def _foreign(status: int) -> Unavailable:
    msg = f"the server answered {status}, which is not a response of Holdfast"
    return Unavailable(msg, hint="Check HOLDFAST_API_URL: is it a Holdfast server?")


def _all_of(kind: type[HoldfastError]) -> dict[str, type[HoldfastError]]:
    found = {kind.code: kind}
    for below in kind.__subclasses__():
        if below.__module__ == HoldfastError.__module__:
            found |= _all_of(below)
    return found


_KINDS: Final = _all_of(HoldfastError)


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
