"""Back-off grows, stays under its cap, and ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSetting
from holdfast.model.instants import DAY, MINUTE, SECOND
from holdfast.model.limits import ATTEMPTS_MAX, DURATION_US_MAX, RETRY_AFTER_US_MAX
from holdfast.model.retry import RetryPolicy, ceiling, delay, exhausted

fractions = st.floats(0, 1)
policies = st.builds(
    lambda base, extra, factor, jitter: RetryPolicy(
        base_us=base, cap_us=min(base + extra, DURATION_US_MAX), factor=factor, jitter=jitter
    ),
    st.integers(0, DAY),
    st.integers(0, DURATION_US_MAX),
    st.floats(1, 1e300),
    st.floats(0, 1),
)


@given(policies, st.integers(1, 10**9), fractions)
def test_a_delay_lies_between_nothing_and_the_cap(policy: RetryPolicy, attempt: int, fraction: float) -> None:
    """Draw policies with absurd factors and attempts: no overflow, never above the ceiling, which never shrinks."""
    longest = ceiling(policy, attempt)
    assert 0 <= delay(policy, attempt, fraction) <= longest <= policy.cap_us
    assert longest <= ceiling(policy, attempt + 1)


@pytest.mark.parametrize("attempt, longest", [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)])
def test_the_ceiling_doubles_up_to_the_cap(attempt: int, longest: int) -> None:
    """Compare with the textbook table, in seconds."""
    assert ceiling(RetryPolicy(), attempt) == longest * SECOND


def test_full_jitter_spreads_over_the_whole_delay() -> None:
    """Pass the fraction in: 0 retries at once, 1 waits longest, the middle waits half."""
    policy = RetryPolicy(base_us=8 * SECOND)
    assert [delay(policy, 1, fraction) for fraction in (0.0, 0.5, 1.0)] == [0, 4 * SECOND, 8 * SECOND]


def test_less_jitter_keeps_a_floor() -> None:
    """Leave only a quarter to chance, or nothing."""
    quarter = RetryPolicy(base_us=8 * SECOND, jitter=0.25)
    assert [delay(quarter, 1, fraction) for fraction in (0.0, 1.0)] == [6 * SECOND, 8 * SECOND]
    assert delay(RetryPolicy(base_us=8 * SECOND, jitter=0.0), 1, 0.0) == 8 * SECOND


@given(fractions, st.integers(-DAY, 10 * DAY))
def test_retry_after_is_never_undercut(fraction: float, retry_after_us: int) -> None:
    """Pass what a receiver asked for: we come later than that, spread out, but not years later."""
    policy = RetryPolicy()
    wait = delay(policy, 3, fraction, retry_after_us)
    assert wait >= min(retry_after_us, RETRY_AFTER_US_MAX)
    assert wait <= max(0, min(retry_after_us, RETRY_AFTER_US_MAX)) + ceiling(policy, 3)


def test_clients_told_the_same_do_not_return_together() -> None:
    """Pass one Retry-After and both ends of chance: the whole delay lies between them."""
    assert delay(RetryPolicy(), 3, 0.0, 5 * SECOND) == 5 * SECOND
    assert delay(RetryPolicy(), 3, 1.0, 5 * SECOND) == 9 * SECOND


def test_attempts_count_all_tries() -> None:
    """Ask after each of three attempts; with one attempt there is no second."""
    assert [exhausted(RetryPolicy(attempts=3), made) for made in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert exhausted(RetryPolicy(attempts=1), 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": 0},
        {"attempts": ATTEMPTS_MAX + 1},
        {"base_us": -1},
        {"base_us": 2 * MINUTE, "cap_us": MINUTE},
        {"cap_us": DURATION_US_MAX + 1},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"factor": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
    ],
)
def test_policies_that_make_no_sense_are_refused(fields: dict[str, Any]) -> None:
    """Build policies with each field out of its range."""
    with pytest.raises(InvalidSetting):
        RetryPolicy(**fields)
