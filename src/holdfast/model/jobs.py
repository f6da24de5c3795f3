"""Jobs as clients and stores see them: the draft that a client submits, the head, the record.

Input and output are not here. The input is in the first event of the journal and the output in the last, so there is
one place to read them and no copy to keep consistent.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.errors import Fenced, InvalidPayload
from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model.budget import Budget
from holdfast.model.events import JobCreated
from holdfast.model.hash_chain import Head
from holdfast.model.ids import check_integer, check_name
from holdfast.model.limits import INTEGER_MAX, PRIORITY_DEFAULT, PRIORITY_MAX, PRIORITY_MIN
from holdfast.model.page import decode_cursor, encode_cursor
from holdfast.model.states import Slot, Status, WaitReason

DEFAULT_NAMESPACE: Final = "default"
DEFAULT_QUEUE: Final = "default"


class WorkItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a work item, for listing and ranking it. See `model.work`."""

    project: str
    capability: str
    boundary: str = ""
    preferred_type: str = ""
    deadline_at: int | None = None


class JobDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a job. With a `request_key` it can be sent any number of times and creates one job.

    `budget` is its own; `budgets` name those of its ancestors, and `depth` counts its ancestors.
    """

    kind: str
    input: Any = None
    namespace: str = DEFAULT_NAMESPACE
    queue: str = DEFAULT_QUEUE
    priority: int = PRIORITY_DEFAULT
    request_key: str | None = None
    parent_job_id: str | None = None
    parent_step_key: str | None = None
    session_id: str | None = None
    ready_at: int = 0
    job_id: str | None = None
    code_version: str | None = None
    python_version: str | None = None
    forked_from: str | None = None
    forked_at_seq: int | None = None
    budget: Budget | None = None
    budgets: tuple[str, ...] = ()
    depth: int = 0
    work: WorkItemRow | None = None
    edited: Any = None


class SubmittedJob(msgspec.Struct, frozen=True):
    """A submitted job. `created` is False when this request was accepted before; the id is that of the first job."""

    job_id: str
    created: bool


class SubmissionRow(msgspec.Struct, frozen=True, gc=False):
    """The row of `jobs`: what was submitted, and when; it never changes. Field order is the order of its columns."""

    job_id: str
    namespace: str
    kind: str
    queue: str
    priority: int
    request_key: str | None
    request_digest: bytes
    parent_job_id: str | None
    parent_step_key: str | None
    session_id: str | None
    created_at: int


class JobHead(msgspec.Struct, frozen=True, gc=False):
    """The narrow row that every append checks and moves. Field order is the order of its columns."""

    job_id: str
    namespace: str
    queue: str
    kind: str
    priority: int
    status: Status
    wait_reason: WaitReason | None
    wake_at: int | None
    ready_at: int
    session_id: str | None
    session_slot: Slot | None
    head_seq: int
    head_hash: bytes
    fence: int
    lease_token: str
    lease_owner: str
    lease_boot: str
    lease_expires_at: int
    mail_seq: int
    attempts: int
    takeovers: int

    @property
    def head(self) -> Head:
        return Head(self.head_seq, self.head_hash)


def check_fence(head: JobHead, fence: int) -> None:
    """Raise Fenced unless the job runs under this fence."""
    if head.status is not Status.RUNNING or head.fence != fence:
        msg = f"job {head.job_id} is {head.status} at fence {head.fence}, and not running under {fence}"
        raise Fenced(msg)


class JobRecord(msgspec.Struct, frozen=True):
    """A job in a list: what was submitted, and its status.

    `changed_at` is the time of its newest event, `worker` holds it now. Every other field has the name of its column in
    `jobs` or `job_heads`.
    """

    job_id: str
    namespace: str
    kind: str
    queue: str
    priority: int
    request_key: str | None
    parent_job_id: str | None
    parent_step_key: str | None
    session_id: str | None
    created_at: int
    status: Status
    wait_reason: WaitReason | None
    head_seq: int
    changed_at: int
    worker: str | None
    attempts: int
    takeovers: int


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list; None and no statuses mean any.

    Created at `since` or later, and before `until`. `text` is in the id, kind, session id or request key; upper and
    lower case of A to Z are the same in it.
    """

    namespace: str | None = None
    status: Status | None = None
    statuses: tuple[Status, ...] = ()
    wait_reason: WaitReason | None = None
    kind: str | None = None
    queue: str | None = None
    session_id: str | None = None
    parent_job_id: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None


class JobNames(msgspec.Struct, frozen=True):
    """Kinds and queues of jobs, in order."""

    kinds: tuple[str, ...]
    queues: tuple[str, ...]


def encode_job_cursor(last: JobRecord) -> str:
    """The cursor of the page after this job. Jobs are listed newest first, those of one instant by id."""
    return encode_cursor("jobs", last.created_at, last.job_id)


def decode_job_cursor(cursor: str | None) -> tuple[int, str]:
    """The time and the id before which a page of jobs begins."""
    if cursor is None:
        return INTEGER_MAX, ""
    created_at, job_id = decode_cursor("jobs", cursor, keys=2)
    return check_integer(created_at, "cursor"), str(job_id)


def check_draft(draft: JobDraft) -> JobDraft:
    """Return the draft, or raise an error that says what to change."""
    check_name(draft.kind, "kind")
    check_name(draft.namespace, "namespace")
    check_name(draft.queue, "queue")
    for label, value in (
        ("request key", draft.request_key),
        ("session id", draft.session_id),
        ("job id", draft.job_id),
        ("parent job id", draft.parent_job_id),
    ):
        if value is not None:
            check_name(value, label)
    for budget_id in draft.budgets:
        check_name(budget_id, "budget id")
    check_integer(draft.ready_at, "ready_at")
    check_integer(draft.depth, "depth")
    if draft.job_id is not None and draft.job_id == draft.parent_job_id:
        msg = f"job {draft.job_id!r} would be its own parent"
        raise InvalidPayload(msg, hint="Give the child an id of its own.")
    if not PRIORITY_MIN <= draft.priority <= PRIORITY_MAX:
        msg = f"priority {draft.priority} is outside {PRIORITY_MIN} to {PRIORITY_MAX}"
        raise InvalidPayload(msg, hint="Use 1 (last) to 10 (first); 5 is the default.")
    return draft


def request_digest(draft: JobDraft) -> bytes:
    """Digest of a request. Two requests are the same if they ask for the same job, whenever they are sent and whatever
    id was generated."""
    request = [draft.kind, draft.input, draft.queue, draft.priority, draft.parent_job_id, draft.session_id]
    forked = [draft.forked_from, draft.forked_at_seq]
    if forked != [None, None]:  # left out of all others, whose digests stores already hold
        request += forked
    if draft.edited is not None:
        request.append(draft.edited)
    return canonical.digest(canonical.encode(request))


def make_submission(draft: JobDraft, job_id: str, created_at: int) -> SubmissionRow:
    """The row that the store keeps of a new job."""
    return SubmissionRow(
        job_id=job_id,
        namespace=draft.namespace,
        kind=draft.kind,
        queue=draft.queue,
        priority=draft.priority,
        request_key=draft.request_key,
        request_digest=request_digest(draft),
        parent_job_id=draft.parent_job_id,
        parent_step_key=draft.parent_step_key,
        session_id=draft.session_id,
        created_at=created_at,
    )


def make_created_event(draft: JobDraft) -> JobCreated:
    """The first event of the job's journal."""
    return JobCreated(
        kind=draft.kind,
        input=draft.input,
        queue=draft.queue,
        priority=draft.priority,
        request_key=draft.request_key,
        parent_job_id=draft.parent_job_id,
        parent_step_key=draft.parent_step_key,
        session_id=draft.session_id,
        code_version=draft.code_version,
        python_version=draft.python_version,
        forked_from=draft.forked_from,
        forked_at_seq=draft.forked_at_seq,
        budget=None if draft.budget is None else money.to_json(draft.budget),
        budgets=draft.budgets,
        depth=draft.depth,
        edited=draft.edited,
        ready_at=draft.ready_at,
    )
