"""One bad append in a batch harms nobody else, whatever is bad about it and whoever writes at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from holdfast.errors import Broken, Fenced, HoldfastError, InvalidMove, KeyReused, Misuse
from holdfast.model.append import Append, Extras, Move, Timer
from holdfast.model.events import JobReleased, JobWaiting
from holdfast.model.hash_chain import Head
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.store.contract import Store
from holdfast.testing.conformance.drafts import LARGE, call_row, intent_of
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import (
    BOTH,
    Hand,
    Place,
    check_journal,
    crew,
    driving,
    kinds,
    opened,
    together,
)

Spoil = Callable[[Driver], Append]


def stale(driver: Driver) -> Append:
    append = driver.build(step("stale"))
    return msgspec.structs.replace(append, fence=append.fence - 1)


def forked(driver: Driver) -> Append:
    append = driver.build(step("forked"))
    return msgspec.structs.replace(append, seen=Head(append.seen.seq, bytes(32)))


def without_reason(driver: Driver) -> Append:
    """A move that a CHECK of the database refuses, in the middle of the plain ones."""
    return driver.build(JobWaiting(reason="signal"), move=Move(status=Status.WAITING))


def far_too_late(driver: Driver) -> Append:
    """An instant that no column can hold."""
    wake_at = 2**63
    move = Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=wake_at)
    return driver.build(JobWaiting(reason="timer"), move=move)


def same_call_id(driver: Driver) -> Append:
    """A ledger row whose primary key is taken."""
    row = msgspec.structs.replace(call_row(driver, "1/mail#1"), tool_call_id="call:taken")
    return driver.build(intent_of(row), extras=Extras(calls=(row,), timers=(Timer("1/sleep#1", 7),)))


def same_key(driver: Driver) -> Append:
    """A ledger row with the key of another call."""
    row = msgspec.structs.replace(call_row(driver, "1/mail#2"), idempotency_key="key:taken")
    return driver.build(intent_of(row), extras=Extras(calls=(row,)))


def overflowing_timer(driver: Driver) -> Append:
    """Rows beside the events that no column can hold."""
    return driver.build(step("timer"), extras=Extras(timers=(Timer("1/sleep#1", 2**63),)))


def letter_to_nobody(driver: Driver) -> Append:
    letter = MailDraft(job_id="job_unknown", kind=MailKind.SIGNAL, operation_id="op-1")
    return driver.build(step("letter"), extras=Extras(letters=(letter,)))


BAD: dict[Spoil, type[HoldfastError]] = {
    stale: Fenced,
    forked: Broken,
    without_reason: InvalidMove,
    far_too_late: Misuse,
    same_call_id: InvalidMove,
    same_key: KeyReused,
    overflowing_timer: Misuse,
    letter_to_nobody: Misuse,
}


def good(driver: Driver, number: int) -> Append:
    """What the neighbours write: plain, with a large body, with rows, or giving the job back."""
    match number % 4:
        case 0:
            return driver.build(step("plain"))
        case 1:
            return driver.build(step("large", LARGE + str(number)))
        case 2:
            return driver.build(step("timer"), extras=Extras(timers=(Timer("1/sleep#1", 7),)))
        case _:
            return driver.build(JobReleased(), move=Move(status=Status.PENDING))


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize(
    "rounds", [2, pytest.param(200, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]
)
async def test_a_bad_append_is_refused_alone(place: Place, rounds: int) -> None:
    """Goal: each append of a batch has its own outcome. Method: three handles send batches at the same time, in each
    one bad append of a kind among good ones, then all kinds at once; the bad write nothing, the good all."""
    async with opened(place) as store, crew(place, 3) as hands:
        await _take_the_ids(store)
        for number in range(rounds):
            plans = [[spoil] for spoil in BAD] + [list(BAD)]
            while plans:
                now, plans = plans[: len(hands)], plans[len(hands) :]
                await together_or_raise(
                    *(_batch(hand, plan, number) for hand, plan in zip(hands, now, strict=False))
                )


async def together_or_raise(*calls: Awaitable[None]) -> None:
    for outcome in await together(*calls):
        if outcome is not None:
            raise outcome


async def _take_the_ids(store: Store) -> None:
    (driver,) = await driving(store)
    row = msgspec.structs.replace(
        call_row(driver, "1/mail#0"), tool_call_id="call:taken", idempotency_key="key:taken"
    )
    await driver.write(intent_of(row), extras=Extras(calls=(row,)))


async def _batch(hand: Hand, plan: Sequence[Spoil], number: int) -> None:
    """Good, bad, good, bad, … good: sent in one call, and judged one by one."""

    async def send(store: Store) -> None:
        drivers = await driving(store, 2 * len(plan) + 1)
        appends = [
            plan[place // 2](driver) if place % 2 else good(driver, number + place // 2)
            for place, driver in enumerate(drivers)
        ]
        outcomes = await store.journal.append_many(appends)
        for place, (driver, append, outcome) in enumerate(zip(drivers, appends, outcomes, strict=True)):
            if place % 2:
                expected = BAD[plan[place // 2]]
                assert isinstance(outcome, expected), f"{plan[place // 2].__name__}: {outcome!r}"
                await _is_untouched(driver)
            else:
                assert outcome == append.head, f"{[one.__name__ for one in plan]} harmed {kinds(outcomes)}"
                assert (await check_journal(store, driver.job_id))[-1] == append.head.hash

    await hand.do(send)


async def _is_untouched(driver: Driver) -> None:
    """The bad append left nothing behind, and its job goes on."""
    assert (await check_journal(driver.store, driver.job_id))[-1] == driver.holder.head.hash
    assert await driver.store.post.timers(driver.job_id) == []
    assert await driver.store.ledger.list(driver.job_id) == []
    await driver.write(step("and it goes on"))
