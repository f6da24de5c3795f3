"""Jobs in memory: submitting and finding them, and the turns of sessions."""

from __future__ import annotations

import builtins
import dataclasses
import string
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.errors import InvalidMove, KeyReused
from holdfast.model import lease
from holdfast.model.crash_suspects import is_unclaimed
from holdfast.model.hash_chain import EMPTY, SealedEvent, seal
from holdfast.model.jobs import (
    JobDraft,
    JobFilter,
    JobHead,
    JobNames,
    JobRecord,
    SubmittedJob,
    check_draft,
    decode_job_cursor,
    encode_job_cursor,
    make_created_event,
    make_submission,
    request_digest,
)
from holdfast.model.page import Page
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import FOR_A_PERSON, TERMINAL, Slot, Status, WaitReason
from holdfast.store.memory.blobs import keep_large
from holdfast.store.memory.budgets import open_account
from holdfast.store.memory.queue_limits import make_room
from holdfast.store.memory.state import JobRow, MemoryState, MemoryTransaction


class MemoryJobs:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def submit(self, draft: JobDraft) -> SubmittedJob:
        with self._state.transaction() as work:
            return submit(work, draft, admitting=True)

    async def submit_many(self, drafts: Sequence[JobDraft]) -> list[SubmittedJob]:
        for draft in drafts:
            check_draft(draft)
        with self._state.transaction() as work:
            return [submit(work, draft, admitting=True) for draft in drafts]

    async def get(self, job_id: str) -> JobRecord:
        return _to_record(self._state.job(job_id))

    async def find(self, namespace: str, request_key: str) -> JobRecord | None:
        job_id = self._state.tables.requests.get((namespace, request_key))
        row = None if job_id is None else self._state.tables.jobs.get(job_id)
        return None if row is None else _to_record(row)

    async def head(self, job_id: str) -> JobHead:
        return self._state.job(job_id).head

    async def read_with_events(self, job_id: str, *, events: int) -> tuple[JobHead, list[SealedEvent]]:
        row = self._state.job(job_id)
        return row.head, list(row.events[:events])

    async def counts(self, namespace: str | None = None) -> dict[Status, int]:
        heads = [row.head for row in self._state.tables.jobs.values()]
        return dict(Counter(head.status for head in heads if namespace in {None, head.namespace}))

    async def list(
        self, job_filter: JobFilter, *, limit: int = 100, cursor: str | None = None
    ) -> Page[JobRecord]:
        records = [_to_record(row) for row in self._state.tables.jobs.values()]
        before = decode_job_cursor(cursor)
        found = [record for record in records if _fits(record, job_filter) and _age(record) < before]
        found.sort(key=_age, reverse=True)
        page = tuple(found[:limit])
        return Page(page, encode_job_cursor(page[-1]) if page and len(found) > limit else None)

    async def list_needing_person(
        self, namespace: str | None = None, *, limit: int = 100, after: str = ""
    ) -> builtins.list[str]:
        rows = [row for row in self._state.tables.jobs.values() if namespace in {None, row.head.namespace}]
        now = self._state.clock.wall_us()
        found = sorted(row.head.job_id for row in rows if _may_need_person(row, now))
        return [job_id for job_id in found if job_id > after][:limit]

    async def tally(self, job_filter: JobFilter) -> dict[tuple[Status, WaitReason | None], int]:
        records = [_to_record(row) for row in self._state.tables.jobs.values()]
        return dict(
            Counter((record.status, record.wait_reason) for record in records if _fits(record, job_filter))
        )

    async def names(self, namespace: str | None = None, *, limit: int = 200) -> JobNames:
        heads = [row.head for row in self._state.tables.jobs.values()]
        matching = [head for head in heads if namespace in {None, head.namespace}]
        kinds, queues = sorted({head.kind for head in matching}), sorted({head.queue for head in matching})
        return JobNames(tuple(kinds[:limit]), tuple(queues[:limit]))


def submit(work: MemoryTransaction, draft: JobDraft, *, admitting: bool = False) -> SubmittedJob:
    """Submit the job, or return the job that the same request made before. `admitting`: the limits of its queue
    apply."""
    check_draft(draft)
    digest = request_digest(draft)
    work.need_namespace(draft.namespace)
    first = _find_earlier(work, draft)
    if first is not None:
        job_id, namespace, made_by = first
        if (namespace, made_by) != (draft.namespace, digest):
            raise KeyReused(
                f"job {job_id} was submitted by another request with the same key or id",
                stored=made_by.hex() if namespace == draft.namespace else "",
                sent=digest.hex(),
            )
        return SubmittedJob(job_id, created=False)
    if admitting:
        make_room(work, draft)
    return SubmittedJob(_create(work, draft), created=True)


def promote(work: MemoryTransaction, namespace: str, session_id: str) -> None:
    """Make the first queued job of this session live, and pending unless it waits for another reason."""
    behind = [
        row
        for row in work.tables.jobs.values()
        if (row.head.namespace, row.head.session_id) == (namespace, session_id)
        and row.head.session_slot is Slot.BEHIND
        and row.head.status not in TERMINAL
    ]
    if not behind:
        return
    row = min(behind, key=lambda row: (row.head.ready_at, row.head.job_id))
    live = msgspec.structs.replace(row.head, session_slot=Slot.LIVE)
    if live.wait_reason is WaitReason.JOINED:
        live = msgspec.structs.replace(live, status=Status.PENDING, wait_reason=None, wake_at=None)
    put_head(work, live)


def put_head(work: MemoryTransaction, head: JobHead) -> None:
    """Store the head of the job; send a wake-up for its queue if the job has become claimable."""
    row = work.tables.jobs[head.job_id]
    work.tables.jobs[head.job_id] = dataclasses.replace(row, head=head)
    if _find_ready_time(head) is not None and _find_ready_time(head) != _find_ready_time(row.head):
        work.hint(f"queue:{head.queue}")


def _find_ready_time(head: JobHead) -> int | None:
    """When a pending job may be claimed; None for every other job."""
    return head.ready_at if head.status is Status.PENDING and head.session_slot is not Slot.BEHIND else None


def _find_earlier(work: MemoryTransaction, draft: JobDraft) -> tuple[str, str, bytes] | None:
    """The job of the same request key, else the one of the same id, as (id, namespace, request digest). Removed jobs
    count, too."""
    job_id = None
    if draft.request_key is not None:
        job_id = work.tables.requests.get((draft.namespace, draft.request_key))
    if job_id is None:
        job_id = draft.job_id
    if job_id is None:
        return None
    job, tomb = work.tables.jobs.get(job_id), work.tables.tombs.get(job_id)
    if job is not None:
        return job_id, job.head.namespace, job.submission.request_digest
    return None if tomb is None else (job_id, tomb.stone.namespace, tomb.request_digest)


def _create(work: MemoryTransaction, draft: JobDraft) -> str:
    job_id = draft.job_id if draft.job_id is not None else work.ids.new("job")
    _check_parent(work, draft)
    fence = lease.floor(work.epoch)
    events, end = seal(job_id, EMPTY, fence, work.wall, [make_created_event(draft)])
    slot = _choose_slot(work, draft)
    behind = slot is Slot.BEHIND
    head = JobHead(
        job_id=job_id,
        namespace=draft.namespace,
        queue=draft.queue,
        kind=draft.kind,
        priority=draft.priority,
        status=Status.WAITING if behind else Status.PENDING,
        wait_reason=WaitReason.JOINED if behind else None,
        wake_at=None,
        ready_at=draft.ready_at or work.wall,
        session_id=draft.session_id,
        session_slot=slot,
        head_seq=end.seq,
        head_hash=end.hash,
        fence=fence,
        lease_token="",
        lease_owner="",
        lease_boot="",
        lease_expires_at=0,
        mail_seq=0,
        attempts=0,
        takeovers=0,
    )
    for event in events:
        keep_large(work, draft.namespace, event.body)
    work.tables.jobs[job_id] = JobRow(
        head=head,
        submission=make_submission(draft, job_id, work.wall),
        events=events,
        work=draft.work,
    )
    open_account(work, job_id, draft)
    if draft.request_key is not None:
        work.tables.requests[draft.namespace, draft.request_key] = job_id
    if not behind:
        work.hint(f"queue:{draft.queue}")
    return job_id


def _check_parent(work: MemoryTransaction, draft: JobDraft) -> None:
    """Raise InvalidMove if the parent does not exist in the child's namespace."""
    parent = None if draft.parent_job_id is None else work.tables.jobs.get(draft.parent_job_id)
    if draft.parent_job_id is not None and (parent is None or parent.head.namespace != draft.namespace):
        raise InvalidMove(
            f"there is no job {draft.parent_job_id!r} in namespace {draft.namespace!r} to be a parent"
        )


def _choose_slot(work: MemoryTransaction, draft: JobDraft) -> Slot | None:
    """Live if no job of the session is live, else behind."""
    if draft.session_id is None:
        return None
    taken = any(
        row.head.session_slot is Slot.LIVE
        for row in work.tables.jobs.values()
        if (row.head.namespace, row.head.session_id) == (draft.namespace, draft.session_id)
    )
    return Slot.BEHIND if taken else Slot.LIVE


def _to_record(row: JobRow) -> JobRecord:
    head = row.head
    values = msgspec.structs.asdict(head) | msgspec.structs.asdict(row.submission)
    values["changed_at"] = row.events[-1].at
    values["worker"] = head.lease_owner if head.status is Status.RUNNING else None
    return JobRecord(**{name: values[name] for name in JobRecord.__struct_fields__})


def _age(record: JobRecord) -> tuple[int, str]:
    return record.created_at, record.job_id


def _may_need_person(row: JobRow, now: int) -> bool:
    if row.head.status in TERMINAL:
        return False
    if row.head.wait_reason in FOR_A_PERSON or is_unclaimed(row.head, row.events[-1].at, now):
        return True
    if any(call.status is CallStatus.UNCERTAIN for call in row.calls.values()):
        return True
    types = Counter(event.type for event in row.events)
    asks = types["question_asked"] > 0 or types["approval_requested"] > types["approval_decided"]
    return row.head.status is Status.RUNNING and asks


_EXACT: Final = ("namespace", "status", "wait_reason", "kind", "queue", "session_id", "parent_job_id")
_UPPER: Final = dict(zip(map(ord, string.ascii_uppercase), string.ascii_lowercase, strict=True))


def _fits(record: JobRecord, job_filter: JobFilter) -> bool:
    if any(getattr(job_filter, name) not in {None, getattr(record, name)} for name in _EXACT):
        return False
    if job_filter.statuses and record.status not in job_filter.statuses:
        return False
    if job_filter.since is not None and record.created_at < job_filter.since:
        return False
    if job_filter.until is not None and record.created_at >= job_filter.until:
        return False
    if job_filter.text is None:
        return True
    texts = (record.job_id, record.kind, record.session_id, record.request_key)
    return any(job_filter.text.translate(_UPPER) in (text or "").translate(_UPPER) for text in texts)
