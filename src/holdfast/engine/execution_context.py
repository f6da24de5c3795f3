"""Execution context: the interface of an execution for its parts (side effects, approvals, budgets).

The execution makes these parts, and imports their classes. They know the execution by this protocol only, so imports
go one way.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AbstractContextManager
from typing import Any, Protocol

from holdfast.engine.durable_call import CallPolicy, DurableCall, Owner
from holdfast.engine.journal_writer import Recorder, Stamp
from holdfast.engine.task_scopes import TaskScope
from holdfast.engine.wait_set import WaitSet
from holdfast.model.append import NOTHING, Extras
from holdfast.model.budget import Spent
from holdfast.model.events import Event
from holdfast.model.replay_history import History, Recorded
from holdfast.store.clock import Clock


class ExecutionContext(Protocol):
    """The run of a job, as its side effects, approvals and budgets see it. `execution.Execution` implements it."""

    @property
    def owner(self) -> Owner: ...

    @property
    def history(self) -> History: ...

    @property
    def recorder(self) -> Recorder: ...

    @property
    def waits(self) -> WaitSet: ...

    @property
    def clock(self) -> Clock:
        """Store time, as this run measures it."""
        ...

    @property
    def host_clock(self) -> Clock: ...

    @property
    def stopping(self) -> bool: ...

    # ── time ──────────────────────────────────────────────────────────────────────────────────────

    def job_time(self, due_at: int) -> int: ...

    def latest_us(self) -> int: ...

    def dead_at(self, worker: str) -> int | None: ...

    # ── events, and results in their turn ─────────────────────────────────────────────────────────

    def note(self, event: Event, **options: Any) -> Stamp: ...

    async def turn(self, seq: int, at: int) -> None: ...

    async def wait_until_durable(self, stamp: Stamp) -> None: ...

    async def hand_over(self, stamp: Stamp) -> None: ...

    async def wait_for_outcome(self, recorded: Recorded) -> bool: ...

    def recall(self, recorded: Recorded, call: DurableCall) -> Any: ...

    def deliver_result(self, value: Any, error: Exception | None, call: DurableCall, key: str) -> Any: ...

    async def record_cancelled(
        self, key: str, digest: str, generation: int, extras: Extras = NOTHING
    ) -> None: ...

    # ── one call ──────────────────────────────────────────────────────────────────────────────────

    async def clear(self, call: DurableCall, key: str) -> None: ...

    async def afford(self, place: TaskScope, step_key: str, ahead: Spent) -> None: ...

    def perform(
        self,
        call: DurableCall,
        place: TaskScope,
        step_key: str,
        key: str = "",
        longest_us: int | None = None,
    ) -> Coroutine[Any, Any, tuple[Any, Exception | None]]: ...

    def record_retry(
        self,
        key: str,
        digest: str,
        generation: int,
        terms: CallPolicy,
        error: Exception,
        attempt: int,
        *,
        sent_nothing: bool = False,
        is_probe: bool = False,
        next_at: int = 0,
    ) -> int: ...

    async def wait_for_attempt(self, at: int) -> None: ...

    def busy(self) -> AbstractContextManager[None]: ...

    def recovering(self, step_key: str) -> AbstractContextManager[None]: ...

    def mark_settled(self, step_key: str) -> None: ...

    def check_lease(self) -> None: ...

    def fail(self, error: Exception) -> None: ...
