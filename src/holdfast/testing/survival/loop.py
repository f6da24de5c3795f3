"""An event loop with virtual time in which real things may still happen: a thread, a socket, a program.

Waiting moves the clock, as in every simulation. But a user's tool may talk to a server on loopback or run in a thread,
and that takes its real time: while a call is under way and something real could answer it, the loop waits for it, and
the clock goes as fast as the wall's.
"""

from __future__ import annotations

import selectors
import threading
import time
from typing import Final

from holdfast.testing.simulated_process import ProcessLoop
from holdfast.testing.virtual_loop import VirtualSelector

GLANCE_S: Final = 0.005
"""How long something real is given that no call is known to wait for: a connection that is kept, a thread at rest."""

LOOK_S: Final = 0.05
PASSES_MAX: Final = 300_000


class _Mixed(VirtualSelector):
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
        """Whether anything but the loop's own bell is there that could ring."""
        return len(self.get_map()) > 1 or not self._threads.issuperset(threading.enumerate())


class KitLoop(ProcessLoop):
    """`calls` is how many calls are under way."""

    def __init__(self) -> None:
        self._mixed = _Mixed()
        super().__init__(PASSES_MAX, self._mixed)

    @property
    def calls(self) -> int:
        return self._mixed.calls

    @calls.setter
    def calls(self, calls: int) -> None:
        self._mixed.calls = calls
