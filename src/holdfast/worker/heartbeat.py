"""Heartbeat: keeps a worker's presence in the list, and removes neighbours whose process is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.worker_presence import BEAT_US, Presence
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

log = logging.getLogger("holdfast.process")


class WorkerHeartbeat:
    """One worker's presence. `is_dead` knows identities of this host. If the store is unavailable, the next beat tries
    again."""

    def __init__(
        self, store: Store, clock: Clock, presence: Presence, is_dead: Callable[[str], bool]
    ) -> None:
        self._store = store
        self._clock = clock
        self._presence = presence
        self._is_dead = is_dead
        self._due_at = clock.tick_us()
        self._on_drain: Callable[[], None] = lambda: None
        self._speaking = asyncio.Lock()  # of two concurrent writes, the older could arrive last and win

    def on_drain(self, handler: Callable[[], None]) -> None:
        """Sets the handler of drain requests: called at each beat while an operator has requested that this worker
        drains and it does not drain yet."""
        self._on_drain = handler

    async def beat(self) -> None:
        """Renews the worker's presence, if a beat is due; removes dead neighbours from the list."""
        async with self._speaking:
            if self._clock.tick_us() < self._due_at:
                return
            reply = await self._store.presences.beat(self._presence)
            self._due_at = self._clock.tick_us() + BEAT_US
            is_news = reply.drain and not self._presence.draining
        if is_news:
            self._on_drain()
        for worker, identity in reply.listed.items():
            if self._is_dead(identity):
                log.info("worker %s is dead: removed from the list", worker)
                await self._store.presences.remove(worker, identity)

    async def drain(self) -> None:
        """Lists the worker as draining."""
        async with self._speaking:
            self._presence = msgspec.structs.replace(self._presence, draining=True)
            self._due_at = self._clock.tick_us()
        try:
            await self.beat()
        except HoldfastError as error:
            log.warning("the drain of this worker could not be announced: %s", error)

    async def leave(self) -> None:
        """Removes the worker from the list."""
        try:
            await self._store.presences.remove(self._presence.worker, self._presence.identity)
        except HoldfastError as error:
            log.warning("this worker could not be removed from the list: %s", error)
