"""Event loop with virtual time that also serves real I/O: threads, sockets, subprocesses.

Waiting moves the clock, as in every simulation. But a user's tool may talk to a server on loopback or run in a thread,
and that takes real time: while a call is in progress and something real could complete it, the loop waits for it, and
the clock runs at the speed of the wall clock.
"""

from __future__ import annotations

import selectors
import threading
import time
from typing import Final

from holdfast.testing.simulated_process import ProcessLoop
from holdfast.testing.virtual_loop import VirtualSelector

GLANCE_S: Final = 0.005
"""How long the loop waits for real I/O that no call is known to need: an idle connection, an idle thread."""

LOOK_S: Final = 0.05
PASSES_MAX: Final = 300_000


class _MixedSelector(VirtualSelector):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self._threads = set(threading.enumerate())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if (timeout is not None and timeout <= 0) or not self._is_real():
            return super().select(timeout)
        began = time.monotonic()
        longest = LOOK_S if self.calls else GLANCE_S
        ready = selectors.SelectSelector.select(self, longest if timeout is None else min(timeout, longest))
        if ready or self.calls:
            passed = time.monotonic() - began
            self.now += passed if timeout is None else min(passed, timeout)
            return ready
        return super().select(timeout)

    def _is_real(self) -> bool:
        """Whether there is real I/O besides the loop's own wake-up socket."""
        return len(self.get_map()) > 1 or not self._threads.issuperset(threading.enumerate())


class KitLoop(ProcessLoop):
    """`calls` is the number of calls in progress."""

    def __init__(self) -> None:
        self._mixed = _MixedSelector()
        super().__init__(PASSES_MAX, self._mixed)

    @property
    def calls(self) -> int:
        return self._mixed.calls

    @calls.setter
    def calls(self, calls: int) -> None:
        self._mixed.calls = calls
