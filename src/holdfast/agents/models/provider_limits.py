"""How a process treats a provider that is slow, full or away: it waits, and no more than it must.

A gate stands before each model of each provider. It lets so many requests through at once, so many a minute, so many
tokens a minute; and when a model fails again and again it stays shut for a while, so that a hundred jobs do not ask a
hundred times what one has found out already. Jobs that meet a shut gate wait, and nobody need hold them; none fails
because of it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.retry import MODEL_RETRY, Retry, delay
from holdfast.model.time import MINUTE, SECOND, Duration, Micros, parse_duration

SHUT_AFTER: Final = 5
SHUT_US: Final = 30 * SECOND


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one process asks of one model at most; None is no limit."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                msg = f"{name} is {value!r}"
                raise InvalidSetting(msg, hint="A limit is a whole number from 1, or None.")


class RequestPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How requests to models are treated. `fallback` names, for a model that stays away, the one to ask instead."""

    retry: Retry = MODEL_RETRY
    fallback: Mapping[str, str] = {}
    limits: Limits = Limits()
    timeout_us: Micros | None = None
    """How long one attempt may take: to the whole answer, or to the first bytes of a streamed one."""

    def wait_us(
        self, failed_attempts: int, errors: Sequence[Exception], chance: float, retry_after_us: Micros | None
    ) -> Micros | None:
        """How long to wait after so many failed attempts; None: there is no other. `errors` is what the last one is for
        the client and for the library below it."""
        retry = self.retry
        if failed_attempts >= retry.attempts or any(isinstance(error, retry.never) for error in errors):
            return None
        if not any(retry.covers(error) for error in errors):
            return None
        return delay(retry.policy, failed_attempts, chance, retry_after_us)


def patience_of(
    retry: Retry | None,
    timeout: Duration | None,
    fallback: Mapping[str, str] | None,
    limits: Limits | None,
) -> RequestPolicy:
    """What an author says of the requests of a client; what is not said is as usual."""
    given: Any = retry
    if given is not None and not isinstance(given, Retry):
        msg = f"retry= is a {type(given).__name__}"
        raise InvalidSetting(msg, hint="Say retry=hf.Retry(attempts=5).")
    return RequestPolicy(
        retry=MODEL_RETRY if retry is None else retry,
        fallback={} if fallback is None else dict(fallback),
        limits=Limits() if limits is None else limits,
        timeout_us=None if timeout is None else parse_duration(timeout),
    )


class ProviderLimiter:
    """The way to one model. Times are the job's, so that a simulated clock moves it too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._failures = 0
        self._shut_until = 0
        self._asked: deque[int] = deque()
        self._used: deque[tuple[int, int]] = deque()

    def opens_at(self, now: Micros) -> Micros:
        """When the next request may be made: now, or later."""
        _forget(self._asked, now - MINUTE)
        while self._used and self._used[0][0] <= now - MINUTE:
            self._used.popleft()
        opens = max(now, self._shut_until)
        most = self._limits.requests_per_minute
        if most is not None and len(self._asked) >= most:
            opens = max(opens, self._asked[-most] + MINUTE)
        return max(opens, self._tokens_again_at(now))

    def _tokens_again_at(self, now: Micros) -> Micros:
        most = self._limits.tokens_per_minute
        over = 0 if most is None else sum(tokens for _, tokens in self._used) - most
        again = now
        for at, tokens in self._used if over >= 0 and most is not None else ():
            again, over = at + MINUTE, over - tokens
            if over < 0:
                break
        return again

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """In the block this is one of the requests that are made at once. First come, first served."""
        most = self._limits.concurrency
        if most is not None and self._inside >= most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()  # the turn came at the same moment, and somebody else may have it
                raise
        else:
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._inside -= 1

    def record_request(self, now: Micros) -> None:
        if self._limits.requests_per_minute is not None:
            self._asked.append(now)

    def record_answer(self, now: Micros, tokens: int) -> None:
        self._failures, self._shut_until = 0, 0
        if self._limits.tokens_per_minute is not None:
            self._used.append((now, tokens))

    def record_failure(self, now: Micros, retry_after_us: Micros | None) -> None:
        """One more failure. After a few in a row the gate is shut, for everybody in this process."""
        self._failures += 1
        if self._failures >= SHUT_AFTER:
            self._shut_until = now + max(SHUT_US, retry_after_us or 0)


def _forget(times: deque[int], before: int) -> None:
    while times and times[0] <= before:
        times.popleft()
