"""Isolation, the child's end: a worker that runs one suspect alone in its process.

It claims the one job that its parent hands over, runs it until it ends, waits or makes progress, and then ends. The
parent's end is `runtime.isolation`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.engine.job_runner import JobRun
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.telemetry import NOTHING, Telemetry, TimedOperation
from holdfast.errors import Unavailable
from holdfast.model.append import Append
from holdfast.model.crash_suspects import CLEARED, is_suspect
from holdfast.store.ports.leases import ClaimRequest, HeldLease
from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.isolation")


class ProgressMeter(Telemetry):
    """Calls its subscriber when a commit with progress is durable."""

    __slots__ = ("notify",)

    def __init__(self) -> None:
        self.notify: Callable[[], None] = lambda: None

    def subscribe(self, callback: Callable[[], None]) -> None:
        self.notify = callback

    def commit(self, appends: Sequence[Append]) -> TimedOperation:
        if not any(append.progress for append in appends):
            return NOTHING
        return _Commit(self)


class _Commit(TimedOperation):
    __slots__ = ("_meter",)

    def __init__(self, meter: ProgressMeter) -> None:
        self._meter = meter

    def over(self, how: str, detail: Any = None) -> None:
        if how == "committed":
            self._meter.notify()


class IsolatedWorker(Worker):
    """Worker of one job, which another worker hands over. Ends by itself."""

    def __init__(
        self, config: RunnerConfig, name: str, new_token: Callable[[], str], handed: HeldLease, **options: Any
    ) -> None:
        """`options`: lease renewal, as for any worker."""
        super().__init__(config, name, new_token, concurrency=1, serving=True, **options)
        self._handed = handed
        self.is_store_away = False
        """Whether the job could not be run because the store was unavailable."""

    def clear(self) -> None:
        """The job has made progress: releases it to the other workers, unless it is isolated for dying daily."""
        for run in self._runs.values():
            if is_suspect(run.grant.takeovers):
                run.wind_down(CLEARED)

    def _make_ask(self, token: str, free: int) -> ClaimRequest:
        return ClaimRequest(
            worker=self.name,
            token=token,
            queues=self._queues,
            incarnation=self._renewal.incarnation,
            handed=self._handed,
        )

    async def _claim(self) -> bool:
        claims = self._claims
        await super()._claim()
        if self._claims > claims and not self._tasks:
            log.info("job %s is no longer available: released or taken over", self._handed.job_id)
            self.drain()
        return False

    def _discard_task(self, task: asyncio.Task[None]) -> None:
        super()._discard_task(task)
        self.drain()

    def _note_failure(self, run: JobRun, error: Exception) -> None:
        self.is_store_away = isinstance(error, Unavailable)
