"""Retry policy: exponential back-off with jitter, which errors are retried, and when to stop.

Without jitter all callers that failed together retry together. The random fraction is an argument, so the delays of a
policy are a pure function.

`Retry` is what authors declare on a tool, an agent or a model client; `Backoff` is its back-off alone, for internal
use. If the author does not declare which errors are retried, `is_transient` decides: errors that may pass with time. An
error that says "your call is wrong" (a missing key, a wrong type, a 404) would be raised again, so the code gets it at
once.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from holdfast.errors import HoldfastError, InvalidSetting, Misuse
from holdfast.model.lease import FAILED_ATTEMPTS_MAX
from holdfast.model.limits import ATTEMPTS_DEFAULT, ATTEMPTS_MAX, DURATION_US_MAX, RETRY_AFTER_US_MAX
from holdfast.model.time import MINUTE, SECOND, Duration, Micros, parse_duration

_HINT = (
    "Use 1 or more attempts, waits from 0 to a year, a multiplier of at least 1 and a jitter between 0 and 1."
)


class Backoff(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Back-off: how many attempts, and how long to wait between them.

    `attempts` counts all attempts, the first included. `jitter` is the random share of each delay: 1 is full jitter, 0
    none.
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
            msg = f"the first wait is {self.base_us} µs and the longest {self.cap_us} µs"
            raise InvalidSetting(msg, hint=_HINT)
        if not (self.factor >= 1.0 and math.isfinite(self.factor)):
            raise InvalidSetting(f"multiplier is {self.factor}", hint=_HINT)
        if not 0.0 <= self.jitter <= 1.0:
            raise InvalidSetting(f"jitter is {self.jitter}", hint=_HINT)


def longest_delay(policy: Backoff, attempt: int) -> Micros:
    """Return the longest wait after the given attempt failed; attempts count from 1."""
    assert attempt >= 1, f"attempts count from 1: {attempt}"
    wait = float(policy.base_us)
    # Multiplies step by step instead of with a power: it cannot overflow past the cap, and it rounds alike
    # everywhere.
    for _ in range(min(attempt, ATTEMPTS_MAX) - 1):
        wait *= policy.factor
        if wait >= policy.cap_us:
            return policy.cap_us
    return int(wait)


def delay(policy: Backoff, attempt: int, fraction: float, retry_after_us: Micros | None = None) -> Micros:
    """Return how long to wait after the given attempt failed.

    A receiver's Retry-After is a floor, not a replacement: the jittered delay is added to it; otherwise all clients
    that got "in 5 s" would return in the same instant.

    Args:
        fraction: A random number from 0 up to 1, drawn by the caller.
    """
    assert 0.0 <= fraction <= 1.0, f"fraction is a share: {fraction}"
    longest = longest_delay(policy, attempt)
    wait = int(longest * (1.0 - policy.jitter) + longest * policy.jitter * fraction)
    if retry_after_us is None:
        return wait
    return wait + min(max(retry_after_us, 0), RETRY_AFTER_US_MAX)


def is_exhausted(policy: Backoff, attempts_made: int) -> bool:
    """Whether no attempt is left."""
    return attempts_made >= policy.attempts


# ── what authors declare ──────────────────────────────────────────────────────────────────────────

_OF_CODE: Final = (
    TypeError,
    NameError,
    AttributeError,
    ImportError,
    SyntaxError,
    NotImplementedError,
    AssertionError,
    RecursionError,
    Misuse,
)
"""Errors of the program itself: the same code raises them again."""

_OF_DATA: Final = (LookupError, ValueError, ArithmeticError, StopIteration, StopAsyncIteration)
_TRANSIENT_STATUSES: Final = frozenset({408, 409, 425, 429})


class Retry(msgspec.Struct, frozen=True):
    """How a call or a job that failed is tried again.

    attempts: how often in all, the first included. initial: the wait after the first failure; multiplier: how much
    longer each wait is than the one before; maximum: the longest. jitter: the random share of each wait, 0 to 1. on:
    the errors that are retried; without it those that may pass with time (connections, timeouts, servers that are
    down), and not those that would be raised again (a missing key, a wrong type, a 404). never: errors that are not
    retried, whatever `on` says.
    """

    attempts: int = 10
    initial: Duration = 0.5
    maximum: Duration = 20
    multiplier: float = 2.0
    jitter: float = 0.25
    on: tuple[type[Exception], ...] | None = None
    never: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        declared: tuple[Any, ...] = (() if self.on is None else self.on, self.never)
        for classes in declared:
            if not isinstance(classes, tuple) or not all(map(_is_error_class, classes)):
                msg = f"{classes!r} is not a tuple of exception classes"
                raise InvalidSetting(msg, hint="Use on=(ConnectionError, TimeoutError).")
        _ = self.policy

    @property
    def policy(self) -> Backoff:
        """The back-off alone."""
        initial_us = parse_duration(self.initial)
        return Backoff(
            attempts=self.attempts,
            base_us=initial_us,
            cap_us=max(initial_us, parse_duration(self.maximum)),
            factor=self.multiplier,
            jitter=self.jitter,
        )

    def covers(self, error: BaseException) -> bool:
        """Whether a call that raised this is tried again."""
        if isinstance(error, self.never):
            return False
        return is_transient(error) if self.on is None else isinstance(error, self.on)

    def covers_job(self, error: BaseException) -> bool:
        """Whether a job whose function raised this is run again. Its calls have been retried by then, so every error
        except one of the code itself justifies another run."""
        if isinstance(error, self.never):
            return False
        return not isinstance(error, _OF_CODE) if self.on is None else isinstance(error, self.on)


def _is_error_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


NO_RETRY: Final = Retry(attempts=1)
CALL_RETRY: Final = Retry()
"""Covers an outage of a minute: ten attempts within 69 to 92 seconds."""

PROBED_RETRY: Final = Retry(attempts=3)
"""A verifiable call: each attempt costs a quiet time and a probe; after the last one a person decides."""


JOB_RETRY: Final = Retry(attempts=FAILED_ATTEMPTS_MAX, initial=1, maximum=60, jitter=1.0)
"""The function of a job. Its calls have been retried by then."""

MODEL_RETRY: Final = Retry(attempts=6, initial=1, maximum=60, jitter=1.0)
"""A request to a model: providers are busy for longer than other receivers, and send `Retry-After`."""


def is_transient_status(status: int) -> bool:
    """Whether an HTTP status means that a later request may succeed."""
    return status >= 500 or status in _TRANSIENT_STATUSES


def is_transient(error: BaseException) -> bool:
    """Whether this error may pass with time: connections, timeouts, servers that are busy or down."""
    if isinstance(error, OSError):  # also TimeoutError and everything about connections
        return not isinstance(
            error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError
        )
    status = _status_of(error)
    if status is not None:
        return is_transient_status(status)
    if isinstance(error, HoldfastError):
        return False
    return not isinstance(error, (*_OF_CODE, *_OF_DATA)) and isinstance(error, Exception)


def _status_of(error: BaseException) -> int | None:
    """The HTTP status in an error of a client library."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status"):
            status = getattr(holder, name, None)
            if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:
                return status
    return None
