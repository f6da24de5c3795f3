"""A job with a long journal whose worker died: how long until its first new step, and whether an old one runs again.

The journal is written by a worker whose lease is over at once. Then a new worker starts: it claims the job, reads and
checks the journal, replays it, and comes to the first step that is not recorded. The clock runs from start to there.

Beside it the same job with a checkpoint behind its last step: of that journal only the end is read, however long it is.
And a short job that slept before each of its steps (`asyncio.sleep`): no sleep that is recorded is slept again.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Final

import holdfast as hf
from bench.arena import Arena
from bench.contest import middle, open_contestants, play
from bench.material import AT, GROUP, RESULT
from bench.ours import Holdfast
from bench.peers.catalogue import LEFT_OUT, make_entrants
from bench.places import Place
from bench.raw import RAW
from bench.report import Contest, Findings, make_goal
from holdfast.engine import journal_loader
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.runner_config import RunnerConfig
from holdfast.model import canonical
from holdfast.model.append import Holder, advance_holder, append_of
from holdfast.model.checkpoint_snapshot import pack_snapshot, take_snapshot
from holdfast.model.events import CheckpointSaved, StepFinished
from holdfast.model.hash_chain import Head
from holdfast.model.ids import RandomIds
from holdfast.model.limits import EVENTS_PER_APPEND_MAX
from holdfast.model.replay_history import History
from holdfast.model.states import Status
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimRequest
from holdfast.worker.worker import Worker

AT_MOST_MS: Final = {1_000: 20.0, 10_000: 150.0}
FROM_CHECKPOINT_MS: Final = 5.0
AFTER_SLEEPS_MS: Final = 50.0

SLEEPS: Final = 20
SLEEP_S: Final = 0.1


class Resume(Holdfast):
    name = "holdfast, to the first new step"

    def __init__(self, place: Place, steps: int) -> None:
        super().__init__(place)
        self.steps = steps
        self.again = 0
        self.clock = SystemClock()
        self.ids = RandomIds()
        self.app = hf.App(place.address)

        @self.app.tool(effect="read_only")
        async def fetch(number: int) -> dict[str, Any]:
            if number < steps:
                self.again += 1
            else:
                self.new.set()
            return RESULT

        @self.app.agent
        async def long() -> int:
            for number in range(await hf.restore(0), steps + 1):
                await fetch(number)
            return steps

        self.long = long
        self.fetch = fetch

    async def begin(self) -> None:
        """A job with so many recorded steps, and nobody who drives it."""
        await self.store.jobs.submit(self.long.draft({}))
        ask = ClaimRequest(worker="died", token=self.ids.new("claim"), queues=("default",), limit=1, ttl_us=0)
        (grant,) = await self.store.leases.claim(ask)
        self.job_id = grant.job_id
        head = Head(grant.head_seq, grant.head_hash)
        holder = Holder(grant.job_id, grant.namespace, grant.fence, grant.lease_token, head)
        facts = [_make_step(number) for number in range(self.steps)]
        for first in range(0, self.steps, EVENTS_PER_APPEND_MAX):
            part = facts[first : first + EVENTS_PER_APPEND_MAX]
            append = append_of(holder, part, at=[self.at(first + nth) for nth in range(len(part))])
            await self.store.journal.append(append)
            holder = advance_holder(holder, append)
        await self.commit(holder)
        desk = RunnerConfig(self.store, GroupCommit(self.store.journal), self.clock, self.app.programs())
        self.worker = Worker(desk, "bench", lambda: self.ids.new("claim"))
        self.new = asyncio.Event()

    def at(self, number: int) -> int:
        """When this step was recorded."""
        return AT

    async def commit(self, holder: Holder) -> None:
        """The journal ends as it should before its worker dies: here, with its last step."""

    async def operation(self, number: int) -> None:
        self.working = asyncio.create_task(self.worker.work())
        await self.new.wait()

    async def end(self) -> None:
        """The job is over; one that was only given back would be claimed in the place of the next."""
        while (await self.store.jobs.head(self.job_id)).status is not Status.COMPLETED:
            await self.store.wakeups.wait(frozenset({f"job:{self.job_id}"}), 0.05)
        self.worker.drain()
        await self.working


class ResumeFromCheckpoint(Resume):
    name = "holdfast, from a checkpoint"

    async def commit(self, holder: Holder) -> None:
        history = History()
        journal_loader.replay_events(self.job_id, await self.store.journal.read(self.job_id), history)
        saved = CheckpointSaved(1, state=self.steps, carries=pack_snapshot(take_snapshot(history)))
        await self.store.journal.append(append_of(holder, [saved], at=AT))


class ResumeAfterSleeps(Resume):
    name = "holdfast, after recorded sleeps"

    def __init__(self, place: Place) -> None:
        super().__init__(place, SLEEPS)
        fetch = self.fetch

        @self.app.agent
        async def sleepy() -> int:
            for number in range(SLEEPS + 1):
                if number < SLEEPS:
                    await asyncio.sleep(SLEEP_S)
                await fetch(number)
            return SLEEPS

        self.long = sleepy

    async def begin(self) -> None:
        self.began = self.clock.wall_us()
        await super().begin()
        await asyncio.sleep(SLEEPS * SLEEP_S)  # until the times in the journal are over

    def at(self, number: int) -> int:
        return self.began + round((number + 1) * SLEEP_S * 1_000_000)


def _make_step(number: int) -> StepFinished:
    digest = canonical.hex_digest(canonical.encode({"number": number}))
    return StepFinished(step_key=f"0/fetch#{number + 1}", args_digest=digest, result=RESULT)


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        for steps in arena.scale.histories:
            await _measure_resumes(arena, store, steps, findings)
        await _measure_resumes_after_sleeps(arena, store, findings)


async def _measure_resumes(arena: Arena, store: str, steps: int, findings: Findings) -> None:
    peers = make_entrants("resume", store, arena.peers, steps=steps, concurrency=GROUP, result=RESULT)
    contestants = await arena.enter(
        store,
        functools.partial(RAW[store].history, steps=steps),
        functools.partial(Resume, steps=steps),
        functools.partial(ResumeFromCheckpoint, steps=steps),
        *peers,
    )
    absent: list[str] = []
    async with open_contestants(contestants, absent):
        results = await play(contestants, rounds=arena.scale.rounds, operations=1)
    raw, ours, committed, *others = results
    contest = Contest("resume", f"after {steps:,} steps", store)
    findings.rows += contest.table(results, "to the first new step", middle, raw, others)
    took_ms = ours.each(middle).value * 1000
    findings.goals += [
        make_goal(
            f"resume {steps} {store}", took_ms, "at most", AT_MOST_MS[steps], "ms to the first new step"
        ),
        make_goal(
            f"resume {steps} {store} from a checkpoint",
            committed.each(middle).value * 1000,
            "at most",
            FROM_CHECKPOINT_MS,
            "ms to the first new step",
        ),
        make_goal(
            f"resume {steps} {store} again",
            sum(one.again for one in contestants if isinstance(one, Resume)),
            "at most",
            0,
            "steps run twice",
        ),
    ]
    if peers:
        findings.beside("resume", store, LEFT_OUT["resume"], absent)


async def _measure_resumes_after_sleeps(arena: Arena, store: str, findings: Findings) -> None:
    contestant = ResumeAfterSleeps(await arena.place(store))
    async with open_contestants([contestant], []):
        (result,) = await play([contestant], rounds=arena.scale.rounds, operations=1)
    contest = Contest("resume", f"after {SLEEPS} sleeps of {SLEEP_S} s", store)
    findings.rows += contest.table([result], "to the first new step", middle, None)
    took_ms = result.each(middle).value * 1000
    findings.goals += [
        make_goal(f"resume sleeps {store}", took_ms, "at most", AFTER_SLEEPS_MS, "ms to the first new step"),
        make_goal(f"resume sleeps {store} again", contestant.again, "at most", 0, "steps run twice"),
    ]
