"""Store clock: the time that a store dates and compares with. Setting a system clock does not change it.

Every duration (a sleep, a retry, a lease, a quiet time, the life of a key) is measured in store time, which all
processes on a store share:

    a file          the time since boot plus an offset, which the first process of a boot writes into the store: store
                    time then equals the wall clock, but is never before a time that the store has recorded
    Postgres        the server's clock less the steps that were detected (`step_us`, in the store)
    memory          as a file, without the row

Every clock of a Postgres server can be set, so the processes watch it. Each process predicts store time by its own
ticks from its last look at the server, and sends the prediction along with every statement. While the server's clock
less the known steps agrees with the prediction to within `TOLERANCE_US`, the statement uses the server's: one time for
all processes. Otherwise the statement uses the prediction, at once and without a round trip; the next look records the
step, once, by compare-and-set, so that all processes and all later ones agree again.

A look at the server that differs from the prediction has one of three causes:

    another process has recorded a step              with the new `step_us` there is no difference
    this host was suspended, and its ticks with it   other processes have written later times (`seen_at`): theirs count
    the server's clock was set                       the process records the step

Wall time decides only what users write in wall time: cron schedules, and times of day in a request. `calendar_us` is
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
"""Round trips and clock drift explain a difference up to this. Statements for Postgres contain the same number."""

DRIFT_PPM: Final = 500
"""Drift between two clocks that is tolerated: the largest rate at which time services adjust a clock."""

SETTLED_US: Final = 15 * SECOND
"""A process that has watched the clock for less than this does not correct others."""

LOOK_US: Final = 4 * SECOND
"""`sync` looks at the server when its last look is this old: in every maintenance round of a worker."""

STALE_US: Final = MINUTE
"""A process with an older prediction looks at the server before its next statement."""

SEEN_US: Final = MINUTE
"""`seen_at` in a file may be this much older than the latest write."""

log = logging.getLogger("holdfast.clock")


class StoreClock(Protocol):
    """Store time, with the interface of a `Clock`: code that takes a clock and gets this one works in store time."""

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
        """Wall time, for what users write in wall time."""
        ...

    def times(self) -> dict[str, int | str | None]:
        """The values of the time parameters of statements (`now`, `tick`, `boot`, `wall`, `step`)."""
        ...

    async def sync(self) -> None:
        """Compare the clocks, if the last comparison is old enough. Log a step; on Postgres, record it. Call it every
        few seconds."""
        ...


class HostStoreClock:
    """Store time by the ticks of this host: for SQLite files, for memory, and for tests that bring a clock."""

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
        if self._clock.boot() != self._boot:  # only a virtual clock survives a reboot
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
        """Use the offset that the store recorded; returns False, and changes nothing, if the offset is of another
        boot."""
        if boot != self._clock.boot():
            return False
        self._boot, self._offset_us, self._seen_at = boot, offset_us, seen_at
        return True

    def begin_boot(self, seen_at: int) -> None:
        """Set the offset of a new boot: store time equals the wall clock, but is not before a time that the store has
        recorded."""
        self._boot = self._clock.boot()
        wall, tick = self._clock.wall_us(), self._clock.tick_us()
        self._seen_at = wall if wall >= seen_at else seen_at + SEEN_US
        self._offset_us = self._seen_at - tick
        self._is_kept = False

    def is_write_due(self) -> bool:
        """Whether the next commit has to write `row`."""
        return self.wall_us() - self._seen_at >= SEEN_US or not self._is_kept

    def row(self) -> dict[str, int | str]:
        """The row that the store keeps. Call it only to write the row: the clock then counts it as written."""
        self._seen_at, self._is_kept = self.wall_us(), True
        return {"this_boot": self._boot, "offset_us": self._offset_us, "seen_at": self._seen_at}

    async def sync(self) -> None:
        if self.keep is not None and self.is_write_due():
            await self.keep()
        shift_us, before = self._clock.wall_us() - self.wall_us(), self._shift_us
        if before is not None and abs(shift_us - before) <= TOLERANCE_US:
            return
        self._shift_us = shift_us
        if before is not None:
            warn_of_step(shift_us - before, "this host's")


class ClockReading(msgspec.Struct, frozen=True):
    """One reading of the server's clock, and the ticks of this host before and after it."""

    server_us: int
    step_us: int
    epoch: int
    seen_at: int
    asked_tick: int
    answered_tick: int
    submitted_at: int = 0
    """When the latest pending job was submitted (of up to ten); only the first look of a process reads it."""


class _Base(msgspec.Struct, frozen=True):
    """The point from which store time is predicted. It is replaced as a whole: threads may read it at any time."""

    store_us: int
    tick_us: int
    step_us: int
    epoch: int


class ServerStoreClock:
    """Store time by the clock of a Postgres server, less its steps. Nothing here does I/O: `judge` takes the result of
    a look, and returns the step that is to be recorded."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base: _Base | None = None
        self._known_since = 0
        self._looked_at = 0
        self._judging = threading.Lock()
        self.look: Callable[[], Awaitable[None]] | None = None
        """Looks at the server and passes the result to `judge`."""

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
        if base is None:  # only in the look that opens the store
            return {"now": None, "tick": None, "boot": "", "wall": None, "step": 0}
        now = base.store_us + self._clock.tick_us() - base.tick_us
        return {"now": now, "tick": now, "boot": "", "wall": None, "step": base.step_us}

    @property
    def is_known(self) -> bool:
        """Whether this process has looked at the server."""
        return self._base is not None

    def age_us(self) -> int:
        """Time since the last look."""
        return self._clock.tick_us() - self._looked_at

    async def sync(self) -> None:
        if self.look is not None and self.age_us() >= LOOK_US:
            await self.look()

    def read_settled_us(self) -> int | None:
        """Store time, if this process has watched the clock long enough that others may rely on it; else None."""
        if self._base is None or self._clock.tick_us() - self._known_since < SETTLED_US:
            return None
        return self.wall_us()

    def judge(self, look: ClockReading) -> int | None:
        """Predict store time from this look on, and return None; or return the `step_us` that is to be recorded first,
        by compare-and-set on the look's epoch. Then look again."""
        with self._judging:
            base, found = self._base, look.server_us - look.step_us
            if base is None:
                floor = look.seen_at
                if abs(found - look.seen_at) > SEEN_US:  # no process has watched the server lately
                    floor = max(look.seen_at, look.submitted_at)
                if found < floor - TOLERANCE_US:  # the clock was set back meanwhile
                    return look.server_us - floor
                self._known_since = look.answered_tick
                self._set_base(look)
                return None
            earliest = base.store_us + look.asked_tick - base.tick_us
            latest = base.store_us + look.answered_tick - base.tick_us
            beyond_us = max(found - latest, 0) + min(found - earliest, 0)
            tolerance_us = TOLERANCE_US + (look.answered_tick - base.tick_us) * DRIFT_PPM // 1_000_000
            if abs(beyond_us) <= tolerance_us:
                if latest - earliest <= TOLERANCE_US or look.epoch != base.epoch:
                    self._set_base(look)
                self._looked_at = look.answered_tick
                return None
            is_new = look.answered_tick - self._known_since < SETTLED_US
            is_corrected = look.epoch != base.epoch and is_new
            stood_still = beyond_us > 0 and look.seen_at > latest + tolerance_us
            if is_corrected or stood_still:
                self._known_since = look.answered_tick
                self._set_base(look)
                return None
            return look.server_us - (earliest + latest) // 2

    def _set_base(self, look: ClockReading) -> None:
        self._looked_at = look.answered_tick
        self._base = _Base(
            look.server_us - look.step_us,
            (look.asked_tick + look.answered_tick) // 2,
            look.step_us,
            look.epoch,
        )


def to_store_us(clock: StoreClock, wall_us: int) -> int:
    """The store time at which the calendar shows this wall time, if no clock is set until then."""
    shift_us = clock.calendar_us() - clock.wall_us()
    return wall_us - shift_us if abs(shift_us) > TOLERANCE_US else wall_us


def warn_of_step(us: int, owner: str) -> None:
    log.warning(
        "%s clock was set by %+.1f s; durations do not change, and times that are shown are off by as much until it is "
        "set right. See: holdfast doctor",
        owner,
        us / SECOND,
    )
