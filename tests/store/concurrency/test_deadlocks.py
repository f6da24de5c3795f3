"""Renewals, batches, letters and claims that meet on the same heads never wait for each other in a circle."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import asyncpg
import pytest

from holdfast.errors import Broken, Conflict, HoldfastError
from holdfast.model.append import Append, Extras, Move, advance_holder
from holdfast.model.events import JobCancellation, JobCompleted, JobReleased, JobWaiting
from holdfast.model.jobs import JobDraft, JobHead, SubmittedJob
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Slot, Status, WaitReason
from holdfast.store.contract import Store
from holdfast.store.ports.journal import Decide, Ruling
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import Place, check_journal, crew, driving, fresh, opened, taken
from tests.support.servers import PostgresServer

JOBS = 24
HANDLES = 4
TASKS = 3


class Worker:
    """Does whatever chance says to jobs that others use too; keeps the heads of those it holds."""

    def __init__(self, name: str, queue: str, everybody: Sequence[Driver]) -> None:
        self.name = name
        self.chance = random.Random(name)
        self.queue = queue
        self.everybody = everybody
        self.mine: dict[str, Driver] = {}
        self.did: Counter[str] = Counter()

    def some(self) -> list[Driver]:
        """Some jobs in no order, mine as I know them, the others' as they were long ago."""
        drivers = [self.mine.get(driver.job_id, driver) for driver in self.everybody]
        return self.chance.sample(drivers, self.chance.randint(2, 8))

    async def act(self, store: Store, times: int) -> None:
        acts: list[Callable[[Store], Awaitable[None]]] = [
            self.renew,
            self.append,
            self.append,
            self.write_letters,
            self.send,
            self.claim,
            self.expire,
        ]
        for _ in range(times):
            act = self.chance.choice(acts)
            await act(store)
            self.did[act.__name__] += 1

    async def renew(self, store: Store) -> None:
        await store.leases.renew([driver.held for driver in self.some()])

    async def append(self, store: Store) -> None:
        appends = [self._append(driver) for driver in self.some()]
        self._learn(appends, await store.journal.append_many(appends))

    def _append(self, driver: Driver) -> Append:
        if self.chance.random() < 0.7:
            return driver.build(step("plain"))
        if self.chance.random() < 0.5:
            return driver.build(JobReleased(), move=Move(status=Status.PENDING))
        move = Move(status=Status.WAITING, reason=WaitReason.SIGNAL)
        return driver.build(JobWaiting(reason="signal"), move=move)

    async def write_letters(self, store: Store) -> None:
        """Appends that move the heads of several jobs, each in one transaction."""
        appends = [
            driver.build(step("letters"), extras=Extras(letters=tuple(map(self._letter, self.some()[:3]))))
            for driver in self.some()[:2]
        ]
        self._learn(appends, await store.journal.append_many(appends))

    async def send(self, store: Store) -> None:
        await asyncio.gather(*(store.post.send(self._letter(driver)) for driver in self.some()[:4]))

    def _letter(self, driver: Driver) -> MailDraft:
        return MailDraft(job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id=fresh("op"))

    async def claim(self, store: Store) -> None:
        for driver in await taken(store, self.queue, limit=self.chance.randint(1, 6), worker=self.name):
            self.mine[driver.job_id] = driver

    async def expire(self, store: Store) -> None:
        """Declare somebody dead, perhaps oneself: an update of many heads by owner."""
        await store.leases.expire(f"w{self.chance.randrange(HANDLES)}.{self.chance.randrange(TASKS)}")

    def _learn(self, appends: Sequence[Append], outcomes: Sequence[object]) -> None:
        for append, outcome in zip(appends, outcomes, strict=True):
            if isinstance(outcome, HoldfastError):
                assert isinstance(outcome, Conflict | Broken), f"{outcome.code}: {outcome}"
                self.mine.pop(append.job_id, None)
            elif append.job_id in self.mine:
                self.mine[append.job_id].holder = advance_holder(self.mine[append.job_id].holder, append)


@pytest.mark.store("postgres")
@pytest.mark.parametrize(
    "times", [25, pytest.param(1000, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]
)
async def test_nothing_waits_in_a_circle(
    postgres_server: PostgresServer, postgres_database: str, times: int
) -> None:
    """Goal: whoever locks several heads does it in one order. Method: twelve workers on four handles renew, append,
    write letters, claim and expire over the same jobs; the server counts the deadlocks."""
    place, queue = Place("postgres", postgres_database), fresh("queue")
    log = postgres_server.folder / "server.log"
    before = log.read_text().count("deadlock detected")
    async with opened(place) as store:
        jobs = await driving(store, JOBS, queue=queue, worker="first")
        await store.leases.expire("first")
        async with crew(place, HANDLES) as hands:
            workers = [[Worker(f"w{n}.{m}", queue, jobs) for m in range(TASKS)] for n in range(HANDLES)]
            await asyncio.gather(
                *(
                    hand.do(functools.partial(worker.act, times=times))
                    for hand, team in zip(hands, workers, strict=True)
                    for worker in team
                )
            )
        events = 0
        for job in jobs:
            events += len(await check_journal(store, job.job_id))
    did = sum((worker.did for team in workers for worker in team), Counter())
    connection = await asyncpg.connect(postgres_database)
    counted = await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    await connection.close()
    print(f"{dict(did)}; {events} events in {len(jobs)} journals; deadlocks: {counted}")
    assert log.read_text().count("deadlock detected") == before
    assert counted == 0


@pytest.mark.store("postgres")
@pytest.mark.parametrize(
    "rounds", [15, pytest.param(500, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]
)
async def test_a_session_line_has_one_order(
    postgres_server: PostgresServer, postgres_database: str, rounds: int
) -> None:
    """Goal: whoever joins, leaves or is called up in a session's line waits in one order. Method: the live job ends
    while those behind it are cancelled and new ones join; the server counts the deadlocks."""
    place = Place("postgres", postgres_database)
    log = postgres_server.folder / "server.log"
    before = log.read_text().count("deadlock detected")

    def cancelled(_: JobHead) -> Ruling:
        return Ruling((JobCancellation(),), Move(status=Status.CANCELLED))

    async with opened(place) as store, crew(place, 3) as hands:
        for _ in range(rounds):
            queue, session = fresh("queue"), fresh("session")
            draft = JobDraft(kind="work", queue=queue, session_id=session)
            _, *behind = await store.jobs.submit_many([draft] * 4)
            (live,) = await taken(store, queue)
            end = live.build(JobCompleted(), move=Move(status=Status.COMPLETED))
            await asyncio.gather(
                hands[0].do(functools.partial(_append, append=end)),
                hands[1].do(functools.partial(_hold_all, jobs=behind, decide=cancelled)),
                hands[2].do(functools.partial(_submit, draft=draft)),
            )
            (last,) = await taken(store, queue)
            assert last.job_id not in {job.job_id for job in behind}
            assert (await store.jobs.head(last.job_id)).session_slot is Slot.LIVE
    assert log.read_text().count("deadlock detected") == before


async def _append(store: Store, append: Append) -> None:
    await store.journal.append(append)


async def _submit(store: Store, draft: JobDraft) -> None:
    await store.jobs.submit(draft)


async def _hold_all(store: Store, jobs: Sequence[SubmittedJob], decide: Decide) -> None:
    for job in jobs:
        assert await store.journal.hold(job.job_id, decide) is not None
