"""Postgres executor: prepared statements, few round trips, retries while the server is away.

A connection can break at any byte. If it breaks before COMMIT was sent, nothing is written. If it breaks during COMMIT,
the outcome is unknown: the server may have committed and the reply was lost. Both are handled the same way: the unit of
work runs again on a new connection, until the time limit (`patience_s`) ends. That is safe because every write
recognises its first run (by head hash, request key, source key, operation id or token) and then returns the same
result.

A client can reconnect before the server has finished its COMMIT. Most writes then meet a row that the first try still
locks, and wait; a claim would skip the locked row and take other jobs. So before the next try begins, the try whose
COMMIT was lost has been decided: its server process is no longer active.

If the time limit ends first, the error tells the two cases apart: StoreUnavailable means that nothing was written;
OutcomeUnknown means that the caller repeats the same call.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from holdfast.errors import HoldfastError, Misuse, OutcomeUnknown, StoreUnavailable
from holdfast.store.clock import pause
from holdfast.store.executor import Row, RunAgain, Value, Work
from holdfast.store.postgres.connections import Connection, Connections
from holdfast.store.postgres.errors import COLLIDED, is_away, translate
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.postgres.wakeups import PostgresWakeups
from holdfast.store.store_clock import StoreClock

T = TypeVar("T")

COLLISIONS_MAX: Final = 10
PAUSES_S: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_AT_WORK: Final = (
    "SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND state = 'active' AND pid <> pg_backend_pid()"
)


class PostgresExecutor:
    batches = True
    seals = False

    def __init__(
        self,
        connections: Connections,
        clock: StoreClock,
        wakeups: PostgresWakeups,
        *,
        patience_s: float = 10.0,
    ) -> None:
        self.connections = connections
        self._clock = clock
        self._wakeups = wakeups
        self._patience_s = patience_s
        self._process = os.getpid()
        self._closed = False

    async def write(self, work: Work[T], *, gathered: bool = False) -> T:
        return await self._run_with_retries(lambda attempt: self._write(work, attempt))

    def write_now(self, work: Work[T]) -> None:
        return None

    async def run_statement(self, statement: str, /, **values: Value) -> Sequence[Row]:
        async def work(attempt: _Attempt) -> Sequence[Row]:
            async with self.connections.acquire() as connection:
                if attempt.unsure:
                    await self._wait_until_decided(connection, attempt)
                tx = PostgresTransaction(connection, self._clock)
                # A statement without BEGIN is its own transaction: from here on it may be committed.
                attempt.committing = True
                attempt.backend = connection.get_server_pid()
                return await tx.rows(statement, **values)

        return await self._run_with_retries(work)

    async def write_each(self, works: Sequence[Work[T]]) -> list[T | HoldfastError]:
        return list(await asyncio.gather(*(self._try_write(work) for work in works)))

    async def _try_write(self, work: Work[T]) -> T | HoldfastError:
        try:
            return await self.write(work)
        except HoldfastError as error:
            return error

    async def _write(self, work: Work[T], attempt: _Attempt) -> T:
        async with self.connections.acquire() as connection:
            if attempt.unsure:
                await self._wait_until_decided(connection, attempt)
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
            attempt.backend = connection.get_server_pid()
            attempt.hints += tx.hints
            await transaction.commit()
        self.send_wakeups(attempt.hints)
        return result

    async def _wait_until_decided(self, connection: Connection, attempt: _Attempt) -> None:
        """Wait until the try whose COMMIT was lost is decided. Raises TimeoutError at the deadline."""
        while await connection.fetchval(_AT_WORK, attempt.backend):
            if asyncio.get_running_loop().time() >= attempt.deadline:
                raise TimeoutError("the server is still at the commit whose reply was lost")
            await pause(PAUSES_S[1])

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        async def reading(_: _Attempt) -> T:
            async with self.connections.acquire() as connection:
                tx = PostgresTransaction(connection, self._clock)
                if not snapshot:
                    return await work(tx)
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    return await work(tx)

        return await self._run_with_retries(reading)

    async def with_connection(self, run: Callable[[Connection], Awaitable[T]]) -> T:
        """Call the function with a connection and return its result; call it again if the connection breaks."""

        async def work(_: _Attempt) -> T:
            async with self.connections.acquire() as connection:
                return await run(connection)

        return await self._run_with_retries(work)

    async def _run_with_retries(self, run: _Run[T]) -> T:
        """Run, and retry while the server is away or the transaction collides; return the result."""
        if self._closed:
            msg = "the store is closed"
            raise StoreUnavailable(msg, hint="Open it again.")
        if os.getpid() != self._process:
            msg = "this store was opened before a fork"
            raise Misuse(msg, hint="Open the store in the child process; connections do not survive a fork.")
        loop = asyncio.get_running_loop()
        attempt = _Attempt(loop.time() + self._patience_s)
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
                    again = is_away(error) and loop.time() < attempt.deadline
                if not again or self._closed:
                    raise _to_store_error(error, unsure=attempt.unsure) from error
            await pause(PAUSES_S[min(attempt.tries, len(PAUSES_S) - 1)])
            attempt.tries += 1

    def send_wakeups(self, topics: Iterable[str]) -> None:
        self._wakeups.send_wakeups(topics)

    async def close(self) -> None:
        """Close every connection; running work gets `patience_s` to finish."""
        if not self._closed:
            self._closed = True
            await self.connections.close(self._patience_s)


_Run = Callable[["_Attempt"], Awaitable[T]]


class _Attempt:
    """State of the tries so far. `unsure`: one of them may have been committed."""

    __slots__ = ("backend", "collisions", "committing", "deadline", "hints", "tries", "unsure")

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.backend = 0
        self.hints: list[str] = []
        self.tries = 0
        self.collisions = 0
        self.committing = False
        self.unsure = False


def _to_store_error(error: Exception, *, unsure: bool) -> HoldfastError:
    if unsure and is_away(error):
        return OutcomeUnknown(f"the connection broke during a commit and the server stayed away ({error})")
    return translate(error, "Postgres")
