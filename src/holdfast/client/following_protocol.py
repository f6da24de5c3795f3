"""What comes of a job: what it says, what was answered, its past walked again or shared. The docstrings are the
contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Protocol

import msgspec

from holdfast.client.records import Reply, Walk
from holdfast.model.jobs import Submitted
from holdfast.model.streams import AttemptSuperseded, Chunk

SAME: Final = msgspec.UNSET
"""For an input: the original's."""


class Following(Protocol):
    def stream(
        self, job_id: str, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """What the job says behind the cursor, on this stream or on all; ends when the job is over."""
        ...

    async def reply(self, job_id: str, *, timeout_s: float | None = None) -> Reply:
        """What was answered to the message that this job is, once the turn it is part of is committed.

        Raises:
            NotOver: Not yet, when the time is up.
            InvalidMove: The job is no message, or ended without an answer; the message says how.
        """
        ...

    async def walk(self, job_id: str) -> Walk:
        """Preview a replay: the recorded result of each call. Runs no code."""
        ...

    async def fork(
        self,
        job_id: str,
        *,
        at: str | int,
        input: Any = SAME,  # noqa: A002 -- the word for it everywhere else
        fork_id: str | None = None,
        request_key: str | None = None,
        edits: Mapping[str, Any] | None = None,
        by: str = "",
        why: str = "",
    ) -> Submitted:
        """A new job exists that has everything this one had recorded before `at`, and will do the rest itself.

        `at` is a step key (that step is done anew) or the number of the first event that is not taken over. `edits`:
        other results, by step key, for reads and answers of models that are taken over; the journal keeps `by` and
        `why`.

        Raises:
            NotFound: No such job, step or event.
            InvalidMove: An effect was under way or uncertain at that point, or a child was; or it is a turn of a
                session.
        """
        ...
