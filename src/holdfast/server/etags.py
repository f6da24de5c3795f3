"""ETags: a polling reader sends the tag that it has, and gets 304 while that is current."""

from __future__ import annotations

from holdfast.model import canonical


def of(body: bytes) -> str:
    """The strong tag of these bytes."""
    return f'"{canonical.hex_digest(body)[:32]}"'


def of_head(seq: int, head_hash: bytes, *parameters: object) -> str:
    """The tag of a response that depends only on a journal up to this head: computed before anything is read."""
    return of(f"{seq}/{head_hash.hex()}/{parameters!r}".encode())


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Whether the reader has this version: tags are compared weakly, as RFC 9110 requires for this header."""
    if if_none_match is None:
        return False
    tags = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags
