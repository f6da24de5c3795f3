"""What a run needs from outside, put together once for a process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from holdfast.engine.audit_hook import IoMonitor
from holdfast.engine.crash_points import Points, nothing
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.streams import StreamWriter
from holdfast.engine.telemetry import SILENT, Telemetry
from holdfast.model.evidence import Inspector
from holdfast.model.python_pin import HERE
from holdfast.model.retry import JOB_RETRY, Backoff, Retry
from holdfast.model.time import Micros
from holdfast.model.work import plain_kind
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

Program = Callable[[Execution, Any], Coroutine[Any, Any, Any]]
"""A kind's code: it gets its run and the job's input."""


class RunnerConfig(msgspec.Struct, frozen=True):
    """What a run needs from outside."""

    store: Store
    committer: GroupCommit
    clock: Clock
    programs: Mapping[str, Program]
    retry: Backoff = JOB_RETRY.policy
    """For jobs of kinds that declare none."""
    isolates: bool = False
    """Whether suspects are handed to a process of their own instead of being driven here."""
    strict: bool = False
    points: Points = nothing
    chance: Callable[[], float] = lambda: 0.5
    """Where in its span a retry falls, from 0 to 1."""
    inspect: Inspector | None = None
    """Who looks whether evidence holds."""
    gone: Callable[[str], bool] = lambda _worker: False
    """Whether a worker of this name is proven dead."""
    dead: dict[str, int] = msgspec.field(default_factory=dict)
    """When this process first found each of them so, in the store's time: a job that slept meanwhile does not begin to
    wait anew."""
    scribe: StreamWriter | None = None
    """Who writes down what code says while it runs; None: each run its own."""
    meter: Telemetry = SILENT
    """Who watches."""
    io_monitor: IoMonitor | None = None
    """What is done about job code that does something outside without a tool; None: nothing."""
    short: int = 32
    """A journal of so many events is read whole; in a longer one the last commit of state is looked for."""
    python: str = HERE
    """The Python that code runs on here."""
    execution: type[Execution] = Execution
    """What runs the function of a job. Tests give one of their own, which sees every call."""

    def retry_for(self, kind: str) -> Retry | None:
        """What the agent of this kind was declared with."""
        retry = self._declared(kind, "retry")
        return retry if isinstance(retry, Retry) else None

    def timeout_for(self, kind: str) -> Micros | None:
        """How long a job of this kind may take as a whole. None: no limit."""
        timeout_us = self._declared(kind, "timeout_us")
        return timeout_us if isinstance(timeout_us, int) else None

    def _declared(self, kind: str, setting: str) -> Any:
        agent = getattr(self.program_for(kind), "__self__", None)
        return getattr(agent, setting, None)

    def attempts_for(self, kind: str) -> int:
        """How often the function of such a job may fail."""
        declared = self.retry_for(kind)
        return self.retry.attempts if declared is None else declared.attempts

    def program_for(self, kind: str) -> Program | None:
        """The code for jobs of this kind; for work it does not matter whom it was meant for first."""
        return self.programs.get(kind) or self.programs.get(plain_kind(kind))
