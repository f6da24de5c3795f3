"""Portal: blocking calls on an async store.

A store needs an event loop. For blocking code the portal runs a thread with an event loop per open store; any thread
may call it.

A SQLite file accepts calls from many loops, and a change of thread costs as much as a commit on a busy machine. So
there each calling thread has a small loop of its own that runs while it waits; commits that come together from many
threads are still one. A brief read needs no loop at all: it never waits, so it runs in the calling thread, and a lookup
in the ledger costs only the database query.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from holdfast.engine.host_processes import HostProcesses, Processes
from holdfast.errors import InvalidSetting, Misuse, StoreUnavailable
from holdfast.kit.single_flight import SingleFlight
from holdfast.model.ids import IdSource, RandomIds
from holdfast.model.worker_identity import worker_name
from holdfast.runtime import open_store
from holdfast.store import address
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.contract import Store, Tier

T = TypeVar("T")

VARIABLE: Final = "HOLDFAST_STORE"
_IN_PLACE: Final = frozenset({Tier.SQLITE, Tier.SQLITE_RELAXED})
_AT_ONCE: Final = _IN_PLACE | {Tier.MEMORY}


class _Loop:
    """A thread's event loop, closed when the thread has ended and nothing refers to it any more."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        # Not `__del__`: the order in which two objects are finalized together is undefined, and the loop would warn.
        weakref.finalize(self, _close, self.loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_running():  # at process exit a daemon thread may still be running it
        loop.close()


class Database:
    """An open store for blocking code. `get_db` returns it; every `conn=` of the kit takes it.

    A process may end without closing it: acknowledged writes are durable, as after a kill.
    """

    def __init__(self, where: str, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self.where = where
        self.ids: IdSource = RandomIds() if ids is None else ids
        self.processes: Processes = HostProcesses((SystemClock() if clock is None else clock).boot())
        self.flights = SingleFlight()
        self.pid = os.getpid()
        self._given_clock = clock
        self._closed = False
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-kit", daemon=True)
        self._thread.start()
        try:
            self.store: Store = self._call(open_store(where, clock=clock, ids=self.ids))
        except BaseException:
            self._stop()
            raise
        self.clock: Clock = self.store.clock
        """Store time: dates leases and ledger rows."""
        self._at_once = self.store.tier in _AT_ONCE
        self._in_place = self.store.tier in _IN_PLACE
        self._own = threading.local()
        self.on_server = not self._at_once and clock is None
        """Whether leases use a server's clock; else they use the ticks of this host."""
        self._me = self._name()

    @property
    def me(self) -> str:
        """The name of this process: enough for others on this host to prove its death."""
        return self._me

    def goes_by(self, clock: Clock) -> bool:
        """Whether this is the clock that the store was opened with."""
        return clock is self._given_clock

    def lease_now_us(self) -> int:
        """The time in which leases of this store are measured, as this process knows it."""
        return self.clock.wall_us() if self.on_server else self.clock.tick_us()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run the call and return its result. Blocks; any thread but the store's own may call it."""
        self._must_be_open(call)
        if not self._in_place or _in_a_loop():
            return self._call(call)
        own: _Loop | None = getattr(self._own, "loop", None)
        if own is None:
            own = self._own.loop = _Loop()
        return own.loop.run_until_complete(call)

    def look(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a brief read and return its result. The call must be a point lookup through a port that says that it
        never waits."""
        self._must_be_open(call)
        if not self._at_once:
            return self._call(call)
        try:
            call.send(None)
        except StopIteration as done:
            value: T = done.value
            return value
        call.close()
        msg = "a call that waits was asked for as a brief read"
        raise AssertionError(msg)

    def close(self) -> None:
        """Close the store; returns when its thread has ended. A second call does nothing."""
        with self._lock:
            if self._closed or os.getpid() != self.pid:
                return
            self._closed = True
        with _REGISTRY_LOCK:
            for key in [key for key, known in _REGISTRY.items() if known is self]:
                del _REGISTRY[key]
        try:
            self._call(self.store.close())
        finally:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _must_be_open(self, call: Coroutine[Any, Any, Any]) -> None:
        if self._closed:
            call.close()
            msg = "the store is closed"
            raise StoreUnavailable(msg, hint="Get it again with get_db().")
        if os.getpid() != self.pid:
            call.close()
            raise _make_fork_error(self.where)

    def _name(self) -> str:
        here = self.processes.here()
        return self.ids.new("worker") if here is None else worker_name("kit", here)


def _in_a_loop() -> bool:
    """Whether this thread already runs an event loop, because async code makes the blocking call: then the store's
    thread runs it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# ── one per address ───────────────────────────────────────────────────────────────────────────────

_REGISTRY: Final[dict[str, Database]] = {}
_REGISTRY_LOCK: Final = threading.RLock()


def get_db(
    db_path: str | Path | Database | None = None, *, clock: Clock | None = None, ids: IdSource | None = None
) -> Database:
    """The store at this address, opened once per process: a file, or a URL such as `postgresql://…` or `memory:`.

    Without one it is the store named by HOLDFAST_STORE, or `holdfast.db` here. Clock and ids are for tests.
    """
    if isinstance(db_path, Database):
        return db_path
    where = _address(db_path)
    with _REGISTRY_LOCK:
        known = _REGISTRY.get(where)
        if known is None:
            known = _REGISTRY[where] = Database(where, clock, ids)
        elif known.pid != os.getpid():
            raise _make_fork_error(where)
        elif clock is not None and not known.goes_by(clock):
            msg = f"{where} is open already, with another clock"
            raise Misuse(msg, hint="Close it first, or pass the Database around.")
    return known


def need_db(conn: object, db_path: str | Path | None = None) -> Database:
    """The store of a `conn=` argument. A connection of another library to the same file is rejected."""
    if isinstance(conn, Database):
        return conn
    if conn is None or isinstance(conn, str | Path):
        return get_db(conn or db_path)
    msg = f"conn is a {type(conn).__module__}.{type(conn).__qualname__}; it must come from get_db()"
    hint = "Pass conn=get_db(path): a second database library on one file in one process drops the first one's locks."
    raise InvalidSetting(msg, hint=hint)


def _address(db_path: str | Path | None) -> str:
    text = os.environ.get(VARIABLE, address.DEFAULT) if db_path is None else str(db_path)
    if text != "memory:" and "://" not in text:
        text = f"sqlite:///{text}"
    place = address.parse(text)
    if place.kind != "sqlite":
        return text
    file = place.path.absolute()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{file}"


def _make_fork_error(where: str) -> Misuse:
    msg = f"{where} was opened before a fork"
    hint = "Open it in the child only, or start processes with `spawn`; connections do not survive a fork."
    return Misuse(msg, hint=hint)
