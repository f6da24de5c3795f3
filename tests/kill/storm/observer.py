"""Observer: looks at the store from outside, read-only, and times how long killed workers' jobs stand still.

The instants are those of the observer's monotonic clock when it sees something, so a measured time is at most one look
too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import apsw
import asyncpg
import msgspec

from holdfast.model.worker_identity import identity_in
from holdfast.store.contract import Store

LOOK_EVERY_S = 0.025
STANDSTILL_S = 2.0
_OPEN = """
    SELECT job_id, kind, head_seq, fence, status, wait_reason, takeovers
    FROM {heads} WHERE status IN ('pending', 'running', 'waiting')
"""


class Head(msgspec.Struct, frozen=True):
    """A job that is not over, as its row says."""

    job_id: str
    kind: str
    seq: int
    fence: int
    status: str
    reason: str | None
    takeovers: int


class Takeover(msgspec.Struct):
    """A job whose worker was killed or stopped. `took_s` is None until another worker has claimed it. `age_s` is how
    long before that the worker was first seen with a job."""

    job_id: str
    kind: str
    cause: str
    began_at: float
    fence: int
    takeovers: int
    age_s: float
    took_s: float | None = None


Look: TypeAlias = Callable[[], Awaitable[list[Head]]]


@asynccontextmanager
async def looking(address: str) -> AsyncIterator[Look]:
    """A function that reads the heads of all open jobs, over a connection that cannot write."""
    if address.startswith("sqlite"):
        path = address.removeprefix("sqlite:///")
        reader = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        reader.set_busy_timeout(10_000)

        async def look_into_file() -> list[Head]:
            return [Head(*row) for row in reader.execute(_OPEN.format(heads="job_heads"))]

        with contextlib.closing(reader):
            yield look_into_file
        return
    server = await asyncpg.connect(address, server_settings={"default_transaction_read_only": "on"})

    async def look_into_server() -> list[Head]:
        return [Head(*row) for row in await server.fetch(_OPEN.format(heads="holdfast.job_heads"))]

    try:
        yield look_into_server
    finally:
        await server.close()


class Observer:
    """Call `watch` in a task. `open` has the jobs that are not over, `holders` the pid of who claimed each last."""

    def __init__(self, store: Store, look: Look) -> None:
        self.open: dict[str, Head] = {}
        self.holders: dict[str, int] = {}
        self.takeovers: list[Takeover] = []
        self.changed_at = time.monotonic()
        self.standstills: list[tuple[float, float]] = []
        """From when to when no job at all recorded anything beside a worker that was stopped: it may have been in a
        write that all others wait for."""
        self.stops: list[tuple[float, float]] = []
        """From when to when workers are stopped."""
        self._store = store
        self._look = look
        self._pending: dict[str, Takeover] = {}
        self._seen: dict[str, int] = {}
        self._workers: dict[int, float] = {}
        self._looks = asyncio.Lock()

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Read what has changed since the last look."""
        async with self._looks:
            heads = {head.job_id: head for head in await self._look()}
            now = time.monotonic()
            before, self.open = self.open, heads
            for job_id, head in heads.items():
                if head.seq > self._seen.get(job_id, 0):
                    self._note_change(now)
                    await self._read(job_id, now)
            for job_id in before.keys() - heads.keys():
                self._note_change(now)
                await self._read(job_id, now)
                self.holders.pop(job_id, None)

    def _note_change(self, now: float) -> None:
        is_beside_stop = any(start < now and self.changed_at < end for start, end in self.stops)
        if is_beside_stop and now - self.changed_at > STANDSTILL_S:
            self.standstills.append((self.changed_at, now))
        self.changed_at = now

    async def _read(self, job_id: str, now: float) -> None:
        for sealed in await self._store.journal.read(job_id, after=self._seen.get(job_id, 0)):
            self._seen[job_id] = sealed.seq
            if sealed.type != "job_claimed":
                continue
            assert sealed.body is not None
            body: dict[str, Any] = msgspec.json.decode(sealed.body)
            who = identity_in(body["worker"])
            pid = self.holders[job_id] = 0 if who is None else who.pid
            self._workers.setdefault(pid, now)
            takeover = self._pending.get(job_id)
            if takeover is not None and sealed.fence > takeover.fence:
                takeover.took_s = now - takeover.began_at
                del self._pending[job_id]

    def held_by(self, *pids: int) -> list[Head]:
        """The jobs that run in these processes, as of the last look."""
        return [
            head
            for head in self.open.values()
            if head.status == "running" and self.holders.get(head.job_id) in pids
        ]

    async def begin(self, cause: str, at: float, held: Sequence[Head], *pids: int) -> list[Takeover]:
        """These processes were killed or stopped at this instant, and held these jobs before: time what becomes of
        the jobs that they hold now."""
        await self.look()
        begun = {head.job_id: head for head in self.held_by(*pids)}
        takeovers = [self._takeover(head, cause, at) for head in begun.values()]
        self._pending |= {takeover.job_id: takeover for takeover in takeovers}
        for head in held:  # another worker was quicker than this look
            now = self.open.get(head.job_id)
            if head.job_id not in begun and now is not None and now.fence > head.fence:
                takeovers.append(self._takeover(head, cause, at))
                takeovers[-1].took_s = time.monotonic() - at
        self.takeovers += takeovers
        return takeovers

    def _takeover(self, head: Head, cause: str, at: float) -> Takeover:
        seen_at = self._workers.get(self.holders.get(head.job_id, 0), at)
        return Takeover(head.job_id, head.kind, cause, at, head.fence, head.takeovers, at - seen_at)

    def forget(self, takeovers: list[Takeover]) -> None:
        """These processes go on: whoever has not lost a job keeps it."""
        for takeover in takeovers:
            if self._pending.get(takeover.job_id) is takeover:
                del self._pending[takeover.job_id]
