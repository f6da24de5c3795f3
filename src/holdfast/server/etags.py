"""ETags: a reader that polls says what it has, and is told when that is still so."""

from __future__ import annotations

from holdfast.model import canonical


def of(body: bytes) -> str:
    """The strong tag of these bytes."""
    return f'"{canonical.hex_digest(body)[:32]}"'


def of_head(seq: int, head_hash: bytes, *asked: object) -> str:
    """The tag of what a journal up to this head answers to a question: known before anything is read."""
    return of(f"{seq}/{head_hash.hex()}/{asked!r}".encode())


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Whether the reader has it: tags are compared weakly, as RFC 9110 has it for this header."""
    if if_none_match is None:
        return False
    known = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return "*" in known or tag.removeprefix("W/") in known
