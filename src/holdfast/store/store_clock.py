"""Store clock: the time that a store dates and compares with. Setting a clock does not change it.

Everything that lasts a while (a sleep, a retry, a lease, a quiet time, the life of a key) is measured in store time,
which all processes on a store share:

    a file          the time since boot plus an offset, which the first process of a boot writes into the store: store
                    time is then the wall clock's, but never before a time that the store has seen
    Postgres        the server's clock less the steps that were detected (`step_us`, in the store)
    memory          as a file, without the row

Postgres has no clock that cannot be set, so the processes watch it. Each predicts store time by its own ticks from
its last look at the server, and sends the prediction along with every statement. While the server agrees to within
`TOLERANCE_US`, its clock less the known steps counts: one time for all. When it does not, the prediction counts, at
once and without a round trip; and the next look records the step, once, by compare-and-set, so that all processes and
all later ones agree again.

A look at the server that surprises a process has one of three causes:

    another process has recorded a step              the surprise is gone with the new `step_us`
    this host stood still, and its ticks with it     the others have written later times (`seen_at`): their time counts
    the server's clock was set                       it is recorded

Wall time decides only what people say in wall time: cron schedules, and times of day in a request. `calendar_us` is
that time: the host's clock, or the server's with its steps."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import msgspec

from holdfast.model.time import MINUTE, SECOND
from holdfast.store.clock import Clock

TOLERANCE_US: Final = 2 * SECOND
"""A difference that round trips and clocks that run unevenly explain. Statements for Postgres have it, too."""

DRIFT_PPM: Final = 500
"""How unevenly two clocks may run: as fast as time services let them."""

SETTLED_US: Final = 15 * SECOND
"""A process that has known the store for less has seen too little to correct others."""

LOOK_US: Final = 4 * SECOND
"""How often `sync` looks at the server: with every round of a worker."""

STALE_US: Final = MINUTE
"""A prediction that is older is renewed beside the next statement."""

SEEN_US: Final = MINUTE
"""How far `seen_at` of a file may be behind what was written."""

log = logging.getLogger("holdfast.clock")


class StoreClock(Protocol):
    """Store time, shaped as a `Clock`: what takes a clock and is given this one dates and compares in store time."""

    def wall_us(self) -> int:
        """Store time."""
        ...

    def tick_us(self) -> int:
        """The host's time since boot."""
        ...

    def boot(self) -> str:
        """The host's boot."""
        ...

    def calendar_us(self) -> int:
        """Wall time, for what people say in wall time."""
        ...

    def times(self) -> dict[str, int | str | None]:
        """The values of the tokens by which statements ask for the time."""
        ...

    async def sync(self) -> None:
        """The clocks are compared, if it is time to. A step is logged; on Postgres it is recorded. Call it every few
        seconds."""
        ...


class HostStoreClock:
    """Store time by the ticks of this host: for files, for memory, and for tests that bring a clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._boot = clock.boot()
        self._offset_us = clock.wall_us() - clock.tick_us()
        self._latest = 0
        self._seen_at = 0
        self._is_kept = True
        self._shift_us: int | None = None
        self.keep: Callable[[], Awaitable[None]] | None = None
        """Writes `row` into the store."""

    def wall_us(self) -> int:
        if self._clock.boot() != self._boot:  # only a virtual clock lives through a boot
            self.begin_boot(self._latest)
        self._latest = self._offset_us + self._clock.tick_us()
        return self._latest

    def tick_us(self) -> int:
        return self._clock.tick_us()

    def boot(self) -> str:
        return self._clock.boot()

    def calendar_us(self) -> int:
        return self._clock.wall_us()

    def times(self) -> dict[str, int | str | None]:
        now, clock = self.wall_us(), self._clock
        return {
            "now": now,
            "tick": clock.tick_us(),
            "boot": clock.boot(),
            "wall": clock.wall_us(),
            "step": None,
        }

    def adopt(self, boot: str, offset_us: int, seen_at: int) -> bool:
        """Whether the store knows the offset of this boot; it is used from now on."""
        if boot != self._clock.boot():
            return False
        self._boot, self._offset_us, self._seen_at = boot, offset_us, seen_at
        return True

    def begin_boot(self, seen_at: int) -> None:
        """The offset of a new boot: store time is the wall clock's, but not before a time that the store has seen."""
        self._boot = self._clock.boot()
        wall, tick = self._clock.wall_us(), self._clock.tick_us()
        self._seen_at = wall if wall >= seen_at else seen_at + SEEN_US
        self._offset_us = self._seen_at - tick
        self._is_kept = False

    def is_unkept(self) -> bool:
        """Whether `row` is to be written with the next commit."""
        return self.wall_us() - self._seen_at >= SEEN_US or not self._is_kept

    def row(self) -> dict[str, int | str]:
        """What the store keeps; call it to write it."""
        self._seen_at, self._is_kept = self.wall_us(), True
        return {"this_boot": self._boot, "offset_us": self._offset_us, "seen_at": self._seen_at}

    async def sync(self) -> None:
        if self.keep is not None and self.is_unkept():
            await self.keep()
        shift_us, before = self._clock.wall_us() - self.wall_us(), self._shift_us
        if before is not None and abs(shift_us - before) <= TOLERANCE_US:
            return
        self._shift_us = shift_us
        if before is not None:
            warn_of_step(shift_us - before, "this host's")


class Look(msgspec.Struct, frozen=True):
    """What the server said, and between which ticks of this host."""

    server_us: int
    step_us: int
    epoch: int
    seen_at: int
    asked_tick: int
    answered_tick: int
    submitted_at: int = 0
    """When one of the jobs was submitted that nobody has begun yet; only the first look of a process asks for it."""


class _Base(msgspec.Struct, frozen=True):
    """From where store time is predicted. Replaced as a whole: threads may read it at any time."""

    store_us: int
    tick_us: int
    step_us: int
    epoch: int


class ServerStoreClock:
    """Store time by the clock of a Postgres server, less its steps. Nothing here waits: `judge` takes what a look has
    found, and says which step is to be recorded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base: _Base | None = None
        self._known_since = 0
        self._looked_at = 0
        self._judging = threading.Lock()
        self.look: Callable[[], Awaitable[None]] | None = None
        """Looks at the server, and has the result judged."""

    def wall_us(self) -> int:
        base = self._base
        assert base is not None, "a store looks at its server's clock when it is opened"
        return base.store_us + self._clock.tick_us() - base.tick_us

    def tick_us(self) -> int:
        return self._clock.tick_us()

    def boot(self) -> str:
        return self._clock.boot()

    def calendar_us(self) -> int:
        base = self._base
        return self.wall_us() + (0 if base is None else base.step_us)

    def times(self) -> dict[str, int | str | None]:
        base = self._base
        if base is None:  # only the look that opens the store
            return {"now": None, "tick": None, "boot": "", "wall": None, "step": 0}
        now = base.store_us + self._clock.tick_us() - base.tick_us
        return {"now": now, "tick": now, "boot": "", "wall": None, "step": base.step_us}

    @property
    def is_known(self) -> bool:
        """Whether there was a look at the server."""
        return self._base is not None

    def age_us(self) -> int:
        """How long ago the last look was."""
        return self._clock.tick_us() - self._looked_at

    async def sync(self) -> None:
        if self.look is not None and self.age_us() >= LOOK_US:
            await self.look()

    def read_settled_us(self) -> int | None:
        """Store time, if this process has known it long enough that others may rely on it."""
        if self._base is None or self._clock.tick_us() - self._known_since < SETTLED_US:
            return None
        return self.wall_us()

    def judge(self, look: Look) -> int | None:
        """Store time is predicted from this look on; or the `step_us` that is to be recorded first, by
        compare-and-set on the look's epoch. Then look again."""
        with self._judging:
            base, found = self._base, look.server_us - look.step_us
            if base is None:
                floor = look.seen_at
                if abs(found - look.seen_at) > SEEN_US:  # no process watches the server now
                    floor = max(look.seen_at, look.submitted_at)
                if found < floor - TOLERANCE_US:  # it was set back meanwhile
                    return look.server_us - floor
                self._known_since = look.answered_tick
                self._start_from(look)
                return None
            earliest = base.store_us + look.asked_tick - base.tick_us
            latest = base.store_us + look.answered_tick - base.tick_us
            beyond_us = max(found - latest, 0) + min(found - earliest, 0)
            tolerance_us = TOLERANCE_US + (look.answered_tick - base.tick_us) * DRIFT_PPM // 1_000_000
            if abs(beyond_us) <= tolerance_us:
                if latest - earliest <= TOLERANCE_US or look.epoch != base.epoch:
                    self._start_from(look)
                self._looked_at = look.answered_tick
                return None
            is_new = look.answered_tick - self._known_since < SETTLED_US
            is_corrected = look.epoch != base.epoch and is_new
            stood_still = beyond_us > 0 and look.seen_at > latest + tolerance_us
            if is_corrected or stood_still:
                self._known_since = look.answered_tick
                self._start_from(look)
                return None
            return look.server_us - (earliest + latest) // 2

    def _start_from(self, look: Look) -> None:
        self._looked_at = look.answered_tick
        self._base = _Base(
            look.server_us - look.step_us,
            (look.asked_tick + look.answered_tick) // 2,
            look.step_us,
            look.epoch,
        )


def to_store_us(clock: StoreClock, wall_us: int) -> int:
    """The store time at which the calendar shows this time, if no clock is set until then."""
    shift_us = clock.calendar_us() - clock.wall_us()
    return wall_us - shift_us if abs(shift_us) > TOLERANCE_US else wall_us


def warn_of_step(us: int, whose: str) -> None:
    log.warning(
        "%s clock was set by %+.1f s; durations do not change, and times that are shown are off by as much until it is "
        "set right. See: holdfast doctor",
        whose,
        us / SECOND,
    )
