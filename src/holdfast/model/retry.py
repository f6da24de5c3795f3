"""When to try again: exponential back-off with full jitter, and when to stop.

Without jitter everybody who failed together comes back together. Full jitter (anywhere between now and the
ceiling) spreads a herd best for the same total load. The random fraction is an argument, so a policy is a
table, not a dice game.
"""

from __future__ import annotations

import math

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.instants import MINUTE, SECOND, Micros
from holdfast.model.limits import ATTEMPTS_DEFAULT, ATTEMPTS_MAX, DURATION_US_MAX, RETRY_AFTER_US_MAX

_HINT = "Use 1 or more attempts, base_us <= cap_us, a factor of at least 1 and a jitter between 0 and 1."


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often and how patiently.

    `attempts` counts all tries, the first included. `jitter` is the share of each delay left to chance: 1 is
    full jitter, 0 none.
    """

    attempts: int = ATTEMPTS_DEFAULT
    base_us: Micros = 1 * SECOND
    cap_us: Micros = 1 * MINUTE
    factor: float = 2.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= ATTEMPTS_MAX:
            raise InvalidSetting(f"attempts is {self.attempts}, not 1 to {ATTEMPTS_MAX}", hint=_HINT)
        if not 0 <= self.base_us <= self.cap_us <= DURATION_US_MAX:
            raise InvalidSetting(f"base_us is {self.base_us} and cap_us is {self.cap_us}", hint=_HINT)
        if not (self.factor >= 1.0 and math.isfinite(self.factor)):
            raise InvalidSetting(f"factor is {self.factor}", hint=_HINT)
        if not 0.0 <= self.jitter <= 1.0:
            raise InvalidSetting(f"jitter is {self.jitter}", hint=_HINT)


def ceiling(policy: RetryPolicy, attempt: int) -> Micros:
    """Return the longest wait after the given attempt failed; attempts count from 1."""
    assert attempt >= 1, f"attempts count from 1: {attempt}"
    wait = float(policy.base_us)
    # Multiplying step by step rather than with a power: it cannot overflow past the cap, and it rounds alike
    # everywhere.
    for _ in range(min(attempt, ATTEMPTS_MAX) - 1):
        wait *= policy.factor
        if wait >= policy.cap_us:
            return policy.cap_us
    return int(wait)


def delay(policy: RetryPolicy, attempt: int, fraction: float, retry_after_us: Micros | None = None) -> Micros:
    """Return how long to wait after the given attempt failed.

    A receiver's Retry-After is a floor, not a replacement: the jittered delay is added to it, or all clients
    told "in 5 s" would return in the same instant.

    Args:
        fraction: A random number from 0 up to 1, drawn by the caller.
    """
    assert 0.0 <= fraction <= 1.0, f"fraction is a share: {fraction}"
    longest = ceiling(policy, attempt)
    wait = int(longest * (1.0 - policy.jitter) + longest * policy.jitter * fraction)
    if retry_after_us is None:
        return wait
    return wait + min(max(retry_after_us, 0), RETRY_AFTER_US_MAX)


def exhausted(policy: RetryPolicy, attempts_made: int) -> bool:
    """Whether no attempt is left."""
    return attempts_made >= policy.attempts
