"""Streams: output of running jobs for readers. The journal does not record it, and nothing is decided by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.streams import START, Cursor, Passage, check_passage
from holdfast.store.ports.leases import HeldLease


class StreamAppend(msgspec.Struct, frozen=True):
    """A passage, and the lease under which it was emitted."""

    held: HeldLease
    passage: Passage


def check_stream_append(written: StreamAppend) -> StreamAppend:
    """Return the passage, or raise an error that says what is wrong with it."""
    check_passage(written.passage)
    if written.passage.fence != written.held.fence:
        msg = f"a passage under fence {written.passage.fence} by a holder with fence {written.held.fence}"
        raise InvalidPayload(msg, hint="A holder says things under its own fence.")
    return written


class Streams(Protocol):
    async def append(self, passages: Sequence[StreamAppend]) -> list[bool]:
        """Append the passages, in one commit; returns for each whether it is in its job's stream.

        False: the lease is not the current one, and the passage was not written and never will be. The lease is checked
        while the head is locked, so all output of a holder comes before that of its successor. Sending a passage again
        after a lost reply writes nothing and returns True. Sends a wake-up for `stream:ID`.
        """
        ...

    async def read(self, job_id: str, *, after: Cursor = START, limit: int = 100) -> list[Passage]:
        """Passages that end after the cursor, in order. The first may begin before it."""
        ...

    async def attempts(self, job_id: str) -> dict[str, int]:
        """The last attempt of each step that has emitted anything, by step key."""
        ...
