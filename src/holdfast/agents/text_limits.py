"""Text for a model: valid Unicode only, and within a limit."""

from __future__ import annotations

from typing import Any

from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX


def text_of(value: Any) -> str:
    """A result as text for a model: text unchanged, all other values as canonical JSON."""
    if isinstance(value, str):
        return whole(value)
    return canonical.encode(value, bytes_max=BLOB_BYTES_MAX).decode()


def whole(text: str) -> str:
    """The text without lone surrogates, which no request can carry. A surrogate pair becomes one character, a lone
    surrogate the replacement character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shorten(text: str, bytes_max: int) -> str:
    """The text if it fits into this many bytes; else its beginning and its end, with the number of bytes left out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= bytes_max:
        return text
    head, tail = data[: bytes_max * 3 // 4], data[len(data) - bytes_max // 4 :]
    return head_and_tail(head, tail, len(data) - len(head) - len(tail))


def head_and_tail(head: bytes | bytearray, tail: bytes | bytearray, cut: int) -> str:
    """A beginning and an end, with a line between them that says how much is missing; characters cut in two are left
    out."""
    first, last = (part.decode("utf-8", "ignore") for part in (head, tail))
    return f"{first}\n[… {cut:,} bytes left out …]\n{last}"
