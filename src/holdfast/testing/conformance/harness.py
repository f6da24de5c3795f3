"""Where a check works: a fresh store, the clock it obeys, and hands for what checks do all the time.

A check is a plain coroutine function that takes a `Bench` and asserts. It knows no test framework; `run` calls it from
anywhere. Everything in it goes through the ports, so it holds for every store or for none.

Most promises of a store are about what does *not* happen. `Bench.refuses` therefore takes a picture of everything the
ports can show, before and after, and compares: a refusal that leaves a trace is not a refusal.
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
from holdfast.store.ports.leases import ClaimAsk, Held
from holdfast.store.ports.sessions import FULL_GRAPH, SessionScope
from holdfast.testing.conformance.driver import Driver

T = TypeVar("T")
E = TypeVar("E", bound=HoldfastError)

HANDLE: Final = "main"
"""The handle of checks that speak of a store bound to one session."""


class Backend(Protocol):
    """What the author of a store provides to have it proven."""

    name: str
    tier: Tier
    durable: bool
    clock: VirtualClock
    """The time of every store that `open` returns. Checks move it; nothing else does."""

    async def open(self) -> Store:
        """A store with nothing in it, whatever was opened before."""
        ...

    async def reopen(self, store: Store) -> Store:
        """Another handle on the same data, as a new process would get it. The old one may be closed by this.

        A store that is not durable has no second handle and may return itself.
        """
        ...


Check: TypeAlias = Callable[["Bench"], Awaitable[None]]


class ErrorHolder(Generic[E]):
    """Holds the error once the block is left."""

    error: E


class Bench:
    """One check's own store. `store` is the handle in use; `reopen` replaces it."""

    def __init__(self, backend: Backend, store: Store) -> None:
        self.backend = backend
        self.store = store
        self.clock = backend.clock
        self._opened = [store]
        self._count = itertools.count(1)

    def fresh(self, word: str) -> str:
        """A name that this bench has not used yet."""
        return f"{word}-{next(self._count)}"

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
        """What an owner gets; under a token of its own unless one is given."""
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
        """The session that the handle is bound to; None before its first commit, and before there is a binding."""
        session_id = await self.store.sessions.find_bound_session(HANDLE)
        return None if session_id is None else await self.store.sessions.load(session_id, scope)

    async def load(self, session_id: str = "root", scope: SessionScope = FULL_GRAPH) -> SessionView:
        return present(await self.store.sessions.load(session_id, scope), f"session {session_id}")

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, kind: str = "work", **fields: Any) -> str:
        """The id of a new job."""
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
        handed: Held | None = None,
    ) -> list[Grant]:
        """What a worker gets; under a token of its own unless one is given."""
        ask = ClaimAsk(
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
        """The ids of the jobs that a claim takes now. They are taken."""
        return [grant.job_id for grant in await self.grants(**ask)]

    async def drive(self, queue: str, worker: str = "worker", **ask: Any) -> Driver:
        """The hold on the only claimable job of a queue."""
        granted = await self.grants(worker, queues=(queue,), **ask)
        assert len(granted) == 1, f"queue {queue} should have one claimable job, not {len(granted)}"
        return self.driver(granted[0])

    def driver(self, grant: Grant) -> Driver:
        return Driver(self.store, self.clock, grant)

    async def driving(self, worker: str = "worker", *, ttl_us: int = LEASE_TTL_US, **fields: Any) -> Driver:
        """A new job in a queue of its own, and the hold on it."""
        queue = self.fresh("queue")
        await self.submit(queue=queue, **fields)
        return await self.drive(queue, worker, ttl_us=ttl_us)

    # ── what must not change ──────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def expect_unchanged(self, *sessions: str) -> AsyncIterator[None]:
        """Nothing that the ports show is different after the block."""
        before = await self._picture(sessions or ("root",))
        yield
        after = await self._picture(sessions or ("root",))
        for what, was in before.items():
            assert after.get(what) == was, f"{what} changed from {was} to {after.get(what)}"
        assert after.keys() == before.keys(), f"something appeared: {after.keys() - before.keys()}"

    @asynccontextmanager
    async def refuses(self, kind: type[E], *sessions: str) -> AsyncIterator[ErrorHolder[E]]:
        """The block is refused with this error, and nothing that the ports show is different."""
        refusal: ErrorHolder[E] = ErrorHolder()
        async with self.expect_unchanged(*sessions):
            try:
                yield refusal
            except kind as error:
                refusal.error = error
            else:
                raise AssertionError(f"should have been refused with {kind.__name__}, and was accepted")
        assert refusal.error.hint, f"{kind.__name__} should say what to do next"

    async def _picture(self, sessions: Sequence[str]) -> dict[str, Any]:
        store = self.store
        shown: dict[str, Any] = {"workers": await store.presences.list(limit=1000)}
        for namespace in [record.namespace for record in await store.namespaces.list()]:
            shown[f"handle {namespace}"] = await store.sessions.find_bound_session(
                HANDLE, namespace=namespace
            )
            intents = await store.attachments.list_uncommitted(INSTANT_US_MAX, namespace=namespace)
            shown[f"attachments {namespace}"] = intents
            shown[f"ledger counts {namespace}"] = await store.ledger.counts(namespace)
            shown[f"agents {namespace}"] = await store.agents.list(namespace=namespace, limit=1000)
            shown[f"schedules {namespace}"] = await store.schedules.list(namespace=namespace, limit=1000)
            shown[f"limits {namespace}"] = await store.queues.list(namespace=namespace)
            shown[f"keys {namespace}"] = await store.keys.list(namespace=namespace, limit=1000)
            shown[f"entries {namespace}"] = await store.entries.list(namespace=namespace)
            shown[f"audit {namespace}"] = await store.audit.head(namespace=namespace)
            for session in sessions:
                place = f"{session} in {namespace}"
                shown[f"session {place}"] = await store.sessions.load(session, namespace=namespace)
                shown[f"meta {place}"] = await store.sessions.meta(session, namespace=namespace)
                shown[f"queue {place}"] = await store.inbox.list(session, namespace=namespace)
                shown[f"pending {place}"] = await store.inbox.list_pending(session, namespace=namespace)
        for record in await store.jobs.list(JobFilter(), limit=1000):
            job_id = record.job_id
            shown[f"job {job_id}"] = record
            shown[f"head {job_id}"] = await store.jobs.head(job_id)
            shown[f"journal {job_id}"] = await store.journal.read(job_id)
            shown[f"calls {job_id}"] = await store.ledger.list(job_id)
            shown[f"mail {job_id}"] = await store.post.read(job_id)
            shown[f"timers {job_id}"] = await store.post.timers(job_id)
            shown[f"said {job_id}"] = await store.streams.read(job_id)
            shown[f"budget {job_id}"] = await store.budgets.find([job_id])
        return shown


@asynccontextmanager
async def bench_on(backend: Backend) -> AsyncIterator[Bench]:
    """A bench with a fresh store, closed at the end."""
    bench = Bench(backend, await backend.open())
    try:
        yield bench
    finally:
        await bench.close()


def present(value: T | None, what: str) -> T:
    """The value, which must be there."""
    assert value is not None, f"there should be: {what}"
    return value


def checks_in(*modules: ModuleType) -> tuple[Check, ...]:
    """The checks of these modules in the order they are written: every public coroutine function of their own."""
    return tuple(
        value
        for module in modules
        for name, value in vars(module).items()
        if inspect.iscoroutinefunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    )
