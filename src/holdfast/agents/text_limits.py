"""Text for a model: whole characters only, and not more of it than somebody decided."""

from __future__ import annotations

from typing import Any

from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX


def text_of(value: Any) -> str:
    """A result as a model reads it: text as it is, everything else as canonical JSON."""
    if isinstance(value, str):
        return whole(value)
    return canonical.encode(value, bytes_max=BLOB_BYTES_MAX).decode()


def whole(text: str) -> str:
    """The text without halves of characters: no request could carry them. Two halves that belong together are one
    character, one alone is shown as unreadable."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shorten(text: str, bytes_max: int) -> str:
    """The text, if it has no more bytes than that; else its beginning and its end, and how much is missing between."""
    data = text.encode("utf-8", "replace")
    if len(data) <= bytes_max:
        return text
    head, tail = data[: bytes_max * 3 // 4], data[len(data) - bytes_max // 4 :]
    return head_and_tail(head, tail, len(data) - len(head) - len(tail))


def head_and_tail(head: bytes | bytearray, tail: bytes | bytearray, cut: int) -> str:
    """A beginning and an end, with a line between them that says how much is missing; characters that were cut through
    are left out."""
    first, last = (part.decode("utf-8", "ignore") for part in (head, tail))
    return f"{first}\n[… {cut:,} bytes left out …]\n{last}"
