"""Presences of workers, by name."""

from __future__ import annotations

from typing import Final

from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.presence import (
    BEAT_US,
    FORGOTTEN_US,
    Presence,
    SeenWorker,
    WorkerState,
    check_presence,
)
from holdfast.model.states import Status
from holdfast.store.memory.state import PresenceRow, State

_CURSOR: Final = "workers"


class MemoryPresences:
    def __init__(self, state: State) -> None:
        self._state = state

    async def beat(self, presence: Presence) -> dict[str, str]:
        check_presence(presence)
        with self._state.transaction() as work:
            heard = work.tables.presences
            known = heard.get(presence.worker)
            is_same = known is not None and known.presence.identity == presence.identity
            since = known.started_at if known is not None and is_same else work.wall
            heard[presence.worker] = PresenceRow(presence, since, work.wall)
            for name in [name for name, row in heard.items() if work.wall - row.seen_at >= FORGOTTEN_US]:
                del heard[name]
            return {name: row.presence.identity for name, row in heard.items()}

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[SeenWorker]:
        now = self._state.clock.wall_us()
        after = "" if cursor is None else str(decode_cursor(_CURSOR, cursor, keys=1)[0])
        rows = sorted(self._state.tables.presences.items())
        found = [
            self._seen(row, now) for name, row in rows if name > after and now - row.seen_at < FORGOTTEN_US
        ]
        page = tuple(found[:limit])
        more = encode_cursor(_CURSOR, page[-1].presence.worker) if page and len(found) > limit else None
        return Page(page, more)

    async def remove(self, worker: str, identity: str) -> bool:
        with self._state.transaction() as work:
            row = work.tables.presences.get(worker)
            if row is None or row.presence.identity != identity:
                return False
            del work.tables.presences[worker]
            return True

    def _seen(self, row: PresenceRow, now: int) -> SeenWorker:
        heads = (job.head for job in self._state.tables.jobs.values())
        name = row.presence.worker
        state = WorkerState.DRAINING if row.presence.draining else WorkerState.HERE
        if now - row.seen_at >= 3 * BEAT_US:
            state = WorkerState.LOST
        return SeenWorker(
            presence=row.presence,
            state=state,
            started_at=row.started_at,
            seen_at=row.seen_at,
            holds=sum(head.status is Status.RUNNING and head.lease_owner == name for head in heads),
        )
