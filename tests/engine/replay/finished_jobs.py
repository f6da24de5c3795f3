"""Jobs that a worker has driven to their end, in a store, on a loop with virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.engine import runner_config
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.job_runner import JobRun
from holdfast.engine.replay_check import ReplayResult, replay
from holdfast.engine.runner_config import RunnerConfig
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import DEFAULT_QUEUE, JobDraft
from holdfast.model.time import SECOND
from holdfast.store.contract import Store
from holdfast.store.memory.store import MemoryStore
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.virtual_loop import LoopClock, SimLoop
from tests.engine.replay.stage import Program, Tape, World

T = TypeVar("T")


@dataclass
class Stage:
    """A store on a loop of its own, and what programs did for real on it."""

    loop: SimLoop = field(default_factory=SimLoop)
    live: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = LoopClock(self.loop)
        self.store: Store = MemoryStore(self.clock, SequentialIds())

    def program(self, body: Program, seed: int = 0) -> runner_config.Program:
        """The program as a kind's code; when answers come is the seed's matter."""
        chance = random.Random(seed)

        async def run(drive: Execution, _given: Any) -> Any:
            world = World(
                drive, Tape([], self.clock.wall_us), lambda _: chance.choice([0, 0, 0.1, 0.5, 1, 2])
            )
            world.live, world.trace = self.live, self.trace
            return await body(world)

        return run

    def finish(self, body: Program, seed: int = 0) -> str:
        """A job of this program, completed."""

        async def go() -> str:
            submitted = await self.store.jobs.submit(JobDraft(kind="program"))
            assert await self.drive({"program": self.program(body, seed)}) == "completed"
            return submitted.job_id

        return self.run(go)

    async def drive(self, programs: dict[str, runner_config.Program]) -> str:
        ask = ClaimRequest(worker="w", token="t", queues=(DEFAULT_QUEUE,), ttl_us=3600 * SECOND)
        (grant,) = await self.store.leases.claim(ask)
        return await JobRun(
            RunnerConfig(self.store, GroupCommit(self.store.journal), self.clock, programs), grant
        ).go()

    def replay(self, job_id: str, body: Program, seed: int = 99) -> ReplayResult:
        """The program over the job's journal, on another timing."""
        self.live.clear()
        self.trace.clear()
        program = self.program(body, seed)
        return self.run(lambda: replay(self.store, job_id, program, clock=self.clock))

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.loop.run_until_complete(work())

    def close(self) -> None:
        left = asyncio.all_tasks(self.loop)
        assert not left, "a run leaves nothing behind"
        self.loop.close()
