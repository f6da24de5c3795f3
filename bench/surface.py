"""Holdfast as people use it: an application, an agent, a tool, a worker in this process."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import Any, Literal

import holdfast as hf
from bench.contest import Contestant
from bench.material import GROUP, RESULT, STEPS, STEPS_PER_JOB, TURN_BYTES
from bench.places import Place
from holdfast.engine.retention import prune
from holdfast.model.retention import PruneMode, RetentionPolicy
from holdfast.model.states import Status
from holdfast.runtime.process import Process


class Surface(Contestant, ABC):
    """An application at work on its own store."""

    durability: Literal["output", "strict"] = "output"

    async def open(self) -> None:
        self.app = hf.App(self.place.address, concurrency=GROUP, durability=self.durability)

        @self.app.tool(effect="read_only")
        async def fetch(number: int) -> dict[str, Any]:
            return {**RESULT, "status": number}

        self.fetch = fetch
        self.declare()
        self._stack = contextlib.AsyncExitStack()
        self.process: Process = await self._stack.enter_async_context(self.app.running())

    @abstractmethod
    def declare(self) -> None:
        """The agents of this contestant are there."""

    async def close(self) -> None:
        await self._stack.aclose()


# ── steps in series ───────────────────────────────────────────────────────────────────────────────


class Serial(Surface):
    """One job: submitted, claimed, driven, completed, its result read. All of that is in the time."""

    rows_per_operation = STEPS

    def declare(self) -> None:
        fetch = self.fetch

        @self.app.agent
        async def serial(steps: int) -> int:
            for number in range(steps):
                await fetch(number)
            return steps

        self.serial = serial

    async def operation(self, number: int) -> None:
        steps = self.rows_per_operation
        assert await self.serial(steps) == steps


class Strict(Serial):
    name = f"holdfast, {STEPS} steps, strict"
    durability = "strict"


class Reads(Serial):
    """Ten times as many, so that what a job costs beside its steps weighs less, as it does in a long one."""

    name = f"holdfast, {10 * STEPS} reads, output rule"
    rows_per_operation = 10 * STEPS


class Idle(Serial):
    """A worker that has nothing to do."""

    name = "holdfast, idle"


# ── jobs through the queue ────────────────────────────────────────────────────────────────────────


class Queue(Surface):
    """Many small jobs: submitted together, driven by one worker, all of them durably completed."""

    name = f"holdfast queue, {GROUP} at a time"

    def __init__(self, place: Place, jobs: int) -> None:
        super().__init__(place)
        self.rows_per_operation = jobs
        self.finished = 0
        self.before = 0

    def declare(self) -> None:
        fetch = self.fetch

        @self.app.agent
        async def small(nth: int) -> int:
            for number in range(STEPS_PER_JOB):
                await fetch(number)
            self.finished += 1
            if self.finished == self.rows_per_operation:
                self.last.set()
            return nth

        self.small = small

    async def operation(self, number: int) -> None:
        self.finished, self.last = 0, asyncio.Event()
        jobs = range(self.rows_per_operation)
        await self.process.store.jobs.submit_many([self.small.draft({"nth": nth}) for nth in jobs])
        await self.last.wait()
        # The last function has ended; its end is on its way to the disk.
        while await self._count_completed() < self.before + self.rows_per_operation:  # noqa: ASYNC110
            await asyncio.sleep(0.0005)
        self.before += self.rows_per_operation
        assert self.finished == self.rows_per_operation, "a function ran twice"

    async def _count_completed(self) -> int:
        return (await self.process.store.jobs.counts()).get(Status.COMPLETED, 0)


class StrictQueue(Queue):
    name = f"holdfast queue, {GROUP} at a time, strict"
    durability = "strict"


# ── a conversation ────────────────────────────────────────────────────────────────────────────────


class Chat(Surface):
    """The built-in assistant with a scripted model: a message sent, a turn taken, an answer read. As much is said as in
    the turns of the other contestants."""

    name = "holdfast assistant, message to answer"

    def declare(self) -> None:
        half = TURN_BYTES // 2
        self.said = "what is said " * (half // 13)
        self.assistant = self.app.assistant("bench", model=["answered at length " * (half // 19)])
        self.conversation = 0

    async def begin(self) -> None:
        self.conversation += 1

    async def operation(self, number: int) -> None:
        assert await self.assistant.session(f"session-{self.conversation}").send(self.said)


class PrunedChat(Chat):
    """The same, with the journals of turns that are over removed now and then, as `holdfast prune` does. What was said
    is in the session; only the journals of the last turns are there to be replayed."""

    name = "holdfast assistant, pruned every 20 turns"
    every = 20
    policy = RetentionPolicy(older_than_us=1, how=PruneMode.REMOVE, keys_live_us=0, blob_grace_us=1)

    async def operation(self, number: int) -> None:
        await super().operation(number)
        if number % self.every == self.every - 1:
            await prune(self.process.store, self.policy)
            await self.place.vacuum()
