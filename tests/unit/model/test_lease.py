"""The right to drive a job: fences only grow, and clocks decide nothing but when to stop and when to try."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.lease import (
    AGE_TURN_EVERY,
    FAILED_ATTEMPTS_MAX,
    FENCES_PER_EPOCH,
    LEASE_TTL_US,
    RENEW_EVERY_US,
    STOP_AHEAD_US,
    TAKEOVERS_MAX,
    epoch_of,
    floor,
    is_live,
    is_poison,
    may_fire,
    takes_oldest,
)
from holdfast.model.states import Status
from holdfast.model.time import SECOND

epochs = st.integers(0, 2**21 - 1)
within = st.integers(0, FENCES_PER_EPOCH - 1)
ticks = st.integers(0, 2**53)


@given(epochs, within)
def test_a_fence_knows_its_epoch(epoch: int, nth: int) -> None:
    """Take any fence of an epoch and ask it."""
    assert epoch_of(floor(epoch) + nth) == epoch
    assert floor(epoch) <= floor(epoch) + nth < floor(epoch + 1)


@given(epochs, within, within)
def test_every_fence_of_a_restored_store_is_larger(epoch: int, before: int, after: int) -> None:
    """Compare any fence of one epoch with any fence of the next: whoever slept through a restore stays refused."""
    assert floor(epoch) + before < floor(epoch + 1) + after


def test_fences_fit_where_they_travel() -> None:
    """The largest fence fits a column of 64 bits and the integers of JavaScript; the first is zero."""
    assert floor(2**21) - 1 == 2**53 - 1
    assert floor(0) == 0


@given(st.sampled_from(Status), ticks, ticks, st.booleans())
def test_a_lease_is_live_while_it_runs_in_this_boot_and_before_its_end(
    status: Status, expires_at: int, tick: int, same_boot: bool
) -> None:
    """Compare with the three conditions, written apart."""
    live = is_live(status, expires_at, "boot-1", tick=tick, this_boot="boot-1" if same_boot else "boot-2")
    if status is not Status.RUNNING or not same_boot:
        assert not live
    else:
        assert live == (tick < expires_at)


def test_a_lease_ends_at_its_end() -> None:
    """Ask one tick before, at, and after; a lease of no length was never live."""
    assert is_live(Status.RUNNING, 100, "b", tick=99, this_boot="b")
    assert not is_live(Status.RUNNING, 100, "b", tick=100, this_boot="b")
    assert not is_live(Status.RUNNING, 100, "b", tick=101, this_boot="b")
    assert not is_live(Status.RUNNING, 0, "b", tick=0, this_boot="b")


def test_a_lease_of_another_boot_is_over_whatever_it_says() -> None:
    """Restart the host: its clock starts again far below the stored end, and the lease is over all the same."""
    assert not is_live(Status.RUNNING, 10**15, "before", tick=1, this_boot="after")


@given(ticks, st.integers(0, 2**40), st.integers(0, 2**40), st.integers(-(2**41), 2**41))
def test_a_holder_stops_before_others_may_claim(asked_at: int, ttl: int, ahead: int, later: int) -> None:
    """Fire at any moment: whenever it is allowed, the lease as the store counts it has the margin left.

    The store counts from when it answered, which is never before the holder asked.
    """
    now = asked_at + later
    if may_fire(asked_at=asked_at, now=now, ttl_us=ttl, stop_ahead_us=ahead):
        assert now + ahead < asked_at + ttl
    else:
        assert now + ahead >= asked_at + ttl


def test_the_margin_is_five_seconds_of_thirty() -> None:
    """Fire around the end of the default lease."""
    assert may_fire(asked_at=0, now=25 * SECOND - 1, ttl_us=LEASE_TTL_US)
    assert not may_fire(asked_at=0, now=25 * SECOND, ttl_us=LEASE_TTL_US)
    assert not may_fire(asked_at=0, now=0, ttl_us=STOP_AHEAD_US), (
        "a lease shorter than the margin fires nothing"
    )


def test_a_holder_that_misses_one_renewal_is_still_there() -> None:
    """Compare the constants: four renewals fit into a lease before the holder must stop."""
    assert 4 * RENEW_EVERY_US < LEASE_TTL_US - STOP_AHEAD_US
    assert (LEASE_TTL_US, RENEW_EVERY_US, STOP_AHEAD_US) == (30 * SECOND, 5 * SECOND, 5 * SECOND)


@pytest.mark.parametrize(
    "takeovers, failed_attempts, poison",
    [(0, 0, False), (2, 2, False), (3, 0, True), (0, 3, True), (3, 3, True), (7, 0, True), (0, 7, True)],
)
def test_three_of_either_is_poison(takeovers: int, failed_attempts: int, poison: bool) -> None:
    """Count takeovers and failures apart: two of each are not three of one."""
    counted = is_poison(takeovers=takeovers, failed_attempts=failed_attempts, takeovers_max=TAKEOVERS_MAX)
    assert counted is poison
    assert TAKEOVERS_MAX == FAILED_ATTEMPTS_MAX == 3


@pytest.mark.parametrize("takeovers", [0, 3, 1000])
def test_takeovers_alone_are_no_poison(takeovers: int) -> None:
    """Leave `takeovers_max` out, as for jobs that share a process with others: only failures count."""
    assert not is_poison(takeovers=takeovers, failed_attempts=2)
    assert is_poison(takeovers=takeovers, failed_attempts=3)


@given(st.integers(0, 10**9))
def test_one_claim_in_eight_goes_by_age(start: int) -> None:
    """Look at any eight claims in a row: exactly one of them, and never the very first of a worker."""
    assert sum(takes_oldest(start + nth) for nth in range(AGE_TURN_EVERY)) == 1
    assert AGE_TURN_EVERY == 8
    assert not takes_oldest(0)
