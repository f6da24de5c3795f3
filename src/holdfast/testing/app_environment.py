"""Test environment of an application: a store of its own, and a clock that skips the time in which all jobs sleep.

    async with running(app):
        assert await remind("Ada") == "reminded"      # it sleeps for three days; the test does not

While a caller waits for a result and every job sleeps, the clock skips to the next due time at once. While a job runs,
time passes normally, so no timeout fires early under a slow tool. Without a waiting caller the clock does not skip;
`process.clock.advance("1h")` moves it by hand.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from holdfast.agents.threads import in_thread
from holdfast.engine.audit_hook import make_io_monitor
from holdfast.engine.evidence import EvidenceChecker
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.host_processes import HostProcesses
from holdfast.engine.recovery import RecoveryRules
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.streams import StreamWriter
from holdfast.model.ids import RandomIds
from holdfast.runtime.app import App
from holdfast.runtime.process import Process
from holdfast.runtime.store_opener import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.testing.time_skipping import TimeSkippingClock, find_idle_us
from holdfast.worker.maintenance import Maintenance, Neighbours
from holdfast.worker.worker import Worker


class AppEnvironment(Process):
    """A process of an application with a time-skipping clock. Tests may inspect `store` and `clock`."""

    def __init__(
        self, *args: Any, clock: TimeSkippingClock, moved: asyncio.Event, queues: tuple[str, ...]
    ) -> None:
        super().__init__(*args)
        self.clock = clock
        self._moved = moved
        self._queues = queues
        self._awaited = 0
        clock.on_skip = self._wake_queues
        self._skipping = asyncio.get_running_loop().create_task(
            self._skip_time(), name="holdfast-time-skipping"
        )

    async def result(self, job_id: str) -> Any:
        with self._count_waiter():
            return await super().result(job_id)

    @contextmanager
    def _count_waiter(self) -> Iterator[None]:
        self._awaited += 1
        self._moved.set()
        try:
            yield
        finally:
            self._awaited -= 1

    async def _skip_time(self) -> None:
        while True:
            await self._moved.wait()
            self._moved.clear()
            left_us = await find_idle_us(self.store, self.clock) if self._awaited else None
            if left_us is not None:
                self.clock.advance_us(left_us)

    def _wake_queues(self) -> None:
        """Wake the queues: something may be due."""
        for queue in self._queues:
            self.store.wakeups.hint(f"queue:{queue}")

    async def close(self) -> None:
        self._skipping.cancel()
        await asyncio.wait([self._skipping])
        await super().close()


@asynccontextmanager
async def running(
    app: App, *, store: str = "memory:", clock: TimeSkippingClock | None = None
) -> AsyncIterator[AppEnvironment]:
    """Run the application in the block, on its own store and a time-skipping clock; afterwards everything is closed.

    `store` is the address of a store that can use this clock: `memory:`, or a SQLite file.
    """
    loop = asyncio.get_running_loop()
    opening = loop.create_task(
        _open_environment(app, store, TimeSkippingClock(SystemClock()) if clock is None else clock)
    )
    before = app._processes.get(loop)  # noqa: SLF001 - replaces the application's own process
    app._processes[loop] = opening  # noqa: SLF001
    try:
        process = await opening
        try:
            yield process
        finally:
            await process.close()
    finally:
        del app._processes[loop]  # noqa: SLF001
        if before is not None:
            app._processes[loop] = before  # noqa: SLF001


async def _open_environment(app: App, address: str, clock: TimeSkippingClock) -> AppEnvironment:
    moved = asyncio.Event()

    async def led(_name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = await call(*args, **options)
        moved.set()
        return result

    opened = await open_store(address, clock=clock)
    store = InterceptedStore(opened, led)
    store.wakeups, store.jobs = opened.wakeups, opened.jobs  # reading them changes nothing
    neighbours = Neighbours(HostProcesses(clock.boot()))
    checker = EvidenceChecker(Path.cwd())
    queues = tuple(sorted({agent.queue for agent in app.agents.values()}))
    name = neighbours.my_name("rehearsal")
    stream_writer, ids = StreamWriter(store.streams), RandomIds()
    config = RunnerConfig(
        store,
        GroupCommit(store.journal),
        clock,
        app.programs(),
        strict=app.strict,
        gone=neighbours.is_dead,
        inspect=lambda pack: in_thread(lambda: checker.check_all(pack)),
        scribe=stream_writer,
        io_monitor=make_io_monitor(app.choose_on_undurable("warn")),
    )
    worker = Worker(config, name, lambda: ids.new("claim"), queues=queues, concurrency=app.concurrency)
    maintenance = Maintenance(store, clock, neighbours, RecoveryRules(by=name), random.random)
    return AppEnvironment(store, worker, stream_writer, maintenance, clock=clock, moved=moved, queues=queues)
