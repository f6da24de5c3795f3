"""Renewal thread: beats for a worker while its event loop is busy, and notices the death of workers on the same host.

Code that blocks the event loop must not cost a worker its jobs, so a thread with its own event loop and its own store
renews the lease. The thread does nothing else; it shares only `LeaseRenewal` with the loop.

    every few seconds         beats, reads the leases of the other workers, declares the expired ones expired
    a worker has started      looks at once, so that its process is watched from now on
    a process has ended       expires its lease at once: the kernel reports it, through a pidfd
    the loop was closed       gives the lease up at once: no code of its jobs will ever run again
    the loop is blocked for
    longer than it may        gives the lease up, until the loop answers again (see `watchdog`)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

from holdfast.engine.host_processes import Processes
from holdfast.engine.lease_renewal import Deliver, LeaseRenewal
from holdfast.errors import HoldfastError, Unavailable
from holdfast.model.crash_suspects import find_parent
from holdfast.model.worker_identity import ProcessStatus, identity_in, is_dead, is_neighbour
from holdfast.model.worker_lease import WorkerLease
from holdfast.store.contract import Store

RETRY_S: Final = 1.0
LOOP_CHECK_S: Final = 1.0
LOOK_GAP_S: Final = 0.5
"""Workers that start within this time are looked at together."""

log = logging.getLogger("holdfast.worker")


class RenewalThread:
    """Renews the lease of one worker. `open_store` is called on the thread."""

    def __init__(self, open_store: Callable[[], Awaitable[Store]], processes: Processes) -> None:
        self._open_store = open_store
        self._processes = processes
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._has_started = False
        self._stopping = False
        self._released = threading.Event()
        self._is_blocked = False

    @contextlib.asynccontextmanager
    async def renewing(self, renewal: LeaseRenewal, *, lazily: bool = False) -> AsyncIterator[None]:
        """Renews the lease in the block. `lazily`: the thread opens its store when the first beat is due and not at
        once, which saves the cost for a process that ends before."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def deliver(call: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nothing runs on it any more
                loop.call_soon_threadsafe(call)

        def finish() -> None:
            if not ended.done():
                ended.set_result(None)

        def run() -> None:
            try:
                asyncio.run(self._main(renewal, loop, deliver, lazily=lazily))
            except BaseException:
                log.exception("the lease renewal thread has stopped: the lease of this worker will expire")
            finally:
                deliver(finish)

        self._stopping = False
        threading.Thread(target=run, name="holdfast-renewal", daemon=True).start()
        try:
            yield
        finally:
            self._stopping = True
            self.beat_now()
            await asyncio.wait([ended])

    def beat_now(self) -> None:
        """Makes the thread beat, and read the other leases, now. Any thread may call it."""
        loop, wake = self._thread_loop, self._wake
        if loop is not None and wake is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                loop.call_soon_threadsafe(wake.set)

    def give_up(self, timeout_s: float) -> bool:
        """Ends the lease, which is not taken again before `resume`; returns whether that is done within the time. The
        watchdog's thread calls it, for a loop that has been blocked for longer than it may."""
        self._is_blocked = True
        self.beat_now()
        return self._released.wait(timeout_s)

    def resume(self) -> None:
        """The loop answers again: the worker takes a new lease, and keeps the jobs that no other has claimed."""
        self._is_blocked = False
        self._released.clear()
        self.beat_now()

    # ── on the thread ─────────────────────────────────────────────────────────────────────────────

    async def _main(
        self, renewal: LeaseRenewal, loop: asyncio.AbstractEventLoop, deliver: Deliver, *, lazily: bool
    ) -> None:
        self._thread_loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        if lazily and not self._stopping:
            await self._pause(renewal.next_beat_us() / 1_000_000, loop)
        store = None
        while store is None and not self._stopping:
            try:
                store = await self._open_store()
            except Unavailable as error:
                log.warning("the lease cannot be renewed: %s", error)
                await self._pause(RETRY_S, loop)
        if store is None:
            return
        neighbours = _Neighbours(store, self._processes)
        try:
            await self._renew(renewal, store, neighbours, loop, deliver)
        finally:
            neighbours.close()
            await store.close()

    async def _renew(
        self,
        renewal: LeaseRenewal,
        store: Store,
        neighbours: _Neighbours,
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver,
    ) -> None:
        """The renewal loop of every worker whose store other processes share: it continues while the loop that runs
        the jobs is blocked."""
        while not self._stopping:
            try:
                if loop.is_closed():
                    await renewal.close(store.leases)
                    return
                if self._is_blocked:
                    await renewal.release(store.leases)
                    self._released.set()
                elif renewal.has_started:
                    others = await renewal.beat(store.leases, deliver)
                    if others is not None:
                        neighbours.watch(others)
            except HoldfastError as error:
                log.warning("lease renewal failed: %s", error)
            await self._pause(renewal.next_beat_us() / 1_000_000, loop)

    async def _pause(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        """Waits for this time; less, if `beat_now` was called or the loop was closed."""
        assert self._wake is not None
        time = asyncio.get_running_loop().time
        until = time() + seconds
        while not self._stopping and not loop.is_closed() and (left_s := until - time()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, LOOP_CHECK_S)):
                    await self._wake.wait()
            if self._wake.is_set():
                self._wake.clear()
                until = min(until, time() + (0.0 if self._is_blocked else LOOK_GAP_S))


class _Neighbours:
    """Workers on this host, watched through pidfds: when the process of one ends, its lease is expired at once."""

    def __init__(self, store: Store, processes: Processes) -> None:
        self._store = store
        self._processes = processes
        self._watched: dict[str, tuple[WorkerLease, int]] = {}
        self._expiring: set[asyncio.Task[None]] = set()

    def watch(self, leases: Iterable[WorkerLease]) -> None:
        """Watches the processes of these workers, and of no others. Processes that have already ended are found at
        once."""
        here = self._processes.here()
        current = {lease.worker: lease for lease in leases}
        for worker, (watched, _) in list(self._watched.items()):
            if worker not in current or current[worker].identity != watched.identity:
                self._unwatch(worker)
        for worker, lease in current.items():
            identity = identity_in(lease.identity)
            if (
                here is None
                or identity is None
                or worker in self._watched
                or not is_neighbour(identity, here)
            ):
                continue
            parent = find_parent(worker)
            if parent is not None and self._processes.look_up(parent) is not ProcessStatus.GONE:
                continue  # its parent sees how it dies, and records that
            # Opened first, looked up second: the process that is looked up is then the one that the pidfd refers to.
            pidfd = _open_pidfd(identity.pid)
            if is_dead(identity, here, self._processes.look_up(identity.pid)):
                if pidfd is not None:
                    os.close(pidfd)
                self._expire(lease)
            elif pidfd is not None:
                self._watched[worker] = (lease, pidfd)
                asyncio.get_running_loop().add_reader(pidfd, self._has_ended, worker)

    def close(self) -> None:
        for worker in list(self._watched):
            self._unwatch(worker)

    def _has_ended(self, worker: str) -> None:
        lease, _ = self._watched[worker]
        self._unwatch(worker)
        self._expire(lease)

    def _unwatch(self, worker: str) -> None:
        _, pidfd = self._watched.pop(worker)
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)

    def _expire(self, lease: WorkerLease) -> None:
        task = asyncio.get_running_loop().create_task(self._expire_now(lease), name="holdfast-expire")
        self._expiring.add(task)
        task.add_done_callback(self._expiring.discard)

    async def _expire_now(self, lease: WorkerLease) -> None:
        try:
            freed = await self._store.leases.expire(lease.worker, lease.incarnation)
        except HoldfastError as error:
            log.warning("worker %s has ended, but its lease could not be expired: %s", lease.worker, error)
            return
        if freed:
            log.info("worker %s has ended; jobs released: %d", lease.worker, freed)


def _open_pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the host has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
