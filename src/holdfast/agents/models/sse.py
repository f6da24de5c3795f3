"""Server-sent events of model providers: a parser and an encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX

Sent: TypeAlias = tuple[str, str]
"""An event's name (may be empty) and its data."""


class SseReader:
    """Parses bytes in pieces of any size into whole events."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[Sent]:
        """The events that these bytes complete."""
        *lines, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n")
        for line in lines:
            yield from self._line(line.decode("utf-8", "replace"))

    def _line(self, line: str) -> Iterator[Sent]:
        if not line:
            if self._data:
                yield self._name, "\n".join(self._data)
            self._name, self._data = "", []
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)


def encode_event(name: str, data: Any) -> bytes:
    """One event as bytes; text is sent unchanged, other data as JSON."""
    text = data.encode() if isinstance(data, str) else canonical.encode(data, bytes_max=BLOB_BYTES_MAX)
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + text + b"\n\n"
