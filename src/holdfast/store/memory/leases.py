"""Leases in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from holdfast.model.events import JobClaimed
from holdfast.model.hash_chain import seal, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.lease import LEASE_TTL_US, Grant, is_live
from holdfast.model.states import HELD, Slot, Status, WaitReason
from holdfast.model.worker_lease import WorkerLease
from holdfast.store.memory.state import JobRow, MemoryState, MemoryTransaction
from holdfast.store.ports.leases import (
    AHEAD_US,
    WORKERS,
    BeatResult,
    ClaimRequest,
    HeldLease,
    check_claim_request,
    check_worker_lease,
)


class MemoryLeases:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def claim(self, request: ClaimRequest) -> list[Grant]:
        check_claim_request(request)
        with self._state.transaction() as work:
            rows = list(work.tables.jobs.values())
            held = [
                row
                for row in rows
                if _is_held(row.head, request.token) and row.head.lease_owner == request.worker
            ]
            if held:  # an earlier claim with this token, whose reply was lost
                return [_make_grant(row, row.head, _was_takeover(row)) for row in _sort_rows(held, request)]
            if request.incarnation is not None:
                lease = work.tables.worker_leases.get(request.worker)
                if lease is None or lease.incarnation != request.incarnation:
                    return []
            if request.handed is not None:
                row = work.tables.jobs.get(request.handed.job_id)
                if row is None or not _is_held(row.head, request.handed.lease_token):
                    return []
                return [_claim_job(work, row, request)] if row.head.fence == request.handed.fence else []
            reachable = None if request.roots is None else _find_reachable(rows, request.roots)
            ready = [
                row
                for row in rows
                if _is_asked_for(row.head, request)
                and (reachable is None or row.head.job_id in reachable)
                and _is_claimable(row.head, work, 0 if reachable is None else reachable[row.head.job_id])
            ]
            room = request.limit
            if request.most is not None:
                owned = [row.head for row in rows if row.head.lease_owner == request.worker]
                room = min(room, request.most - sum(is_driven(head, work.tick, work.boot) for head in owned))
            return [_claim_job(work, row, request) for row in _sort_rows(ready, request)[: max(room, 0)]]

    async def renew(self, held: Sequence[HeldLease], ttl_us: int = LEASE_TTL_US) -> set[str]:
        renewed = set()
        with self._state.transaction() as work:
            for lease in held:
                row = work.tables.jobs.get(lease.job_id)
                if row is None or not _is_held(row.head, lease.lease_token) or row.head.fence != lease.fence:
                    continue
                # The boot, too: otherwise a renewed lease of an earlier boot would count as expired.
                _put(work, row, lease_expires_at=work.tick + ttl_us, lease_boot=work.boot)
                renewed.add(lease.job_id)
        return renewed

    async def start(self, lease: WorkerLease) -> BeatResult:
        check_worker_lease(lease)
        with self._state.transaction() as work:
            leases = work.tables.worker_leases
            before = leases.get(lease.worker)
            if before is not None and before.incarnation != lease.incarnation:
                _expire(work, lease.worker)
            leases[lease.worker] = lease
            work.hint(WORKERS)
            return _beat(work, lease.worker)

    async def beat(self, lease: WorkerLease) -> BeatResult:
        with self._state.transaction() as work:
            leases = work.tables.worker_leases
            before = leases.get(lease.worker)
            if before is not None and before.incarnation == lease.incarnation:
                leases[lease.worker] = lease
            return _beat(work, lease.worker)

    async def expire(
        self, worker: str, incarnation: str | None = None, beat: int | None = None
    ) -> int | None:
        with self._state.transaction() as work:
            row = work.tables.worker_leases.get(worker)
            if incarnation is not None and (row is None or row.incarnation != incarnation):
                return None
            if beat is not None and (row is None or row.beat != beat):
                return None
            work.tables.worker_leases.pop(worker, None)
            return _expire(work, worker)

    async def workers(self) -> list[WorkerLease]:
        return [lease for _, lease in sorted(self._state.tables.worker_leases.items())]

    async def count(self, worker: str) -> int:
        tick, boot = self._state.clock.tick_us(), self._state.clock.boot()
        heads = [row.head for row in self._state.tables.jobs.values()]
        return sum(head.lease_owner == worker and is_driven(head, tick, boot) for head in heads)

    async def owners(self) -> list[str]:
        heads = [row.head for row in self._state.tables.jobs.values()]
        return sorted({head.lease_owner for head in heads if head.status is Status.RUNNING})

    async def list_expired(self, limit: int = 1000) -> list[str]:
        clock = self._state.clock
        heads = [row.head for row in self._state.tables.jobs.values()]
        expired = [
            h for h in heads if h.status is Status.RUNNING and not is_driven(h, clock.tick_us(), clock.boot())
        ]
        return [head.job_id for head in sorted(expired, key=lambda h: (h.lease_expires_at, h.job_id))[:limit]]


def _beat(work: MemoryTransaction, worker: str) -> BeatResult:
    leases = work.tables.worker_leases
    return BeatResult(
        leases.get(worker), tuple(lease for _, lease in sorted(leases.items()) if lease.worker != worker)
    )


def _expire(work: MemoryTransaction, worker: str) -> int:
    rows = [
        row
        for row in work.tables.jobs.values()
        if row.head.status is Status.RUNNING and row.head.lease_owner == worker
    ]
    for row in rows:
        _put(work, row, lease_expires_at=0)
        work.hint(f"queue:{row.head.queue}")
    return len(rows)


def is_driven(head: JobHead, tick: int, boot: str) -> bool:
    """Whether the job has a live lease, so that its holder may be driving it."""
    return is_live(head.status, head.lease_expires_at, head.lease_boot, tick=tick, this_boot=boot)


def _is_held(head: JobHead, token: str) -> bool:
    return head.status is Status.RUNNING and head.lease_token == token


def _is_asked_for(head: JobHead, request: ClaimRequest) -> bool:
    if request.namespace not in {None, head.namespace}:
        return False
    if request.suspect_at is not None and request.roots is None:
        lost_holders = head.takeovers + (head.status is Status.RUNNING)
        if lost_holders >= request.suspect_at:
            return False
    return head.queue in request.queues and (not request.kinds or head.kind in request.kinds)


def _find_reachable(rows: Sequence[JobRow], roots: Sequence[str]) -> dict[str, int]:
    """The jobs that a restricted claim may take, each with the time for which it must have been ready."""
    children: dict[str, list[str]] = {}
    for row in rows:
        if row.submission.parent_job_id is not None:
            children.setdefault(row.submission.parent_job_id, []).append(row.head.job_id)
    own: set[str] = set()
    new = list(roots)
    while new:
        own.update(new)
        new = [child for parent in new for child in children.get(parent, ()) if child not in own]
    behind = {
        (row.head.namespace, row.head.session_id)
        for row in rows
        if row.head.job_id in own and row.head.session_slot is Slot.BEHIND
    }
    ahead = (
        row.head.job_id
        for row in rows
        if row.head.session_slot is Slot.LIVE and (row.head.namespace, row.head.session_id) in behind
    )
    return dict.fromkeys(ahead, AHEAD_US) | dict.fromkeys(own, 0)


def _is_claimable(head: JobHead, work: MemoryTransaction, ready_for_us: int) -> bool:
    if head.session_slot is Slot.BEHIND:
        return False
    match head.status:
        case Status.PENDING:
            return head.ready_at <= work.wall - ready_for_us
        case Status.WAITING:
            is_blocked = head.wait_reason in HELD or head.wait_reason is WaitReason.JOINED
            return not is_blocked and head.wake_at is not None and head.wake_at <= work.wall - ready_for_us
        case Status.RUNNING:
            return not is_driven(head, work.tick, work.boot)
        case _:
            return False


def _sort_rows(rows: list[JobRow], request: ClaimRequest) -> list[JobRow]:
    """By larger priority unless `by_age`, then older, then smaller id."""

    def rank(row: JobRow) -> tuple[int, int, str]:
        return (0 if request.by_age else -row.head.priority, row.head.ready_at, row.head.job_id)

    return sorted(rows, key=rank)


def _claim_job(work: MemoryTransaction, row: JobRow, request: ClaimRequest) -> Grant:
    old = row.head
    takeover = old.status is Status.RUNNING and request.handed is None
    fence = old.fence + 1
    claimed = JobClaimed(worker=request.worker, takeover=takeover)
    events, end = seal(old.job_id, old.head, fence, work.wall, [claimed])
    row = dataclasses.replace(row, events=row.events + events)
    head = _put(
        work,
        row,
        status=Status.RUNNING,
        wait_reason=None,
        wake_at=None,
        head_seq=end.seq,
        head_hash=end.hash,
        fence=fence,
        lease_token=request.token,
        lease_owner=request.worker,
        lease_boot=work.boot,
        lease_expires_at=work.tick + request.lease_us,
        takeovers=old.takeovers + 1 if takeover else old.takeovers,
    )
    return _make_grant(row, head, takeover)


def _put(work: MemoryTransaction, row: JobRow, **changes: object) -> JobHead:
    head = msgspec.structs.replace(row.head, **changes)
    work.tables.jobs[head.job_id] = dataclasses.replace(row, head=head)
    return head


def _was_takeover(row: JobRow) -> bool:
    """Whether the newest `job_claimed` is a takeover."""
    claims = [event for event in row.events if event.type == JobClaimed.type]
    newest = unseal(claims[-1])
    assert isinstance(newest, JobClaimed), f"{newest} is stored as {JobClaimed.type}"
    return newest.takeover


def _make_grant(row: JobRow, head: JobHead, takeover: bool) -> Grant:
    return Grant(
        job_id=head.job_id,
        namespace=head.namespace,
        kind=head.kind,
        queue=head.queue,
        session_id=head.session_id,
        fence=head.fence,
        lease_token=head.lease_token,
        head_seq=head.head_seq,
        head_hash=head.head_hash,
        mail_seq=head.mail_seq,
        attempts=head.attempts,
        takeovers=head.takeovers,
        takeover=takeover,
        lease_expires_at=head.lease_expires_at,
        journal=row.events if head.head_seq == 2 else (),
    )
