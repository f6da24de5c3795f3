"""Two writers on one head: one goes on, the other is told, and the journal has one line."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.errors import Broken, HoldfastError
from holdfast.model.append import NOTHING, Append, Extras, Timer, advance_holder
from holdfast.model.hash_chain import Head
from holdfast.store.contract import Store
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

ROUNDS = [40, pytest.param(2000, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_of_two_appends_on_one_head_one_wins(place: Place, rounds: int) -> None:
    """Goal: a head moves once. Method: two handles at the same time send different appends on the head both have seen,
    alone or in a batch; the next round continues where the winner left it."""
    wins: Counter[int] = Counter()
    async with opened(place) as store, crew(place, 2) as hands:
        (driver,) = await driving(store)
        for number in range(rounds):
            appends = [driver.build(step(f"{number} by {who}"), step("and more")) for who in range(2)]
            batch = [number % 2 == 0, number % 3 == 0]
            outcomes = await together(
                *(
                    _send(hand, append, many=many)
                    for hand, append, many in zip(hands, appends, batch, strict=True)
                )
            )
            winners = [who for who, outcome in enumerate(outcomes) if isinstance(outcome, Head)]
            losers = [outcome for outcome in outcomes if isinstance(outcome, Broken)]
            assert (len(winners), len(losers)) == (1, 1), kinds(outcomes)
            wins[winners[0]] += 1
            assert outcomes[winners[0]] == appends[winners[0]].head
            driver = _moved_on(driver, appends[winners[0]])
        hashes = await check_journal(store, driver.job_id)
        assert len(hashes) == 2 + 2 * rounds
    print(f"wins of each handle: {sorted(wins.values())}")


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_the_same_append_twice_is_written_once(place: Place, rounds: int) -> None:
    """Goal: an append sent twice at the same time is one write, and both senders hear success. Method: two handles
    send equal appends, in every second round with rows beside them."""
    async with opened(place) as store, crew(place, 2) as hands:
        (driver,) = await driving(store)
        for number in range(rounds):
            extras = Extras(timers=(Timer(f"{number}/sleep#1", number + 1),)) if number % 2 else NOTHING
            append = driver.build(step(f"{number}"), extras=extras)
            outcomes = await together(*(_send(hand, append, many=number % 3 == 0) for hand in hands))
            assert outcomes == [append.head, append.head]
            driver = _moved_on(driver, append)
        assert len(await check_journal(store, driver.job_id)) == 2 + rounds
        assert len(await store.post.timers(driver.job_id)) == rounds // 2


async def _send(hand: Hand, append: Append, *, many: bool) -> Head:
    async def send(store: Store) -> Head:
        if not many:
            return await store.journal.append(append)
        (outcome,) = await store.journal.append_many([append])
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome

    return await hand.do(send)


def _moved_on(driver: Driver, append: Append) -> Driver:
    driver.holder = advance_holder(driver.holder, append)
    return driver
