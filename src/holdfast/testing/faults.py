"""A store that fails on purpose, at named points.

    store = FaultyStore(MemoryStore(clock, ids), decide, process)

Every call passes two points, `journal.append_many:before` and `journal.append_many:after`. At each `decide` says what
happens: nothing, a delay, an error before anything was done, a reply that is lost after everything was done, or the
end (or a long pause) of the process that called. The engine has points of its own, around each effect; together they
are the crash points, and `engine.crash_points` lists them all.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any, Final, Protocol, cast

import msgspec

from holdfast.engine.rest import rest
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.store.contract import Store, StoreInfo
from holdfast.store.ports.attachments import Attachments
from holdfast.store.ports.blobs import Blobs
from holdfast.store.ports.cache import Cache
from holdfast.store.ports.inbox import Inbox
from holdfast.store.ports.jobs import Jobs
from holdfast.store.ports.journal import Journal
from holdfast.store.ports.leases import Leases
from holdfast.store.ports.ledger import Ledger
from holdfast.store.ports.mail import Post
from holdfast.store.ports.namespaces import Namespaces
from holdfast.store.ports.retention import Retention
from holdfast.store.ports.sessions import Sessions
from holdfast.store.ports.streams import Streams
from holdfast.store.ports.wakeups import Wakeups

Call = Callable[..., Awaitable[Any]]
Around = Callable[[str, Call, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
"""What happens instead of a call: its name (`journal.append`), the call itself, its arguments."""


class Kind(StrEnum):
    GO = "go"
    SLOW = "slow"
    REFUSED = "refused"
    LOST = "lost"
    DIES = "dies"
    FREEZES = "freezes"


class Fate(msgspec.Struct, frozen=True):
    """What happens at a point. REFUSED only makes sense before a call, LOST only after it."""

    kind: Kind
    seconds: float = 0.0


GO: Final = Fate(Kind.GO)
Decide = Callable[[str], Fate]


class Victim(Protocol):
    """The process that a store belongs to."""

    def kill(self) -> None: ...

    def freeze(self, seconds: float) -> None: ...

    async def must_live(self) -> None:
        """The process is alive and goes on; a dead one never gets past this."""
        ...


class _Port:
    """One noun of a store, with every call of it led through `around`."""

    def __init__(self, port: Any, noun: str, around: Around) -> None:
        self._port = port
        self._noun = noun
        self._around = around

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self._port, verb)
        if not inspect.iscoroutinefunction(method):
            return method
        name, around = f"{self._noun}.{verb}", self._around

        async def led(*args: Any, **options: Any) -> Any:
            return await around(name, method, args, options)

        self.__dict__[verb] = led
        return led


class WrappedStore:
    """A store all of whose calls go through one function."""

    def __init__(self, store: Store, around: Around) -> None:
        self.inner = store
        self.tier = store.tier
        self.jobs = cast("Jobs", _Port(store.jobs, "jobs", around))
        self.journal = cast("Journal", _Port(store.journal, "journal", around))
        self.leases = cast("Leases", _Port(store.leases, "leases", around))
        self.ledger = cast("Ledger", _Port(store.ledger, "ledger", around))
        self.post = cast("Post", _Port(store.post, "post", around))
        self.sessions = cast("Sessions", _Port(store.sessions, "sessions", around))
        self.inbox = cast("Inbox", _Port(store.inbox, "inbox", around))
        self.attachments = cast("Attachments", _Port(store.attachments, "attachments", around))
        self.blobs = cast("Blobs", _Port(store.blobs, "blobs", around))
        self.namespaces = cast("Namespaces", _Port(store.namespaces, "namespaces", around))
        self.wakeups = cast("Wakeups", _Port(store.wakeups, "wakeups", around))
        self.cache = cast("Cache", _Port(store.cache, "cache", around))
        self.retention = cast("Retention", _Port(store.retention, "retention", around))
        self.streams = cast("Streams", _Port(store.streams, "streams", around))

    async def info(self) -> StoreInfo:
        return await self.inner.info()

    async def close(self) -> None:
        await self.inner.close()


class FaultyStore(WrappedStore):
    """The store as one process sees it, with the faults that `decide` wants."""

    def __init__(self, store: Store, decide: Decide, process: Victim) -> None:
        super().__init__(store, self._led)
        self._decide = decide
        self._process = process

    async def _led(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        await self._meet(f"{name}:before")
        result = await call(*args, **options)
        await self._meet(f"{name}:after")
        return result

    async def _meet(self, point: str) -> None:
        await self._process.must_live()
        fate = self._decide(point)
        match fate.kind:
            case Kind.GO:
                return
            case Kind.SLOW:
                await rest(fate.seconds)
            case Kind.REFUSED:
                await rest(fate.seconds)
                raise StoreUnavailable(f"{point}: the store does not answer")
            case Kind.LOST:
                raise OutcomeUnknown(f"{point}: the reply was lost")
            case Kind.DIES:
                self._process.kill()
                await self._process.must_live()
            case Kind.FREEZES:
                self._process.freeze(fate.seconds)
                await self._process.must_live()
