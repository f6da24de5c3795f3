"""Who speaks: the call whose code runs here, and one attempt of it."""

from __future__ import annotations

import contextvars
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.model import canonical
from holdfast.model.limits import CHUNK_BYTES_MAX
from holdfast.model.redaction import redacted

if TYPE_CHECKING:
    from holdfast.engine.streams import Outlet


class Voice(msgspec.Struct, eq=False):
    """One attempt of one call, as it speaks. A struct: one is made for every call, and few say anything."""

    outlet: Outlet | None
    step_key: str
    attempt: int
    offsets: dict[str, int] = {}
    is_over: bool = False

    def say(self, said: Any, stream: str) -> Room:
        """It is said. Await the answer to wait while the store is behind."""
        if self.outlet is not None:
            if isinstance(said, str) and len(said) <= CHUNK_BYTES_MAX // 8:
                said = redacted(said)  # whoever listens here hears what will be stored
                size = len(said)
            else:  # a copy: its author may change the value after it was said
                data = canonical.encode(said, bytes_max=CHUNK_BYTES_MAX)
                said, size = canonical.decode_stored(data), len(data)
            self.outlet.say(self, stream, said, size)
        return Room(self.outlet)


class Room:
    """Awaited, it waits until there is room for more."""

    __slots__ = ("_outlet",)

    def __init__(self, outlet: Outlet | None = None) -> None:
        self._outlet = outlet

    def __await__(self) -> Generator[Any, None, None]:
        if self._outlet is not None:
            yield from self._outlet.room().__await__()


VOICE: Final[contextvars.ContextVar[Voice | None]] = contextvars.ContextVar("holdfast_voice", default=None)
"""Who speaks here; None outside of calls."""
