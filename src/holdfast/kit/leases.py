"""Work queue with leases: work items that many workers share, each held by one worker at a time.

A work item is a job; acquiring it is a claim, and finishing it is an append that carries the claim's fence. So a worker
that was paused too long, and whose item another worker has acquired, gets an error when it comes back, and writes
nothing: `release_lease` and `renew_lease` raise, they do not report success.

An item whose lease ran out can be acquired at once, by any worker, without waiting for a sweep. An item that keeps
losing its workers becomes a dead letter, so that it does not take down more of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import (
    Fenced,
    LeaseExpired,
    LeaseLost,
    LeaseTaken,
    MailWaiting,
)
from holdfast.kit.blocking_portal import Database, need_db
from holdfast.kit.heartbeat import HEARTBEAT_S, HeartbeatThread, Lost
from holdfast.kit.tasks import ITEMS_QUEUE, TASK_KIND, Tasks, items_queue, task_of_queue
from holdfast.model.append import Holder, Move, append_of
from holdfast.model.events import (
    CancelRequested,
    Event,
    JobCancellation,
    JobCompleted,
    JobCreated,
    JobDeadLettered,
    JobFailure,
    JobRequeued,
)
from holdfast.model.hash_chain import Head, unseal
from holdfast.model.jobs import JobDraft, JobFilter, JobHead
from holdfast.model.lease import FAILED_ATTEMPTS_MAX, TAKEOVERS_MAX, Grant, is_live, is_poison
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.states import TERMINAL, MailKind, Status, WaitReason
from holdfast.model.time import SECOND
from holdfast.store.ports.leases import ClaimRequest, HeldLease

LeaseError = LeaseLost
LeaseExpiredError = LeaseExpired
LeaseConflictError = LeaseTaken

DURATION_S: Final = 300
OPEN_TASKS_FRESH_US: Final = SECOND

_WORDS: Final = {
    Status.PENDING: "pending",
    Status.RUNNING: "in_progress",
    Status.WAITING: "waiting",
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


class WorkItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item that this worker holds. `retry_count` is how many workers it has lost since its last progress."""

    work_item_id: str
    task_id: str | None
    work_type: str
    input_data: Any
    lease_holder: str
    lease_expires_at: int
    fence: int
    retry_count: int = 0


class LeaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of an item, and until when. `status` is `failed` for a dead letter too: it needs a person."""

    work_item_id: str
    status: str
    lease_holder: str | None
    expired: bool
    seconds_left: float
    retry_count: int
    dead_letter: bool = False


class _Lease:
    """A lease on its holder's side: the credentials for writes, and when it ends by the holder's own clock."""

    def __init__(self, grant: Grant, until_us: int) -> None:
        head = Head(grant.head_seq, grant.head_hash)
        self.holder = Holder(grant.job_id, grant.namespace, grant.fence, grant.lease_token, head)
        self.grant = grant
        self.until_us = until_us
        self.mail_seen = grant.mail_seq

    @property
    def held(self) -> HeldLease:
        return HeldLease(self.grant.job_id, self.grant.fence, self.grant.lease_token)


class LeaseManager:
    """The leases of one worker. Threads may share it."""

    def __init__(
        self,
        conn: Database | None = None,
        worker_id: str | None = None,
        lease_duration_seconds: float = DURATION_S,
        *,
        db_path: str | Path | None = None,
        max_retries: int = TAKEOVERS_MAX,
    ) -> None:
        self.db = need_db(conn, db_path)
        self.worker_id = self.db.me if worker_id is None else worker_id
        self.lease_duration_seconds = lease_duration_seconds
        self.max_retries = max_retries
        self._tasks = Tasks(self.db)
        self._leases: dict[str, _Lease] = {}
        self._lock = threading.Lock()
        self._queues: tuple[str, ...] = (ITEMS_QUEUE,)
        self._queues_at: int | None = None

    # ── work ──────────────────────────────────────────────────────────────────────────────────────

    def submit(
        self,
        task_id: str | None = None,
        work_type: str = "tool_execution",
        input_data: Any = None,
        *,
        priority: int = PRIORITY_DEFAULT,
        work_item_id: str | None = None,
    ) -> str:
        """Submit a work item; returns its id. The same id with the same content again is the same item."""
        draft = self._draft(task_id, work_type, input_data, priority, work_item_id)
        return self.db.run(self.db.store.jobs.submit(draft)).job_id

    def submit_many(
        self,
        inputs: Sequence[Any],
        task_id: str | None = None,
        work_type: str = "tool_execution",
        *,
        priority: int = PRIORITY_DEFAULT,
    ) -> list[str]:
        """Submit a work item for each input, all of them or none; returns their ids."""
        drafts = [self._draft(task_id, work_type, input_data, priority, None) for input_data in inputs]
        return [submitted.job_id for submitted in self.db.run(self.db.store.jobs.submit_many(drafts))]

    # ── leases ────────────────────────────────────────────────────────────────────────────────────

    def acquire_lease(
        self,
        lease_duration_seconds: float | None = None,
        work_type_filter: str | None = None,
        task_id_filter: str | None = None,
    ) -> WorkItem | None:
        """Acquire the free item with the highest priority, then the oldest; None if there is none."""
        ttl_us = self._ttl_us(lease_duration_seconds)
        while True:
            grant = self._claim(ttl_us, work_type_filter, task_id_filter)
            if grant is None:
                return None
            lease = self._leases[grant.job_id]
            if not self._is_used_up(grant):
                return self._item(lease)
            self._make_dead_letter(lease)

    def renew_lease(self, work_item_id: str, lease_duration_seconds: float | None = None) -> int:
        """Extend the lease from now; returns when it ends. Raises LeaseExpired if it had ended already, LeaseTaken if
        another worker has the item."""
        lease = self._find_lease(work_item_id)
        ttl_us = self._ttl_us(lease_duration_seconds)
        if lease.until_us <= self.db.lease_now_us():
            raise self._explain_loss(work_item_id)
        asked_at = self.db.lease_now_us()
        if work_item_id not in self.db.run(self.db.store.leases.renew([lease.held], ttl_us)):
            raise self._explain_loss(work_item_id)
        lease.until_us = asked_at + ttl_us
        return lease.until_us

    def release_lease(
        self,
        work_item_id: str,
        success: bool = True,
        output_data: Any = None,
        error: Any = None,
        *,
        retry: bool = False,
    ) -> bool:
        """End the item as completed or failed, and give the lease back. With `retry` a failed item is requeued, until
        its attempts are used up.

        Raises LeaseTaken or LeaseExpired if this worker no longer holds the item; then nothing was written. Returns
        False if the item was cancelled meanwhile: it ended as cancelled.
        """
        lease = self._find_lease(work_item_id)
        events, move = _decide_ending(lease, success=success, output=output_data, error=error, retry=retry)
        return self._end(lease, events, move)

    def check_lease_status(self, work_item_id: str) -> LeaseStatus:
        """The current holder of the item, which may be another worker."""
        head = self.db.look(self.db.store.jobs.head(work_item_id))
        now = self.db.lease_now_us()
        boot = head.lease_boot if self.db.on_server else self.db.clock.boot()
        live = is_live(head.status, head.lease_expires_at, head.lease_boot, tick=now, this_boot=boot)
        dead = head.wait_reason is WaitReason.DEAD_LETTER
        return LeaseStatus(
            work_item_id=work_item_id,
            status="failed" if dead else _WORDS[head.status],
            lease_holder=head.lease_owner or None,
            expired=head.status is Status.RUNNING and not live,
            seconds_left=max(0, head.lease_expires_at - now) / SECOND if live else 0.0,
            retry_count=head.takeovers,
            dead_letter=dead,
        )

    def get_my_leases(self) -> list[WorkItem]:
        """The leases that this worker acquired and has neither released nor lost, as far as it knows."""
        with self._lock:
            leases = list(self._leases.values())
        return [self._item(lease) for lease in leases]

    def heartbeat(
        self,
        work_item_id: str,
        interval_seconds: float = HEARTBEAT_S,
        on_lease_lost: Lost | None = None,
    ) -> HeartbeatThread:
        """A thread that renews this lease until it is stopped; use it in a `with` block."""
        return HeartbeatThread(self, work_item_id, interval_seconds, on_lease_lost=on_lease_lost)

    # ── internals ─────────────────────────────────────────────────────────────────────────────────

    def _draft(
        self, task_id: str | None, work_type: str, input_data: Any, priority: int, work_item_id: str | None
    ) -> JobDraft:
        if task_id is not None:
            self._tasks.ensure(task_id)
        queue = items_queue(task_id)
        return JobDraft(kind=work_type, queue=queue, input=input_data, priority=priority, job_id=work_item_id)

    def _ttl_us(self, seconds: float | None) -> int:
        return int((self.lease_duration_seconds if seconds is None else seconds) * SECOND)

    def _claim(self, ttl_us: int, work_type: str | None, task_id: str | None) -> Grant | None:
        if task_id is not None:
            return self._ask(ttl_us, work_type, (items_queue(task_id),))
        known = self._open_queues()
        grant = self._ask(ttl_us, work_type, known)
        if grant is None and self._queues_at is not None:
            self._queues_at = None  # a task may have been created since: refresh before returning None
            fresh = self._open_queues()
            if fresh != known:
                grant = self._ask(ttl_us, work_type, fresh)
        return grant

    def _ask(self, ttl_us: int, work_type: str | None, queues: tuple[str, ...]) -> Grant | None:
        ask = ClaimRequest(
            worker=self.worker_id,
            token=self.db.ids.new("lease"),
            queues=queues,
            kinds=() if work_type is None else (work_type,),
            ttl_us=ttl_us,
        )
        asked_at = self.db.lease_now_us()
        for grant in self.db.run(self.db.store.leases.claim(ask)):
            with self._lock:
                self._leases[grant.job_id] = _Lease(grant, asked_at + ttl_us)
            return grant
        return None

    def _open_queues(self) -> tuple[str, ...]:
        """The queues of all tasks that have not ended, and the one of items without a task. Refreshed now and then."""
        now = self.db.clock.tick_us()
        if self._queues_at is None or not 0 <= now - self._queues_at < OPEN_TASKS_FRESH_US:
            open_tasks = self._open_tasks()
            self._queues = (ITEMS_QUEUE, *(f"{ITEMS_QUEUE}/{task}" for task in open_tasks))
            self._queues_at = now
        return self._queues

    def _open_tasks(self) -> Iterator[str]:
        filter_, cursor = JobFilter(kind=TASK_KIND, status=Status.PENDING), None
        while True:
            page = self.db.run(self.db.store.jobs.list(filter_, limit=1000, cursor=cursor))
            for record in page.items:
                if record.job_id.startswith("kit-task:"):
                    yield record.job_id.removeprefix("kit-task:")
            cursor = page.next
            if cursor is None:
                return

    def _is_used_up(self, grant: Grant) -> bool:
        return is_poison(
            takeovers=grant.takeovers,
            failed_attempts=grant.attempts,
            takeovers_max=self.max_retries,
            failed_attempts_max=FAILED_ATTEMPTS_MAX,
        )

    def _make_dead_letter(self, lease: _Lease) -> None:
        cause = {"why": "its workers died too often", "takeovers": lease.grant.takeovers}
        with contextlib.suppress(LeaseLost):
            self._end(lease, (JobDeadLettered((cause,)),), _DEAD)

    def _item(self, lease: _Lease) -> WorkItem:
        grant = lease.grant
        (created,) = self.db.look(self.db.store.journal.read(grant.job_id, limit=1))
        created_event = unseal(created)
        assert isinstance(created_event, JobCreated)
        return WorkItem(
            work_item_id=grant.job_id,
            task_id=task_of_queue(grant.queue),
            work_type=grant.kind,
            input_data=created_event.input,
            lease_holder=self.worker_id,
            lease_expires_at=lease.until_us,
            fence=grant.fence,
            retry_count=grant.takeovers,
        )

    def _find_lease(self, work_item_id: str) -> _Lease:
        with self._lock:
            lease = self._leases.get(work_item_id)
        if lease is None:
            head = self.db.look(self.db.store.jobs.head(work_item_id))
            raise _explain(work_item_id, head, self.worker_id)
        return lease

    def _end(self, lease: _Lease, events: tuple[Event, ...], move: Move) -> bool:
        """Write the last events under the lease's fence; False if a cancel came first and was carried out."""
        job_id = lease.grant.job_id
        cancelled = False
        while True:
            at, seen = self.db.clock.wall_us(), lease.mail_seen
            append = append_of(lease.holder, events, at=at, mail_seen=seen, move=move)
            try:
                self.db.run(self.db.store.journal.append(append))
            except MailWaiting:
                messages = self.db.run(self.db.store.post.read(job_id, after=lease.mail_seen))
                lease.mail_seen = messages[-1].mail_seq
                for message in messages:
                    if message.kind is MailKind.CANCEL and not cancelled:
                        cancel = CancelRequested(
                            by=message.sender, why=message.name, mail_seq=message.mail_seq
                        )
                        events, move = (cancel, JobCancellation()), Move(status=Status.CANCELLED)
                        cancelled = True
            except Fenced:
                raise self._explain_loss(job_id) from None
            else:
                self._forget(job_id)
                return not cancelled

    def _explain_loss(self, work_item_id: str) -> LeaseLost:
        self._forget(work_item_id)
        head = self.db.look(self.db.store.jobs.head(work_item_id))
        return _explain(work_item_id, head, self.worker_id)

    def _forget(self, work_item_id: str) -> None:
        with self._lock:
            self._leases.pop(work_item_id, None)


_DEAD: Final = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER)


def _decide_ending(
    lease: _Lease, *, success: bool, output: Any, error: Any, retry: bool
) -> tuple[tuple[Event, ...], Move]:
    """The events and the status change of a release."""
    if success:
        return (JobCompleted(output),), Move(status=Status.COMPLETED)
    if not retry:
        return (JobFailure(error),), Move(status=Status.FAILED)
    if lease.grant.attempts + 1 >= FAILED_ATTEMPTS_MAX:
        cause = {"why": "it failed too often", "error": error, "attempts": lease.grant.attempts + 1}
        dead = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER, failed=True)
        return (JobDeadLettered((cause,)),), dead
    return (JobRequeued("failed", error=error),), Move(status=Status.PENDING, failed=True)


def _explain(work_item_id: str, head: JobHead, worker_id: str) -> LeaseLost:
    """The error that says why this worker does not hold the item."""
    if head.status is Status.RUNNING and head.lease_owner != worker_id:
        return LeaseTaken(f"work item {work_item_id} is held by {head.lease_owner} now")
    if head.status in TERMINAL:
        return LeaseTaken(f"work item {work_item_id} is over: {_WORDS[head.status]}")
    if head.status is Status.RUNNING:
        return LeaseExpired(
            f"the lease of work item {work_item_id} ran out, or is another claim of this worker"
        )
    return LeaseExpired(f"work item {work_item_id} is not held: its lease ran out and it was put back")
