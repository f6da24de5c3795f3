"""Leases over SQL."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.model.events import JobClaimed
from holdfast.model.hash_chain import SealedEvent, body_of, seal
from holdfast.model.jobs import JobHead
from holdfast.model.lease import LEASE_TTL_US, Grant
from holdfast.model.states import Status
from holdfast.model.worker_lease import WorkerLease
from holdfast.store.executor import Executor, Row, Transaction, Value
from holdfast.store.ports.leases import (
    AHEAD_US,
    WORKERS,
    BeatResult,
    ClaimRequest,
    HeldLease,
    check_claim_request,
    check_worker_lease,
)
from holdfast.store.tables.bulk_append import build_event_values
from holdfast.store.tables.job_heads import head_of

WORKERS_KEPT: Final = 256
NO_SUSPECTS: Final = 2**53


class SqlLeases:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def claim(self, request: ClaimRequest) -> list[Grant]:
        check_claim_request(request)
        is_open = request.roots is None and request.handed is None
        if self._executor.batches and not self._executor.seals and is_open:
            return await self._claim_at_once(request)

        async def work(tx: Transaction) -> list[Grant]:
            known = await find_earlier_grant(tx, request)
            return known or await claim_in(tx, request)

        return await self._executor.write(work)

    async def _claim_at_once(self, request: ClaimRequest) -> list[Grant]:
        """Claim in one statement, which grants nothing under a token that already has grants."""
        claimed = _build_claim_values(request)
        rows = await self._executor.run_statement(
            "claim_jobs_by_age" if request.by_age else "claim_jobs_by_priority",
            **_build_conditions(request),
            suspect_at=_suspect_at(request),
            **claimed,
        )
        if not rows:
            return await self._executor.read(
                functools.partial(find_earlier_grant, request=request), brief=True
            )
        place = _rank_by_age if request.by_age else _rank_by_priority
        ordered = sorted(rows, key=lambda row: place(row[_PRIORITY], row[_PRIORITY + 1], row[0]))
        return [_to_grant(row, claimed) for row in ordered]

    async def renew(self, held: Sequence[HeldLease], ttl_us: int = LEASE_TTL_US) -> set[str]:
        # In id order, like every statement that locks several heads.
        ordered = sorted(held, key=lambda lease: lease.job_id)

        async def work(tx: Transaction) -> set[str]:
            if tx.batches:
                rows = await tx.rows(
                    "renew_leases",
                    job_ids=[lease.job_id for lease in ordered],
                    fences=[lease.fence for lease in ordered],
                    lease_tokens=[lease.lease_token for lease in ordered],
                    ttl_us=ttl_us,
                )
                return {row[0] for row in rows}
            renewed = set()
            for lease in ordered:
                row = await tx.row(
                    "renew_lease",
                    job_id=lease.job_id,
                    fence=lease.fence,
                    lease_token=lease.lease_token,
                    ttl_us=ttl_us,
                )
                if row is not None:
                    renewed.add(str(row[0]))
            return renewed

        return await self._executor.write(work)

    async def start(self, lease: WorkerLease) -> BeatResult:
        check_worker_lease(lease)

        async def work(tx: Transaction) -> Sequence[Row]:
            row = await tx.row("lock_worker_lease", worker=lease.worker)
            if row is not None and row[0] != lease.incarnation:
                await _expire_in(tx, lease.worker)
            await tx.run("start_worker_lease", **msgspec.structs.asdict(lease))
            tx.hint(WORKERS)
            return await tx.rows("list_worker_leases")

        return _to_beat_result(lease, await self._executor.write(work))

    async def beat(self, lease: WorkerLease) -> BeatResult:
        values: dict[str, Value] = {
            "worker": lease.worker,
            "incarnation": lease.incarnation,
            "beat": lease.beat,
        }
        if self._executor.batches:
            return _to_beat_result(
                lease, await self._executor.run_statement("renew_and_list_worker_leases", **values)
            )

        async def work(tx: Transaction) -> Sequence[Row]:
            await tx.run("renew_worker_lease", **values)
            return await tx.rows("list_worker_leases")

        return _to_beat_result(lease, await self._executor.write(work))

    async def expire(
        self, worker: str, incarnation: str | None = None, beat: int | None = None
    ) -> int | None:
        removed: list[bool] = []

        async def work(tx: Transaction) -> int | None:
            row = await tx.row("expire_worker_lease", worker=worker, incarnation=incarnation, beat=beat)
            removed.append(row is not None)
            if incarnation is not None and not any(removed):  # by this try, or by one whose reply was lost
                return None
            return await _expire_in(tx, worker)

        return await self._executor.write(work)

    async def workers(self) -> list[WorkerLease]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_worker_leases")

        return sorted(
            (WorkerLease(*row) for row in await self._executor.read(work)), key=lambda lease: lease.worker
        )

    async def count(self, worker: str) -> int:
        return await self._executor.read(functools.partial(count_in, worker=worker), brief=True)

    async def owners(self) -> list[str]:
        async def work(tx: Transaction) -> list[str]:
            return [row[0] for row in await tx.rows("list_lease_owners")]

        return await self._executor.read(work)

    async def list_expired(self, limit: int = 1000) -> list[str]:
        async def work(tx: Transaction) -> list[str]:
            return [row[0] for row in await tx.rows("list_expired_jobs", limit=limit)]

        return await self._executor.read(work)


async def _expire_in(tx: Transaction, worker: str) -> int:
    rows = await tx.rows("expire_leases_of_worker", worker=worker)
    for queue in {row[0] for row in rows}:
        tx.hint(f"queue:{queue}")
    return len(rows)


def _to_beat_result(lease: WorkerLease, rows: Sequence[Row]) -> BeatResult:
    leases = [WorkerLease(*row) for row in rows]
    mine = next((stored for stored in leases if stored.worker == lease.worker), None)
    if mine is not None and mine.incarnation == lease.incarnation:
        mine = lease  # the statement that renews and lists returns the row as it was before
    return BeatResult(mine, tuple(stored for stored in leases if stored.worker != lease.worker))


async def find_earlier_grant(tx: Transaction, request: ClaimRequest) -> list[Grant]:
    """The grants under this token: the reply to an earlier try may have been lost."""
    known = [
        head_of(row)
        for row in await tx.rows("list_heads_by_token", token=request.token, worker=request.worker)
    ]
    last = {head.job_id: await _was_takeover(tx, head) for head in known}
    new = await _load_journals(tx, known)
    ordered = sorted(known, key=lambda head: _rank(head, by_age=request.by_age))
    return [_make_grant(head, head.lease_expires_at, new, takeover=last[head.job_id]) for head in ordered]


async def count_in(tx: Transaction, worker: str) -> int:
    row = await tx.row("count_held_jobs", worker=worker)
    return 0 if row is None else int(row[0])


async def claim_in(tx: Transaction, request: ClaimRequest) -> list[Grant]:
    """Claim within this transaction."""
    if request.incarnation is not None and tx.batches:
        # With concurrent writers, the worker's lease must not be declared expired before this is committed.
        await tx.row("lock_worker_lease", worker=request.worker)
    conditions = _build_conditions(request)
    if request.most is not None:
        conditions["limit"] = max(0, min(request.limit, request.most - await count_in(tx, request.worker)))
    if request.handed is not None:
        chosen = await tx.rows("select_job_to_hand_over", **msgspec.structs.asdict(request.handed))
    elif request.roots is not None:
        chosen = await tx.rows("select_own_jobs", **conditions, roots=list(request.roots), ahead_us=AHEAD_US)
    else:
        chosen = await tx.rows(
            "select_jobs_by_age" if request.by_age else "select_jobs_by_priority",
            **conditions,
            suspect_at=_suspect_at(request),
        )
    if not chosen:
        return []
    heads = [head_of(row) for row in chosen]
    granted = [_apply_grant(head, request, row[-1]) for head, row in zip(heads, chosen, strict=True)]
    expiries = await (_grant_batch if tx.batches else _grant_each)(tx, granted, request)
    new = await _load_journals(tx, [after for after, _ in granted])
    return [
        _make_grant(after, expiries[after.job_id], new, takeover=_is_takeover(before, request))
        for before, (after, _) in zip(heads, granted, strict=True)
    ]


def _is_takeover(head: JobHead, request: ClaimRequest) -> bool:
    return head.status is Status.RUNNING and request.handed is None


def _suspect_at(request: ClaimRequest) -> int:
    return NO_SUSPECTS if request.suspect_at is None else request.suspect_at


def _build_conditions(request: ClaimRequest) -> dict[str, Value]:
    """The conditions on the jobs, and how many."""
    return {
        "queues": list(request.queues),
        "kinds": list(request.kinds),
        "any_kind": int(not request.kinds),
        "namespace": request.namespace,
        "limit": request.limit,
        "worker": request.worker,
        "incarnation": request.incarnation,
    }


def _build_claim_values(request: ClaimRequest) -> dict[str, Value]:
    """The columns of the grant, and its `job_claimed` event in two forms: a first claim, and a takeover."""
    return {
        "token": request.token,
        "most": request.most,
        "ttl_us": request.lease_us,
        "type": JobClaimed.type,
        "version": JobClaimed.version,
        **_encode_claim_events(request.worker),
    }


@functools.lru_cache(WORKERS_KEPT)
def _encode_claim_events(worker: str) -> Mapping[str, bytes]:
    """The bodies of both forms of the event and their digests. Cached: a worker claims often."""
    found, lost = (body_of(JobClaimed(worker=worker, takeover=takeover)) for takeover in (False, True))
    return {
        "body": found,
        "body_digest": hashlib.sha256(found).digest(),
        "lost_body": lost,
        "lost_digest": hashlib.sha256(lost).digest(),
    }


def _rank_by_priority(priority: int, ready_at: int, job_id: str) -> tuple[int, int, str]:
    return (-priority, ready_at, job_id)


def _rank_by_age(_priority: int, ready_at: int, job_id: str) -> tuple[int, int, str]:
    return (0, ready_at, job_id)


def _to_grant(row: Row, claimed: Mapping[str, Any]) -> Grant:
    """Convert a row to a grant: the first columns are in the order of its fields. After them come the sort columns, the
    time of the claim, and the event before it, if there is just one."""
    values = list(row[:_PRIORITY])
    takeover = values[_TAKEOVER] = bool(row[_TAKEOVER])
    at, first = row[_PRIORITY + 2], row[_PRIORITY + 3 :]
    if first[0] is not None:
        body, digest = ("lost_body", "lost_digest") if takeover else ("body", "body_digest")
        content = (claimed[body], claimed[digest], values[_HASH])
        second = SealedEvent(2, claimed["type"], claimed["version"], values[_FENCE], at, *content)
        values.append((SealedEvent(1, *first), second))
    return Grant(*values)


_PRIORITY, _TAKEOVER, _FENCE, _HASH = map(
    Grant.__struct_fields__.index, ("journal", "takeover", "fence", "head_hash")
)


async def _load_journals(tx: Transaction, heads: Sequence[JobHead]) -> dict[str, list[SealedEvent]]:
    """The journals, after the claim, of the jobs that were never claimed before."""
    journals: dict[str, list[SealedEvent]] = {head.job_id: [] for head in heads if head.head_seq == 2}
    if journals:
        for job_id, *event in await tx.rows("load_journals", job_ids=list(journals)):
            journals[job_id].append(SealedEvent(*event))
    return journals


def _rank(head: JobHead, *, by_age: bool) -> tuple[int, int, str]:
    return (_rank_by_age if by_age else _rank_by_priority)(head.priority, head.ready_at, head.job_id)


def _apply_grant(head: JobHead, request: ClaimRequest, at: int) -> tuple[JobHead, SealedEvent]:
    """The head after the grant, and its `job_claimed` event."""
    takeover = _is_takeover(head, request)
    fact = JobClaimed(worker=request.worker, takeover=takeover)
    (event,), new = seal(head.job_id, head.head, head.fence + 1, at, [fact])
    after = JobHead(
        head.job_id,
        head.namespace,
        head.queue,
        head.kind,
        head.priority,
        Status.RUNNING,
        None,
        None,
        head.ready_at,
        head.session_id,
        head.session_slot,
        new.seq,
        new.hash,
        head.fence + 1,
        request.token,
        request.worker,
        "",
        0,
        head.mail_seq,
        head.attempts,
        head.takeovers + int(takeover),
    )
    return after, event


async def _grant_each(
    tx: Transaction, granted: Sequence[tuple[JobHead, SealedEvent]], request: ClaimRequest
) -> dict[str, int]:
    heads: list[dict[str, Value]] = [
        {
            "job_id": head.job_id,
            "head_seq": head.head_seq,
            "head_hash": head.head_hash,
            "fence": head.fence,
            "lease_token": request.token,
            "lease_owner": request.worker,
            "ttl_us": request.lease_us,
            "takeovers": head.takeovers,
        }
        for head, _ in granted
    ]
    rows = await tx.rows_each("grant_lease", heads)
    assert len(rows) == len(granted), "the heads were chosen and locked in this transaction"
    await tx.rows_each("insert_event", [build_event_values(head.job_id, event) for head, event in granted])
    return {head.job_id: row[0] for (head, _), row in zip(granted, rows, strict=True)}


async def _grant_batch(
    tx: Transaction, granted: Sequence[tuple[JobHead, SealedEvent]], request: ClaimRequest
) -> dict[str, int]:
    rows = await tx.rows(
        "grant_leases",
        job_ids=[head.job_id for head, _ in granted],
        head_seqs=[head.head_seq for head, _ in granted],
        head_hashes=[head.head_hash for head, _ in granted],
        fences=[head.fence for head, _ in granted],
        takeovers=[head.takeovers for head, _ in granted],
        lease_token=request.token,
        lease_owner=request.worker,
        ttl_us=request.lease_us,
        type=JobClaimed.type,
        version=JobClaimed.version,
        ats=[event.at for _, event in granted],
        bodies=[event.body for _, event in granted],
        body_digests=[event.body_digest for _, event in granted],
    )
    return {row[0]: row[1] for row in rows}


async def _was_takeover(tx: Transaction, head: JobHead) -> bool:
    """Whether the earlier grant was a takeover, as its own event says."""
    row = await tx.row("get_claim_event", job_id=head.job_id, fence=head.fence)
    return row is not None and b'"takeover":true' in row[0]


def _make_grant(
    head: JobHead, expires_at: int, new: Mapping[str, Sequence[SealedEvent]], *, takeover: bool
) -> Grant:
    return Grant(
        head.job_id,
        head.namespace,
        head.kind,
        head.queue,
        head.session_id,
        head.fence,
        head.lease_token,
        head.head_seq,
        head.head_hash,
        head.mail_seq,
        head.attempts,
        head.takeovers,
        takeover,
        expires_at,
        tuple(new.get(head.job_id, ())),
    )
