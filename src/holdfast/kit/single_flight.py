"""Single flight: one call at a time for each key, within a process."""

from __future__ import annotations

import threading


class SingleFlight:
    """A lock per key that is in use; unused keys take no memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[object, tuple[threading.Lock, list[None]]] = {}

    def enter(self, key: object) -> None:
        with self._lock:
            lock, users = self._flights.setdefault(key, (threading.Lock(), []))
            users.append(None)
        lock.acquire()

    def leave(self, key: object) -> None:
        with self._lock:
            lock, users = self._flights[key]
            users.pop()
            if not users:
                del self._flights[key]
        lock.release()
