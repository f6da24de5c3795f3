"""Worker presences in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from holdfast.errors import InvalidMove, NotFound
from holdfast.model.audit import ActDraft, check_act
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.states import Status
from holdfast.model.worker_presence import (
    BEAT_US,
    FORGOTTEN_US,
    HeartbeatReply,
    Presence,
    SeenWorker,
    WorkerState,
    check_presence,
)
from holdfast.store.memory.audit import add_line
from holdfast.store.memory.state import MemoryState, PresenceRow

_CURSOR: Final = "workers"


class MemoryPresences:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def beat(self, presence: Presence) -> HeartbeatReply:
        check_presence(presence)
        with self._state.transaction() as work:
            presences = work.tables.presences
            known = presences.get(presence.worker)
            if known is None or known.presence.identity != presence.identity:
                known = PresenceRow(presence, work.wall, work.wall)
            presences[presence.worker] = replace(known, presence=presence, seen_at=work.wall)
            for name in [name for name, row in presences.items() if work.wall - row.seen_at >= FORGOTTEN_US]:
                del presences[name]
            return HeartbeatReply(
                listed={name: row.presence.identity for name, row in presences.items()},
                drain=known.drain_asked_at is not None,
            )

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[SeenWorker]:
        now = self._state.clock.wall_us()
        after = "" if cursor is None else str(decode_cursor(_CURSOR, cursor, keys=1)[0])
        rows = sorted(self._state.tables.presences.items())
        found = [
            self._to_seen_worker(row, now)
            for name, row in rows
            if name > after and now - row.seen_at < FORGOTTEN_US
        ]
        page = tuple(found[:limit])
        more = encode_cursor(_CURSOR, page[-1].presence.worker) if page and len(found) > limit else None
        return Page(page, more)

    async def ask_to_drain(self, worker: str, act: ActDraft) -> SeenWorker:
        line = check_act(act)
        with self._state.transaction() as work:
            row = work.tables.presences.get(worker)
            if row is None or work.wall - row.seen_at >= FORGOTTEN_US:
                raise NotFound(f"there is no worker {worker!r}", hint="List the workers.")
            if not row.presence.offer.drains:
                raise InvalidMove(f"worker {worker!r} would not heed it", hint="End its process.")
            if row.drain_asked_at is None:
                row = work.tables.presences[worker] = replace(row, drain_asked_at=work.wall)
                add_line(work, line)
            return self._to_seen_worker(row, work.wall)

    async def remove(self, worker: str, identity: str) -> bool:
        with self._state.transaction() as work:
            row = work.tables.presences.get(worker)
            if row is None or row.presence.identity != identity:
                return False
            del work.tables.presences[worker]
            return True

    def _to_seen_worker(self, row: PresenceRow, now: int) -> SeenWorker:
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
            drain_asked_at=row.drain_asked_at,
        )
