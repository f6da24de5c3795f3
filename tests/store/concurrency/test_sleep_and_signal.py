"""A signal sent while its job goes to sleep is never lost.

The race has two good ends: the letter was first, so the job is told to read it and stays awake; or the job slept first,
so the letter wakes it. A job that sleeps with an unread letter is the lost wake-up, and would sleep for ever.

Two calls that start together rarely meet. So after each round the side that was first has to do one more read before
it may go, until now one, now the other wins: the rounds stay at the point where the outcome is open.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from holdfast.errors import HoldfastError, MailWaiting
from holdfast.model.append import Append, Extras, Move, advance_holder
from holdfast.model.events import JobWaiting
from holdfast.model.hash_chain import Head
from holdfast.model.mailbox import MailDraft, MailReceipt
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.store.contract import Store
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import BOTH, Place, check_journal, crew, driving, fresh, opened

T = TypeVar("T")

JOBS = 5


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize(
    "rounds", [40, pytest.param(2000, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]
)
async def test_a_signal_and_a_job_that_goes_to_sleep(place: Place, rounds: int) -> None:
    """Goal: no job sleeps with unread mail. Method: one handle puts a batch of jobs to sleep, one sends a letter to
    each of them at the same time, one sends its letter from within an append of another job."""
    ends: Counter[str] = Counter()
    lead = 0
    async with opened(place) as store, crew(place, 3) as hands:
        (writer,) = await driving(store)
        for _ in range(rounds):
            drivers = await driving(store, JOBS)
            sleeps = [_to_sleep(driver) for driver in drivers]
            *by_hand, by_append = [_signal(driver) for driver in drivers]
            telling = writer.build(step("told"), extras=Extras(letters=(by_append,)))
            outcomes, sent, told = await asyncio.gather(
                hands[0].do(_after(lead, writer, functools.partial(_append_many, appends=sleeps))),
                hands[1].do(_after(-lead, writer, functools.partial(_send, letters=by_hand))),
                hands[2].do(_after(-lead, writer, functools.partial(_append, append=telling))),
            )
            assert told == telling.head
            writer.holder = advance_holder(writer.holder, telling)
            round_ends = [
                await _end(store, sleep, outcome) for sleep, outcome in zip(sleeps, outcomes, strict=True)
            ]
            assert [one.woke for one in sent] == [end == "woken" for end in round_ends[:-1]]
            ends.update(round_ends)
            lead += 1 if round_ends.count("woken") > JOBS / 2 else -1
        await check_journal(store, writer.job_id)
    print(
        f"of {rounds * JOBS} jobs {ends['woken']} were woken and {ends['told']} were told before they slept"
    )
    assert ends["woken"] > 0, "no job ever slept first"
    assert ends["told"] > 0, "no letter ever came first"


def _to_sleep(driver: Driver) -> Append:
    move = Move(status=Status.WAITING, reason=WaitReason.SIGNAL)
    return driver.build(JobWaiting(reason="signal"), move=move, mail_seen=0)


def _signal(driver: Driver) -> MailDraft:
    return MailDraft(job_id=driver.job_id, kind=MailKind.SIGNAL, operation_id=fresh("op"))


async def _append(store: Store, append: Append) -> Head:
    return await store.journal.append(append)


async def _append_many(store: Store, appends: list[Append]) -> list[Head | HoldfastError]:
    return await store.journal.append_many(appends)


async def _send(store: Store, letters: list[MailDraft]) -> list[MailReceipt]:
    return [await store.post.send(letter) for letter in letters]


def _after(reads: int, of: Driver, call: Callable[[Store], Awaitable[T]]) -> Callable[[Store], Awaitable[T]]:
    """The call, once so many reads are done."""

    async def later(store: Store) -> T:
        for _ in range(reads):
            await store.jobs.head(of.job_id)
        return await call(store)

    return later


async def _end(store: Store, sleep: Append, outcome: Head | HoldfastError) -> str:
    """How the round ended for this job; never asleep with a letter unread."""
    head = await store.jobs.head(sleep.job_id)
    assert head.mail_seq == 1, "the letter is there"
    if isinstance(outcome, MailWaiting):
        assert outcome.mail_seq == 1
        assert (head.status, head.head) == (Status.RUNNING, sleep.seen), "told, and nothing of it was written"
        return "told"
    assert outcome == sleep.head
    assert head.status is Status.PENDING, f"the job is {head.status} with an unread letter"
    return "woken"
