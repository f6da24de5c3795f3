"""Registry: external agents register, send heartbeats, update their entries and deregister.

Each change is conditional on the revision that was read (optimistic concurrency): of two concurrent writers the later
one reads again and applies its change to that. No writer overwrites a field that another has written, and none waits
for a lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from holdfast.errors import NotFound, Unavailable
from holdfast.model.agent_registry import (
    AgentEntry,
    AgentFilter,
    AgentStatus,
    Change,
    EntryChanges,
    RegistryHealth,
    StoredEntry,
    apply_changes,
    is_forgotten,
    make_entry,
    record_heartbeat,
    select_entries,
)
from holdfast.model.limits import ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.registry.port import EntryStore

TRIES: Final = 50
EVERYBODY: Final = AgentFilter()
_CURSOR: Final = "registry"
log = logging.getLogger("holdfast.registry")


class Registry:
    """`now_us` is the clock of the backend: store time, or wall time for NATS."""

    def __init__(self, place: EntryStore, now_us: Callable[[], int]) -> None:
        self._place = place
        self.now_us = now_us

    def health(self) -> RegistryHealth:
        return self._place.health()

    async def close(self) -> None:
        await self._place.close()

    async def register(self, entry: AgentEntry) -> StoredEntry:
        """Register the agent with this entry. Registering again replaces the entry and keeps the first registration
        time."""
        for _ in range(TRIES):
            before = await self._place.get(entry.guid)
            new = make_entry(entry, None if before is None else before.entry, self.now_us())
            seen = await self._place.put(new, over=0 if before is None else before.revision)
            if seen is not None:
                return seen
        raise _make_contended_error(entry.guid)

    async def beat(
        self, guid: str, *, status: AgentStatus | None = None, tasks: int | None = None
    ) -> StoredEntry:
        """Record a heartbeat. An unknown agent must register first."""
        return await self._change(guid, record_heartbeat(self.now_us(), status, tasks))

    async def update(self, guid: str, changes: EntryChanges) -> StoredEntry:
        """Apply an update to the agent's entry."""
        return await self._change(guid, apply_changes(changes, self.now_us()))

    async def deregister(self, guid: str) -> bool:
        """Remove the agent; returns whether it was registered."""
        for _ in range(TRIES):
            seen = await self._place.get(guid)
            if seen is None:
                return False
            if await self._place.remove(guid, over=seen.revision):
                return True
        raise _make_contended_error(guid)

    async def get(self, guid: str) -> StoredEntry:
        """The agent's current entry; the last known one while the backend is unavailable, so that work does not wait
        for it."""
        try:
            seen = await self._place.get(guid)
        except Unavailable:
            known = {cached.entry.guid: cached for cached in await self._place.list()}
            if guid not in known:
                raise
            seen = known[guid]
        if seen is None or is_forgotten(seen, self.now_us()):
            raise _make_unknown_error(guid)
        return seen

    async def list(
        self,
        filter_: AgentFilter = EVERYBODY,
        *,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[StoredEntry]:
        """The entries that match the filter, by handle."""
        found = select_entries(await self._place.list(), filter_, self.now_us())
        if cursor is not None:
            handle, guid = decode_cursor(_CURSOR, cursor, keys=2)
            found = [
                seen for seen in found if (seen.entry.handle, seen.entry.guid) > (str(handle), str(guid))
            ]
        page = tuple(found[:limit])
        more = page and len(found) > limit
        return Page(
            page, encode_cursor(_CURSOR, page[-1].entry.handle, page[-1].entry.guid) if more else None
        )

    async def forget(self) -> int:
        """Remove agents that were silent for a day; returns how many. An agent that sends a heartbeat meanwhile stays:
        its revision has changed."""
        gone = 0
        for seen in await self._place.list():
            if is_forgotten(seen, self.now_us()) and await self._place.remove(
                seen.entry.guid, over=seen.revision
            ):
                log.info("agent %s sent no heartbeat for a day: removed from the registry", seen.entry.guid)
                gone += 1
        return gone

    async def _change(self, guid: str, change: Change) -> StoredEntry:
        for _ in range(TRIES):
            seen = await self._place.get(guid)
            if seen is None:
                raise _make_unknown_error(guid)
            new = await self._place.put(change(seen.entry), over=seen.revision)
            if new is not None:
                return new
        raise _make_contended_error(guid)


def _make_unknown_error(guid: str) -> NotFound:
    return NotFound(
        f"no agent {guid!r} is registered",
        hint="Register first: POST /api/agents/register. `holdfast agent external`",
    )


def _make_contended_error(guid: str) -> Unavailable:
    return Unavailable(
        f"the entry of agent {guid!r} changes too often to be read consistently", hint="Try again."
    )
