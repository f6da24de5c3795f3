"""Streams: what running code says while it runs. Nothing rests on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.streams import START, Cursor, Passage, check_passage
from holdfast.store.ports.leases import Held


class Said(msgspec.Struct, frozen=True):
    """A passage, and the lease under which it was said."""

    held: Held
    passage: Passage


def check_said(said: Said) -> Said:
    """The passage as it can be written, or an error that says what is wrong with it."""
    check_passage(said.passage)
    if said.passage.fence != said.held.fence:
        msg = f"a passage under fence {said.passage.fence} by a holder with fence {said.held.fence}"
        raise InvalidPayload(msg, hint="A holder says things under its own fence.")
    return said


class Streams(Protocol):
    async def append(self, said: Sequence[Said]) -> list[bool]:
        """Whether each passage is in its job's stream; all of it in one commit.

        False: the lease is not the current one, and nothing of the passage was written, nor ever will be. The lease is
        judged while the head is locked, so what a holder said lies in front of what its successor says. Sending a
        passage again after a lost reply writes nothing and says True. Whoever waits for `stream:ID` is told.
        """
        ...

    async def read(self, job_id: str, *, after: Cursor = START, limit: int = 100) -> list[Passage]:
        """Passages that end behind the cursor, in order. The first may begin before it."""
        ...

    async def attempts(self, job_id: str) -> dict[str, int]:
        """The last attempt of each step that has said anything, by step key."""
        ...
