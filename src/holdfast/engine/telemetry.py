"""Somebody who watches a process work: counts it, times it, draws it as spans. No fact depends on it.

The engine says what begins, and how it ended. What is made of that is for whoever put the process together; without
anybody it is nothing, and costs a call of an empty function. Nothing here has a clock: whoever measures brings one.

What is told is few and of few kinds: names of tools and models come from code, never from a job's input. Job ids are
there for spans, and are no labels of any count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from holdfast.engine.durable_call import Owner
    from holdfast.engine.recovery import SweepStats
    from holdfast.errors import HoldfastError
    from holdfast.model.append import Append
    from holdfast.model.lease import Grant


class Timed:
    """Something that has begun. `over` is said once, in the same task."""

    __slots__ = ()

    def over(self, how: str, told: Any = None) -> None:
        """It ended so. `told` is what there is to say beside: an error, what an answer used up."""


class Telemetry:
    """Watches nothing. Whoever does overrides what he wants to know."""

    __slots__ = ()

    def commit(self, appends: Sequence[Append]) -> Timed:
        """A trip to the disk with these appends. It ends `committed`, or as an error's code."""
        return NOTHING

    def attempt(self, grant: Grant) -> Timed:
        """A claimed job is driven. It ends as a status, or `lost`, or `broken`."""
        return NOTHING

    def call(self, owner: Owner, name: str, effect: str, step_key: str) -> Timed:
        """A call's own code runs. It ends `succeeded`, `refused` or `failed`, with the error."""
        return NOTHING

    def model(self, owner: Owner, model: str, step_key: str) -> Timed:
        """A model is asked. It ends `answered` with what that used up, `refused` with what was said against it, `again`
        if it is asked once more, or `given_up`."""
        return NOTHING

    def record_claims(self, grants: Sequence[Grant]) -> None:
        """These leases were had, perhaps none."""

    def record_refusal(self, error: HoldfastError) -> None:
        """The store said no: to an append, a claim, a renewal or a sweep."""

    def record_replay(self) -> None:
        """A recorded call was handed back instead of made."""

    def record_cache_lookup(self, *, hit: bool) -> None:
        """The cache of answers was asked."""

    def record_unproven(self) -> None:
        """The evidence of a checkpoint does not hold."""

    def record_stall(self) -> None:
        """A job is held because its code made no progress for too long."""

    def record_isolation(self, how: str) -> None:
        """A suspect runs alone in a child process (`started`), is none any more (`cleared`), or is a dead letter
        because that process died (`convicted`)."""

    def record_sweep(self, stats: SweepStats) -> None:
        """A sweep is over."""


NOTHING: Final = Timed()
SILENT: Final = Telemetry()
