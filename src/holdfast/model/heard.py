"""What a job has been told, and what it has asked, as its history keeps it."""

from __future__ import annotations

from typing import Any

import msgspec


class Signal(msgspec.Struct, frozen=True):
    """A letter of a name that code may wait for."""

    name: str
    mail_seq: int
    body: Any


class Requested(msgspec.Struct, frozen=True):
    """A request to a model: where it was made, and the digests of all its parts."""

    place: str
    parts: tuple[str, ...]


class Approval(msgspec.Struct):
    """A question to a person about one call with exactly these arguments, and the answer, if there is one."""

    step_key: str
    args_digest: str
    expires_at: int
    decision: str | None = None
    by: str = ""
    why: str = ""
    seq: int | None = None
    at: int = 0
