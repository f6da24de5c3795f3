"""Telemetry: reports what a process does, for counts, timings and spans. Nothing that is recorded depends on it.

The engine reports what begins, and how it ended. The application that sets the process up decides what is made of it;
the default does nothing, and costs a call of an empty function. Nothing here has a clock: an implementation that
measures brings its own.

Labels are few and bounded: names of tools and models come from code, never from a job's input. Job ids are there for
spans, and are not labels of any metric.
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


class TimedOperation:
    """An operation in progress. `over` is called once, in the same task."""

    __slots__ = ()

    def over(self, how: str, detail: Any = None) -> None:
        """The operation has ended like this. `detail` is an error, or the usage of an answer."""


class Telemetry:
    """Default telemetry: does nothing. Implementations override what they observe."""

    __slots__ = ()

    def commit(self, appends: Sequence[Append]) -> TimedOperation:
        """A commit with these appends. It ends `committed`, or as an error's code."""
        return NOTHING

    def attempt(self, grant: Grant) -> TimedOperation:
        """A claimed job runs. It ends as a status, or `lost`, or `broken`."""
        return NOTHING

    def call(self, owner: Owner, name: str, effect: str, step_key: str) -> TimedOperation:
        """A call's own code runs. It ends `succeeded`, `refused` or `failed`, with the error; or `cancelled`."""
        return NOTHING

    def model(self, owner: Owner, model: str, step_key: str) -> TimedOperation:
        """A request to a model. It ends `answered` with its usage, `refused` with the provider's error, `again` if it
        is repeated, or `given_up`."""
        return NOTHING

    def record_claims(self, grants: Sequence[Grant]) -> None:
        """These jobs were claimed, perhaps none."""

    def record_refusal(self, error: HoldfastError) -> None:
        """The store rejected or failed an append, a claim, a renewal or a sweep."""

    def record_replay(self) -> None:
        """The result of a call came from the journal."""

    def record_cache_lookup(self, *, hit: bool) -> None:
        """The response cache was queried."""

    def record_unproven(self) -> None:
        """The evidence of a checkpoint does not hold."""

    def record_stall(self) -> None:
        """A job is held because its code made no progress for too long."""

    def record_isolation(self, how: str) -> None:
        """A suspect runs isolated in a child process (`started`), is no suspect any more (`cleared`), or is a dead
        letter because that process died (`convicted`)."""

    def record_sweep(self, stats: SweepStats) -> None:
        """A sweep has ended."""


NOTHING: Final = TimedOperation()
SILENT: Final = Telemetry()
