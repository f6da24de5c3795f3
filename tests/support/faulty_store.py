"""A store that fails on purpose, at named points.

    store = FaultyStore(MemoryStore(clock, ids), decide, process)

Every call passes two points, `journal.append_many:before` and `journal.append_many:after`. At each `decide` says what
happens: nothing, a delay, an error before anything was done, a reply that is lost after everything was done, or the
end (or a long pause) of the process that called. The engine has points of its own, around each effect; together they
are the crash points, and `engine.crash_points` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, Protocol

import msgspec

from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import OutcomeUnknown, StoreUnavailable
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore


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


class FaultyStore(InterceptedStore):
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
                await sleep_on_loop(fate.seconds)
            case Kind.REFUSED:
                await sleep_on_loop(fate.seconds)
                raise StoreUnavailable(f"{point}: the store does not answer")
            case Kind.LOST:
                raise OutcomeUnknown(f"{point}: the reply was lost")
            case Kind.DIES:
                self._process.kill()
                await self._process.must_live()
            case Kind.FREEZES:
                self._process.freeze(fate.seconds)
                await self._process.must_live()
