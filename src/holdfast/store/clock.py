"""Clocks of a host. A store dates and compares with its own time: see `store.store_clock`.

*Wall* time is the time of day; an administrator or a time server may set it. *Tick* time is the time since boot, which
also counts while the machine sleeps; it cannot be set, and ticks compare only within one boot.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final, Protocol

TEST_CLOCK_FILE: Final = "HOLDFAST_TEST_CLOCK_FILE"
"""For tests with real processes: names a file that holds how many microseconds are added to this host's wall clock.
Without the file, or while it is empty, nothing is added."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Time in integer microseconds."""

    def wall_us(self) -> int: ...

    def tick_us(self) -> int: ...

    def boot(self) -> str:
        """Identifies a boot of the host. Ticks compare only within one boot."""
        ...


class SystemClock:
    """The clock of this host."""

    def __init__(self) -> None:
        self._boot = _read_boot_id()
        self._test_file = os.environ.get(TEST_CLOCK_FILE)

    def wall_us(self) -> int:
        us = time.time_ns() // 1000
        return us if self._test_file is None else us + _read_shift(Path(self._test_file))

    def tick_us(self) -> int:
        return time.clock_gettime_ns(_TICKING) // 1000

    def boot(self) -> str:
        return self._boot


def _read_shift(file: Path) -> int:
    try:
        return int(file.read_text() or 0)
    except FileNotFoundError:
        return 0


_TICKING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _read_boot_id() -> str:
    """The kernel's boot id; on a system without one, the minute at which this boot began."""
    if _BOOT_ID.exists():
        return _BOOT_ID.read_text().strip()
    began_us = time.time_ns() - time.clock_gettime_ns(_TICKING)
    return f"boot-{round(began_us / 60e9)}"


class VirtualClock:
    """A clock that a test advances. Wall and tick advance together; `jump_wall` moves the wall time alone."""

    def __init__(self, wall_us: int = 1_700_000_000_000_000, boot: str = "virtual") -> None:
        self._wall = wall_us
        self._tick = 1_000_000
        self._boot = boot

    def wall_us(self) -> int:
        return self._wall

    def tick_us(self) -> int:
        return self._tick

    def boot(self) -> str:
        return self._boot

    def advance(self, us: int) -> None:
        self._wall += us
        self._tick += us

    def jump_wall(self, us: int) -> None:
        """Set the wall clock, as an administrator or a time server does. No duration changes by it."""
        self._wall += us

    def reboot(self, boot: str) -> None:
        """Start a new boot: ticks start again, and every lease of the old boot has expired."""
        self._boot = boot
        self._tick = 1_000_000


async def pause(seconds: float) -> None:
    """Sleep in real time, between two tries to reach a server. No code that a simulation runs calls it."""
    await asyncio.sleep(seconds)
