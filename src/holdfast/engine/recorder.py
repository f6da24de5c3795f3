"""Where a run's facts go, as the run sees it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.model.append import NOTHING, Extras
from holdfast.model.events import Event
from holdfast.model.ledger import CallRow


class Stamp(msgspec.Struct, frozen=True, gc=False):
    """A fact's place in the order of the job's facts, and its job time."""

    seq: int
    at: int


class Recorder(Protocol):
    """Where a run's facts go. They are in order at once, and durable soon."""

    def record(
        self,
        event: Event,
        *,
        row: CallRow | None = None,
        extras: Extras = NOTHING,
        guarded: bool = False,
        progress: bool = False,
        body: bytes | None = None,
        at: int | None = None,
    ) -> Stamp:
        """The event is in the journal or will be, after all before it. `body`: as `chain` writes it, where it is known
        already. `at`: its job time, if that is not now; job time does not go back."""
        ...

    async def durable(self) -> None:
        """Everything recorded so far is on disk."""
        ...
