"""Back-off grows, stays under its cap, and ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSetting, Refused
from holdfast.model.limits import ATTEMPTS_MAX, DURATION_US_MAX, RETRY_AFTER_US_MAX
from holdfast.model.retry import CALL_RETRY, Backoff, Retry, delay, is_exhausted, is_transient, longest_delay
from holdfast.model.time import DAY, MINUTE, SECOND

fractions = st.floats(0, 1)
policies = st.builds(
    lambda base, extra, factor, jitter: Backoff(
        base_us=base, cap_us=min(base + extra, DURATION_US_MAX), factor=factor, jitter=jitter
    ),
    st.integers(0, DAY),
    st.integers(0, DURATION_US_MAX),
    st.floats(1, 1e300),
    st.floats(0, 1),
)


@given(policies, st.integers(1, 10**9), fractions)
def test_a_delay_lies_between_nothing_and_the_cap(policy: Backoff, attempt: int, fraction: float) -> None:
    """Draw policies with absurd factors and attempts: no overflow, never above the ceiling, which never shrinks."""
    longest = longest_delay(policy, attempt)
    assert 0 <= delay(policy, attempt, fraction) <= longest <= policy.cap_us
    assert longest <= longest_delay(policy, attempt + 1)


@pytest.mark.parametrize("attempt, longest", [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)])
def test_the_ceiling_doubles_up_to_the_cap(attempt: int, longest: int) -> None:
    """Compare with the textbook table, in seconds."""
    assert longest_delay(Backoff(), attempt) == longest * SECOND


def test_full_jitter_spreads_over_the_whole_delay() -> None:
    """Pass the fraction in: 0 retries at once, 1 waits longest, the middle waits half."""
    policy = Backoff(base_us=8 * SECOND)
    assert [delay(policy, 1, fraction) for fraction in (0.0, 0.5, 1.0)] == [0, 4 * SECOND, 8 * SECOND]


def test_less_jitter_keeps_a_floor() -> None:
    """Leave only a quarter to chance, or nothing."""
    quarter = Backoff(base_us=8 * SECOND, jitter=0.25)
    assert [delay(quarter, 1, fraction) for fraction in (0.0, 1.0)] == [6 * SECOND, 8 * SECOND]
    assert delay(Backoff(base_us=8 * SECOND, jitter=0.0), 1, 0.0) == 8 * SECOND


@given(fractions, st.integers(-DAY, 10 * DAY))
def test_retry_after_is_never_undercut(fraction: float, retry_after_us: int) -> None:
    """Pass what a receiver asked for: we come later than that, spread out, but not years later."""
    policy = Backoff()
    wait = delay(policy, 3, fraction, retry_after_us)
    assert wait >= min(retry_after_us, RETRY_AFTER_US_MAX)
    assert wait <= max(0, min(retry_after_us, RETRY_AFTER_US_MAX)) + longest_delay(policy, 3)


def test_clients_told_the_same_do_not_return_together() -> None:
    """Pass one Retry-After and both ends of chance: the whole delay lies between them."""
    assert delay(Backoff(), 3, 0.0, 5 * SECOND) == 5 * SECOND
    assert delay(Backoff(), 3, 1.0, 5 * SECOND) == 9 * SECOND


def test_attempts_count_all_tries() -> None:
    """Ask after each of three attempts; with one attempt there is no second."""
    assert [is_exhausted(Backoff(attempts=3), made) for made in range(5)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert is_exhausted(Backoff(attempts=1), 1)


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
        Backoff(**fields)


# ── what authors declare ──────────────────────────────────────────────────────────────────────────


def test_the_default_rides_out_a_minute() -> None:
    """The shortest that all attempts of an undeclared call can take, with all the luck of the draw."""
    policy = CALL_RETRY.policy
    shortest = sum(delay(policy, attempt, 0.0) for attempt in range(1, policy.attempts))
    assert 60 * SECOND <= shortest <= 120 * SECOND


class HttpError(Exception):
    """As libraries for HTTP raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    "error, retried",
    [
        (ConnectionRefusedError(), True),
        (TimeoutError(), True),
        (OSError(113, "no route to host"), True),
        (RuntimeError("try later"), True),
        (type("DatabaseIsDown", (Exception,), {})(), True),
        *((HttpError(status), True) for status in (408, 429, 500, 503)),
        *((HttpError(status), False) for status in (400, 401, 403, 404, 422)),
        *((kind(), False) for kind in (KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError)),
        (FileNotFoundError(), False),
        (InvalidSetting("wrong"), False),
        (Refused("no"), False),
    ],
)
def test_what_may_be_over_in_a_while_is_retried(error: Exception, retried: bool) -> None:
    assert is_transient(error) is retried
    assert Retry().covers(error) is retried
    assert Retry(never=(type(error),)).covers(error) is False
    assert Retry(on=(type(error),)).covers(error) is True


@pytest.mark.parametrize(
    "wrong", [{"attempts": 0}, {"initial": "soon"}, {"jitter": 2}, {"on": [ValueError]}, {"never": ("no",)}]
)
def test_a_wrong_policy_is_refused_where_it_is_declared(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Retry(**wrong)


def test_an_error_of_the_code_is_not_worth_another_run() -> None:
    assert not Retry().covers_job(NameError("typo"))
    assert Retry().covers_job(KeyError("order"))
    assert not Retry(never=(KeyError,)).covers_job(KeyError("order"))
