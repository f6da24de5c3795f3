"""Postgres behind the Executor: pooled, prepared, and patient with a server that goes away.

A connection can die at any byte. Before COMMIT was sent, nothing is written. While COMMIT is under way, nobody knows:
the server may have committed and the answer got lost. Both are handled the same: the unit of work runs again on a new
connection, for as long as patience lasts. That is safe because every write recognises itself (by head hash, request
key, source key, operation id or token) and then answers as if it had been the first.

If patience ends first, the error tells the two apart: StoreUnavailable means that nothing was written, OutcomeUnknown
means ask again with the same call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from holdfast.errors import HoldfastError, OutcomeUnknown, StoreUnavailable
from holdfast.store.clock import Clock, pause
from holdfast.store.executor import Row, RunAgain, Value, Work
from holdfast.store.postgres.errors import COLLIDED, is_away, translate
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.postgres.wakeups import PostgresWakeups

T = TypeVar("T")

COLLISIONS_MAX: Final = 10
PAUSES_S: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class PostgresExecutor:
    batches = True

    def __init__(
        self,
        pool: asyncpg.Pool[Any],
        clock: Clock | None,
        wakeups: PostgresWakeups,
        *,
        patience_s: float = 10.0,
    ) -> None:
        self.pool = pool
        self._clock = clock
        self._wakeups = wakeups
        self._patience_s = patience_s
        self._closed = False

    async def write(self, work: Work[T]) -> T:
        return await self._patiently(lambda attempt: self._write(work, attempt))

    async def once(self, statement: str, /, **values: Value) -> Sequence[Row]:
        async def work(attempt: _Attempt) -> Sequence[Row]:
            async with self.pool.acquire() as connection:
                tx = PostgresTransaction(connection, self._clock)
                # A statement without BEGIN is its own transaction: from here on it may have been committed.
                attempt.committing = True
                return await tx.rows(statement, **values)

        return await self._patiently(work)

    async def write_each(self, works: Sequence[Work[T]]) -> list[T | HoldfastError]:
        return list(await asyncio.gather(*(self._outcome(work) for work in works)))

    async def _outcome(self, work: Work[T]) -> T | HoldfastError:
        try:
            return await self.write(work)
        except HoldfastError as error:
            return error

    async def _write(self, work: Work[T], attempt: _Attempt) -> T:
        async with self.pool.acquire() as connection:
            tx = PostgresTransaction(connection, self._clock)
            transaction = connection.transaction()
            await transaction.start()
            try:
                result = await work(tx)
            except BaseException:
                if not connection.is_closed():
                    await transaction.rollback()
                raise
            attempt.committing = True
            await transaction.commit()
        self.spread(tx.hints)
        return result

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        async def reading(_: _Attempt) -> T:
            async with self.pool.acquire() as connection:
                tx = PostgresTransaction(connection, self._clock)
                if not snapshot:
                    return await work(tx)
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    return await work(tx)

        return await self._patiently(reading)

    async def _patiently(self, run: _Run[T]) -> T:
        """The result, after as many tries as the server's absences and collisions take."""
        if self._closed:
            msg = "the store is closed"
            raise StoreUnavailable(msg, hint="Open it again.")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        attempt = _Attempt()
        while True:
            try:
                return await run(attempt)
            except HoldfastError:
                raise
            except Exception as error:
                if isinstance(error, RunAgain) or getattr(error, "sqlstate", None) in COLLIDED:
                    attempt.collisions += 1
                    attempt.committing = False
                    again = attempt.collisions <= COLLISIONS_MAX
                else:
                    attempt.unsure = attempt.unsure or (attempt.committing and is_away(error))
                    attempt.committing = False
                    again = is_away(error) and loop.time() < deadline
                if not again or self._closed:
                    raise _final(error, unsure=attempt.unsure) from error
            await pause(PAUSES_S[min(attempt.tries, len(PAUSES_S) - 1)])
            attempt.tries += 1

    def spread(self, topics: Iterable[str]) -> None:
        self._wakeups.spread(topics)

    async def close(self) -> None:
        """Every connection is closed; what was acknowledged is durable."""
        if self._closed:
            return
        self._closed = True
        await self.pool.close()


_Run = Callable[["_Attempt"], Awaitable[T]]


class _Attempt:
    """What is known about the tries so far. `unsure`: one of them may have been committed."""

    __slots__ = ("collisions", "committing", "tries", "unsure")

    def __init__(self) -> None:
        self.tries = 0
        self.collisions = 0
        self.committing = False
        self.unsure = False


def _final(error: Exception, *, unsure: bool) -> HoldfastError:
    if unsure and is_away(error):
        return OutcomeUnknown(f"the connection broke during a commit and the server stayed away ({error})")
    return translate(error, "Postgres")
