"""Rates: what fits, what has to wait, and how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSetting
from holdfast.model.time import SECOND
from holdfast.model.token_bucket import Rate, TokenBucket, check_rate, take

RATE = Rate(per_s=10, burst=3)


def test_s24_a_burst_fits_and_then_it_goes_by_the_rate() -> None:
    bucket: TokenBucket | None = None
    waits = []
    for now in (0, 0, 0, 0, SECOND // 10 - 1, SECOND // 10, SECOND // 10):
        bucket, wait = take(bucket, RATE, now)
        waits.append(wait)
    assert waits == [0, 0, 0, SECOND // 10, 1, 0, SECOND // 10]


def test_s24_a_bucket_that_rests_is_full_and_no_more() -> None:
    bucket, _ = take(None, RATE, 0)
    bucket, wait = take(bucket, RATE, 3600 * SECOND)
    assert (bucket.level, wait) == (2 * SECOND, 0)


def test_s24_what_is_owed_flows_in_first() -> None:
    bucket, wait = take(None, RATE, 0, cost=13)
    assert (wait, take(bucket, RATE, 0)[1]) == (0, 11 * SECOND // 10)
    assert take(bucket, RATE, 11 * SECOND // 10)[1] == 0


def test_s24_asking_in_vain_costs_nothing() -> None:
    bucket, _ = take(None, Rate(1, 1), 0)
    for now in range(0, SECOND, SECOND // 7):
        bucket, wait = take(bucket, Rate(1, 1), now)
        assert wait == SECOND - now
    assert take(bucket, Rate(1, 1), SECOND)[1] == 0


@given(
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.lists(st.tuples(st.integers(0, SECOND), st.integers(1, 50)), max_size=60),
)
def test_s24_nobody_gets_more_than_burst_and_rate(
    per_s: int, burst: int, asked: list[tuple[int, int]]
) -> None:
    """Over any stretch: the burst, what flowed in, and at most one thing that was larger than what was there."""
    rate, bucket, now, taken = Rate(per_s, burst), None, 0, 0
    for passed, cost in asked:
        now += passed
        bucket, wait = take(bucket, rate, now, cost)
        if wait == 0:
            taken += cost
        assert taken * SECOND <= burst * SECOND + now * per_s + max(cost for _, cost in asked) * SECOND
        if wait:
            assert take(bucket, rate, now + wait, cost)[1] == 0, "who waits as long as is said gets in"
            assert take(bucket, rate, now + wait - 1, cost)[1] > 0, "and not earlier"


def test_s24_a_clock_that_goes_back_gives_nothing() -> None:
    bucket, _ = take(None, Rate(1, 1), 10 * SECOND)
    assert take(bucket, Rate(1, 1), 5 * SECOND)[1] == SECOND


@pytest.mark.parametrize("rate", [Rate(0, 1), Rate(1, 0), Rate(-1, 5)])
def test_s24_a_rate_that_lets_nobody_in_is_refused(rate: Rate) -> None:
    with pytest.raises(InvalidSetting):
        check_rate(rate)
    assert check_rate(RATE) == RATE
