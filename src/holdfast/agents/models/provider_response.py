"""Provider response: a provider's response to a client, and its failures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from holdfast.agents.models.wire_format import Body

BAD: Final = 400
"""The first HTTP status that is an error."""


MESSAGE_MAX: Final = 1_000


class Live(Protocol):
    """An incoming response."""

    status: int
    headers: Mapping[str, str]

    def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes; raises Unreachable if the connection breaks."""
        ...

    async def close(self) -> None: ...


class Unreachable(Exception):
    """The provider could not be reached, or the connection broke: `kind` is the client's word for it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ProviderRefusal(msgspec.Struct, frozen=True):
    """An error response of a provider."""

    status: int
    headers: Mapping[str, str]
    data: bytes


Failure = Unreachable | ProviderRefusal
"""How an attempt fails."""


class ProviderError(Exception):
    """A provider returned an error; `status_code` is the HTTP status."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(f"{status_code}: {message}" if message else str(status_code))
        self.status_code = status_code


def to_errors(failure: Failure) -> tuple[Exception, ...]:
    """A failure as an exception, for code without a client that has its own class for it."""
    if isinstance(failure, Unreachable):
        return (failure,)
    return (ProviderError(failure.status, failure.data.decode("utf-8", "replace")[:MESSAGE_MAX]),)


class Served(msgspec.Struct, frozen=True):
    """The response for the client: a whole body, or a stream. `step_key` is the step that it belongs to."""

    status: int
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes]
    step_key: str
    close: Callable[[], Awaitable[None]] | None = None


Send = Callable[[Body], Awaitable[Live]]
"""Sends the request to the provider; raises Unreachable."""
