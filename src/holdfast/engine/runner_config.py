"""Runner configuration: what runs of jobs need from outside, put together once for a process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from holdfast.engine.audit_hook import IoMonitor
from holdfast.engine.crash_points import Points, ignore_point
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
"""The code of a kind: it gets its execution and the job's input."""


class RunnerConfig(msgspec.Struct, frozen=True):
    """Collaborators and settings of the runs of one process."""

    store: Store
    committer: GroupCommit
    clock: Clock
    programs: Mapping[str, Program]
    retry: Backoff = JOB_RETRY.policy
    """Retry policy for jobs of kinds that declare none."""
    isolates: bool = False
    """Whether suspects are handed to an isolated process instead of being run here."""
    strict: bool = False
    points: Points = ignore_point
    chance: Callable[[], float] = lambda: 0.5
    """Random position of a retry within its span, from 0 to 1."""
    inspect: Inspector | None = None
    """Checks whether evidence holds."""
    gone: Callable[[str], bool] = lambda _worker: False
    """Whether a worker of this name is proven dead."""
    dead: dict[str, int] = msgspec.field(default_factory=dict)
    """When this process first found each of them dead, in store time: a job that was suspended meanwhile does not wait
    anew."""
    scribe: StreamWriter | None = None
    """Writes the output streams; None: each run has its own writer."""
    meter: Telemetry = SILENT
    """Receives counts and timings."""
    io_monitor: IoMonitor | None = None
    """Handles I/O of job code without a tool; None: nothing is reported."""
    short: int = 32
    """A journal of up to this many events is read whole; in a longer one the last checkpoint is looked for."""
    python: str = HERE
    """The Python version that code runs on here."""
    execution: type[Execution] = Execution
    """The class that runs the function of a job. Tests pass their own, which sees every call."""

    def retry_for(self, kind: str) -> Retry | None:
        """The retry policy that the agent of this kind declares."""
        retry = self._find_setting(kind, "retry")
        return retry if isinstance(retry, Retry) else None

    def timeout_for(self, kind: str) -> Micros | None:
        """How long a job of this kind may take as a whole. None: no limit."""
        timeout_us = self._find_setting(kind, "timeout_us")
        return timeout_us if isinstance(timeout_us, int) else None

    def _find_setting(self, kind: str, setting: str) -> Any:
        agent = getattr(self.program_for(kind), "__self__", None)
        return getattr(agent, setting, None)

    def attempts_for(self, kind: str) -> int:
        """How often the function of a job of this kind may fail."""
        declared = self.retry_for(kind)
        return self.retry.attempts if declared is None else declared.attempts

    def program_for(self, kind: str) -> Program | None:
        """The code for jobs of this kind; for a work item, whichever agent it was first addressed to."""
        return self.programs.get(kind) or self.programs.get(plain_kind(kind))
