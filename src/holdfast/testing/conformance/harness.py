"""Test bench of a check: a fresh store, its clock, and helpers for common operations.

A check is a plain coroutine function that takes a `Bench` and asserts. It depends on no test framework; `run` calls it
from anywhere. It uses only the ports, so the same check applies to every store.

Most promises of a store are about what does *not* happen. `Bench.refuses` therefore reads everything that the ports
show, before and after, and compares: a rejected call must not change anything.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from holdfast.errors import HoldfastError
from holdfast.model.inbox import Boundary, Claim
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.lease import LEASE_TTL_US, Grant
from holdfast.model.limits import INSTANT_US_MAX
from holdfast.model.session import SessionView
from holdfast.model.time import MINUTE
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store, Tier
from holdfast.store.ports.leases import ClaimRequest, HeldLease
from holdfast.store.ports.sessions import FULL_GRAPH, SessionScope
from holdfast.testing.conformance.driver import Driver

T = TypeVar("T")
E = TypeVar("E", bound=HoldfastError)

HANDLE: Final = "main"
"""The handle of checks for a store that is bound to one session."""


class Backend(Protocol):
    """Provided by the author of a store, for the checks."""

    name: str
    tier: Tier
    durable: bool
    clock: VirtualClock
    """The clock of every store that `open` returns. Only the checks move it."""

    async def open(self) -> Store:
        """Open an empty store, independent of earlier ones."""
        ...

    async def reopen(self, store: Store) -> Store:
        """Open another handle on the same data, as a new process would. This may close the old one.

        A store that is not durable has no second handle and may return itself.
        """
        ...


Check: TypeAlias = Callable[["Bench"], Awaitable[None]]


class ErrorHolder(Generic[E]):
    """Holds the error after the block."""

    error: E


class Bench:
    """The store of one check. `store` is the handle in use; `reopen` replaces it."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self.backend = backend
        self.store = store
        self.clock = backend.clock
        self._opened = [store]
        self._count = itertools.count(1)

    def fresh(self, prefix: str) -> str:
        """A name that this bench has not used yet."""
        return f"{prefix}-{next(self._count)}"

    async def reopen(self) -> None:
        self.store = await self.backend.reopen(self.store)
        self._opened.append(self.store)

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    def reboot(self) -> None:
        self.clock.reboot(f"{self.clock.boot()}, again")

    # ── the inbox ─────────────────────────────────────────────────────────────────────────────────

    async def claim(
        self,
        session_id: str = "root",
        owner: str = "owner",
        *,
        boundary: Boundary = Boundary.IDLE,
        ttl_us: int = MINUTE,
        max_batches: int = 10,
        token: str | None = None,
        fence: int | None = None,
    ) -> Claim | None:
        """Claim for this owner, under a new token unless one is given."""
        return await self.store.inbox.claim(
            session_id,
            owner,
            boundary,
            ttl_us=ttl_us,
            max_batches=max_batches,
            token=token or self.fresh(owner),
            fence=fence,
        )

    async def claim_exact(
        self,
        batch_ids: Sequence[str],
        session_id: str = "root",
        owner: str = "owner",
        *,
        boundary: Boundary = Boundary.IDLE,
        token: str | None = None,
    ) -> Claim | None:
        return await self.store.inbox.claim_exact(
            session_id, owner, boundary, batch_ids, ttl_us=MINUTE, token=token or self.fresh(owner)
        )

    async def list_queued(self, session_id: str = "root") -> list[str]:
        return [batch.batch_id for batch in await self.store.inbox.list(session_id)]

    async def pending(self, session_id: str = "root") -> list[str]:
        return [batch.batch_id for batch in await self.store.inbox.list_pending(session_id)]

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    async def load_bound(self, scope: SessionScope = FULL_GRAPH) -> SessionView | None:
        """The session that the handle is bound to; None before its first commit, and without a binding."""
        session_id = await self.store.sessions.find_bound_session(HANDLE)
        return None if session_id is None else await self.store.sessions.load(session_id, scope)

    async def load(self, session_id: str = "root", scope: SessionScope = FULL_GRAPH) -> SessionView:
        return present(await self.store.sessions.load(session_id, scope), f"session {session_id}")

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, kind: str = "work", **fields: Any) -> str:
        """Submit a new job; returns its id."""
        submitted = await self.store.jobs.submit(JobDraft(kind=kind, **fields))
        assert submitted.created, "a new request makes a new job"
        return submitted.job_id

    async def grants(
        self,
        worker: str = "worker",
        *,
        queues: tuple[str, ...] = ("default",),
        kinds: tuple[str, ...] = (),
        limit: int = 100,
        ttl_us: int = LEASE_TTL_US,
        by_age: bool = False,
        token: str | None = None,
        roots: tuple[str, ...] | None = None,
        suspect_at: int | None = None,
        handed: HeldLease | None = None,
    ) -> list[Grant]:
        """Claim jobs for this worker, under a new token unless one is given."""
        ask = ClaimRequest(
            worker=worker,
            token=token or self.fresh(worker),
            queues=queues,
            kinds=kinds,
            limit=limit,
            ttl_us=ttl_us,
            by_age=by_age,
            roots=roots,
            suspect_at=suspect_at,
            handed=handed,
        )
        return await self.store.leases.claim(ask)

    async def claimable(self, **ask: Any) -> list[str]:
        """Claim, and return the ids of the claimed jobs."""
        return [grant.job_id for grant in await self.grants(**ask)]

    async def drive(self, queue: str, worker: str = "worker", **ask: Any) -> Driver:
        """Claim the only claimable job of a queue."""
        granted = await self.grants(worker, queues=(queue,), **ask)
        assert len(granted) == 1, f"queue {queue} should have one claimable job, not {len(granted)}"
        return self.driver(granted[0])

    def driver(self, grant: Grant) -> Driver:
        return Driver(self.store, self.clock, grant)

    async def drive_new(self, worker: str = "worker", *, ttl_us: int = LEASE_TTL_US, **fields: Any) -> Driver:
        """Submit a new job in its own queue, and claim it."""
        queue = self.fresh("queue")
        await self.submit(queue=queue, **fields)
        return await self.drive(queue, worker, ttl_us=ttl_us)

    # ── what must not change ──────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def expect_unchanged(self, *sessions: str) -> AsyncIterator[None]:
        """Assert that the block changes nothing that the ports show."""
        before = await self._take_snapshot(sessions or ("root",))
        yield
        after = await self._take_snapshot(sessions or ("root",))
        for label, was in before.items():
            assert after.get(label) == was, f"{label} changed from {was} to {after.get(label)}"
        assert after.keys() == before.keys(), f"something appeared: {after.keys() - before.keys()}"

    @asynccontextmanager
    async def refuses(self, kind: type[E], *sessions: str) -> AsyncIterator[ErrorHolder[E]]:
        """Assert that the block raises this error, and changes nothing that the ports show."""
        refusal: ErrorHolder[E] = ErrorHolder()
        async with self.expect_unchanged(*sessions):
            try:
                yield refusal
            except kind as error:
                refusal.error = error
            else:
                raise AssertionError(f"should have been refused with {kind.__name__}, and was accepted")
        assert refusal.error.hint, f"{kind.__name__} should say what to do next"

    async def _take_snapshot(self, sessions: Sequence[str]) -> dict[str, Any]:
        store = self.store
        picture: dict[str, Any] = {"workers": await store.presences.list(limit=1000)}
        for namespace in [record.namespace for record in await store.namespaces.list()]:
            picture[f"handle {namespace}"] = await store.sessions.find_bound_session(
                HANDLE, namespace=namespace
            )
            intents = await store.attachments.list_uncommitted(INSTANT_US_MAX, namespace=namespace)
            picture[f"attachments {namespace}"] = intents
            picture[f"ledger counts {namespace}"] = await store.ledger.counts(namespace)
            picture[f"agents {namespace}"] = await store.agents.list(namespace=namespace, limit=1000)
            picture[f"schedules {namespace}"] = await store.schedules.list(namespace=namespace, limit=1000)
            picture[f"limits {namespace}"] = await store.queues.list(namespace=namespace)
            picture[f"keys {namespace}"] = await store.keys.list(namespace=namespace, limit=1000)
            picture[f"entries {namespace}"] = await store.entries.list(namespace=namespace)
            picture[f"audit {namespace}"] = await store.audit.head(namespace=namespace)
            for session in sessions:
                place = f"{session} in {namespace}"
                picture[f"session {place}"] = await store.sessions.load(session, namespace=namespace)
                picture[f"meta {place}"] = await store.sessions.meta(session, namespace=namespace)
                picture[f"queue {place}"] = await store.inbox.list(session, namespace=namespace)
                picture[f"pending {place}"] = await store.inbox.list_pending(session, namespace=namespace)
        for record in await store.jobs.list(JobFilter(), limit=1000):
            job_id = record.job_id
            picture[f"job {job_id}"] = record
            picture[f"head {job_id}"] = await store.jobs.head(job_id)
            picture[f"journal {job_id}"] = await store.journal.read(job_id)
            picture[f"calls {job_id}"] = await store.ledger.list(job_id)
            picture[f"mail {job_id}"] = await store.post.read(job_id)
            picture[f"timers {job_id}"] = await store.post.timers(job_id)
            picture[f"said {job_id}"] = await store.streams.read(job_id)
            picture[f"budget {job_id}"] = await store.budgets.find([job_id])
        return picture


@asynccontextmanager
async def bench_on(backend: Backend) -> AsyncIterator[Bench]:
    """A bench with a fresh store, closed at the end."""
    bench = Bench(backend, await backend.open())
    try:
        yield bench
    finally:
        await bench.close()


def present(value: T | None, label: str) -> T:
    """Return the value; assert that it is not None."""
    assert value is not None, f"there should be: {label}"
    return value


def checks_in(*modules: ModuleType) -> tuple[Check, ...]:
    """The checks of these modules in source order: every public coroutine function defined in them."""
    return tuple(
        value
        for module in modules
        for name, value in vars(module).items()
        if inspect.iscoroutinefunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    )
