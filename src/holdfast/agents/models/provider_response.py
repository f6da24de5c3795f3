"""Provider response: what a provider sends back to a client, and how it fails to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, Protocol

import msgspec

from holdfast.agents.models.wire_format import Body

BAD: Final = 400
"""From here on a status says no."""


MESSAGE_MAX: Final = 1_000


class Live(Protocol):
    """An answer that is coming in."""

    status: int
    headers: Mapping[str, str]

    def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes; Unreachable, if the connection goes."""
        ...

    async def close(self) -> None: ...


class Unreachable(Exception):
    """The provider could not be asked, or was cut off: `kind` is the client's word for it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ProviderRefusal(msgspec.Struct, frozen=True):
    """A provider's answer that says no."""

    status: int
    headers: Mapping[str, str]
    data: bytes


Failure = Unreachable | ProviderRefusal
"""How an attempt to ask a provider fails."""


class ProviderError(Exception):
    """A provider said no; `status_code` is the HTTP status."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(f"{status_code}: {message}" if message else str(status_code))
        self.status_code = status_code


def to_errors(failure: Failure) -> tuple[Exception, ...]:
    """A failure as an exception, where no client has a class of its own for it."""
    if isinstance(failure, Unreachable):
        return (failure,)
    return (ProviderError(failure.status, failure.data.decode("utf-8", "replace")[:MESSAGE_MAX]),)


class Served(msgspec.Struct, frozen=True):
    """What the client gets: a body in one piece, or one that comes. `step_key` is whose it is."""

    status: int
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes]
    step_key: str
    close: Callable[[], Awaitable[None]] | None = None


Send = Callable[[Body], Awaitable[Live]]
"""Asks the provider; raises Unreachable."""
