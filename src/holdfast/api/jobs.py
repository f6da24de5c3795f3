"""Jobs: submit, list, inspect, wait for, fork."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.api import command_checks, job_view
from holdfast.api.context import ApiContext
from holdfast.api.job_records import Checked, EventPage, JobView, MessageReply, Trace, Walk
from holdfast.api.job_view import view_of
from holdfast.api.operation import operation
from holdfast.api.replay_preview import walk_of
from holdfast.api.requests import JobId, Limit, Name, OperationRequest, Priority, WaitMs, Whole
from holdfast.api.trace import trace_of
from holdfast.errors import InvalidMove, NotFound, NotOver
from holdfast.model import canonical
from holdfast.model.access import AccessScope
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_QUEUE, JobDraft, JobFilter, JobHead, JobRecord, SubmittedJob
from holdfast.model.limits import EVENTS_PER_PAGE_MAX, PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page
from holdfast.model.states import HELD, MOVES, NOWHERE, TERMINAL, Status, WaitReason, parse_status
from holdfast.store.store_clock import to_store_us

POLL_S: Final = 1.0
"""How long a wake-up may be late before the store is polled."""

JOB_PATH: Final = "/api/jobs/{job_id}"


# ── submit ────────────────────────────────────────────────────────────────────────────────────────


class SubmitJob(OperationRequest, frozen=True, kw_only=True, rename={"job_id": "id"}):
    """A new job. Its id or its `Idempotency-Key` is its idempotency key: sent again, it is the same job."""

    kind: Name
    input: Any = None
    queue: Name = DEFAULT_QUEUE
    priority: Priority = PRIORITY_DEFAULT
    job_id: Name | None = None
    request_key: Name | None = None
    session_id: Name | None = None
    ready_at: Whole = 0


@operation(
    "POST",
    "/api/jobs",
    scope=AccessScope.OPERATE,
    errors=(409, 413, 415, 422, 503),
    submits=True,
    location=JOB_PATH,
)
async def submit_job(api: ApiContext, request: SubmitJob) -> SubmittedJob:
    """Submit a job."""
    draft = JobDraft(
        kind=request.kind,
        input=request.input,
        namespace=api.namespace,
        queue=request.queue,
        priority=request.priority,
        request_key=request.request_key,
        session_id=request.session_id,
        ready_at=to_store_us(api.store.clock, request.ready_at) if request.ready_at else 0,
        # Named before it is sent, so that a request without a key can be sent again after a lost response, too.
        job_id=api.ids.new("job")
        if (request.job_id, request.request_key) == (None, None)
        else request.job_id,
    )
    return await api.store.jobs.submit(draft)


class ForkJob(OperationRequest, frozen=True, kw_only=True, rename={"fork_id": "id"}):
    """A fork. `at` is the first step that the new job runs itself, or the number of an event. Without `input` it is the
    original's. `edits` replace results of reads and models before it, by step key."""

    job_id: JobId
    at: str | int
    input: Any = msgspec.UNSET
    edits: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    by: str = ""
    why: str = ""
    fork_id: Name | None = None
    request_key: Name | None = None
    queue: Name | None = None
    priority: Priority | None = None


@operation(
    "POST",
    "/api/jobs/{job_id}/fork",
    scope=AccessScope.OPERATE,
    errors=(404, 409, 415, 422),
    submits=True,
    location=JOB_PATH,
)
async def fork_job(api: ApiContext, request: ForkJob) -> SubmittedJob:
    """Fork a job: create a job that shares its history up to a step and runs the rest itself."""
    from holdfast.engine.fork import SAME, fork

    await api.head(request.job_id)
    return await fork(
        api.store,
        request.job_id,
        at=request.at,
        ids=api.ids,
        new_input=SAME if request.input is msgspec.UNSET else request.input,
        fork_id=None if request.fork_id is None else check_name(request.fork_id, "job id"),
        request_key=request.request_key,
        queue=request.queue,
        priority=request.priority,
        edits=request.edits,
        by=request.by,
        why=request.why,
    )


# ── list and get ──────────────────────────────────────────────────────────────────────────────────


class JobSelection(OperationRequest, frozen=True, kw_only=True):
    """Which jobs. A status may be spelled as other systems do, and several are parted by commas. `since` and `until`
    are about when a job was made; `text` is looked for in its id, kind, session id and request key."""

    status: str | None = None
    wait_reason: WaitReason | None = None
    kind: Name | None = None
    queue: Name | None = None
    session_id: Name | None = None
    parent_job_id: Name | None = None
    since: Whole | None = None
    until: Whole | None = None
    text: Name | None = None


class ListJobs(JobSelection, frozen=True, kw_only=True):
    limit: Limit = ROWS_PER_PAGE_DEFAULT
    cursor: str | None = None


def to_filter(selection: JobSelection) -> JobFilter:
    """The selection as a filter of the store."""
    for field_name in ("kind", "queue", "session_id", "parent_job_id", "text"):
        if (name := getattr(selection, field_name)) is not None:
            check_name(name, field_name)
    return JobFilter(
        statuses=() if selection.status is None else tuple(map(parse_status, selection.status.split(","))),
        wait_reason=selection.wait_reason,
        kind=selection.kind,
        queue=selection.queue,
        session_id=selection.session_id,
        parent_job_id=selection.parent_job_id,
        since=selection.since,
        until=selection.until,
        text=selection.text,
    )


@operation("GET", "/api/jobs", scope=AccessScope.READ, errors=(422,))
async def list_jobs(api: ApiContext, request: ListJobs) -> Page[JobRecord]:
    """List jobs, newest first."""
    job_filter = msgspec.structs.replace(to_filter(request), namespace=api.namespace)
    return await api.store.jobs.list(job_filter, limit=request.limit, cursor=request.cursor)


class GetJob(OperationRequest, frozen=True, kw_only=True):
    """`wait_ms`: how long the answer may wait for the job to end."""

    job_id: JobId
    wait_ms: WaitMs = 0


@operation(
    "GET",
    JOB_PATH,
    scope=AccessScope.READ,
    errors=(404,),
    tool="Read one job: its status, its input and output, what it waits for and how to continue. Instants are "
    "microseconds since 1970.",
)
async def get_job(api: ApiContext, request: GetJob) -> JobView:
    """Get one job: status, what it waits for, and its output once it has ended."""
    head, sealed = await api.look(request.job_id)
    if request.wait_ms and head.status not in TERMINAL:
        head, sealed = await _wait_for_end(api, head, sealed, request.wait_ms / 1000)
    return view_of(await api.load_behind(head, sealed))


async def _wait_for_end(api: ApiContext, head: JobHead, sealed: Any, timeout_s: float) -> tuple[JobHead, Any]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    topics = frozenset({f"job:{head.job_id}"})
    while head.status not in TERMINAL and (remaining_s := min(POLL_S, deadline - loop.time())) > 0:
        if await api.store.wakeups.wait(topics, remaining_s):
            head, sealed = await api.look(head.job_id)
        else:
            head, sealed = await api.head(head.job_id), ()
    return head, sealed


# ── journal ───────────────────────────────────────────────────────────────────────────────────────


class ListEvents(OperationRequest, frozen=True, kw_only=True):
    job_id: JobId
    after: Whole = 0
    limit: Annotated[int, Meta(ge=1, le=EVENTS_PER_PAGE_MAX)] = EVENTS_PER_PAGE_MAX


async def _events_version(api: ApiContext, request: ListEvents) -> str:
    """The version of the whole journal is its head: a reader that has it gets 304 without a read of the events."""
    head = await api.head(request.job_id)
    return canonical.hex_digest(
        canonical.encode([head.head_seq, head.head_hash.hex(), request.after, request.limit])
    )


@operation(
    "GET",
    "/api/jobs/{job_id}/events",
    scope=AccessScope.READ,
    errors=(404, 422),
    etag=_events_version,
)
async def list_events(api: ApiContext, request: ListEvents) -> EventPage:
    """List the journal events of a job, in order."""
    head = await api.head(request.job_id)
    most = min(request.limit, max(head.head_seq - request.after, 0))
    sealed = await api.store.journal.read(head.job_id, after=request.after, limit=most) if most else ()
    last = sealed[-1].seq if sealed else head.head_seq
    return EventPage(
        items=tuple(map(job_view.view_event, sealed)), next=last if last < head.head_seq else None
    )


class GetTrace(OperationRequest, frozen=True, kw_only=True):
    """`seq`: as it was at this event. `bodies=none` leaves arguments, results and errors out."""

    job_id: JobId
    seq: Annotated[int, Meta(ge=1)] | None = None
    bodies: str = "all"


@operation(
    "GET",
    "/api/jobs/{job_id}/trace",
    scope=AccessScope.READ,
    errors=(404, 422),
    tool="Read a job's history as a timeline: its steps and calls, which worker ran it, where it was interrupted, what "
    "recovery did and why.",
)
async def get_trace(api: ApiContext, request: GetTrace) -> Trace:
    """Get the timeline of a job: calls, workers, recovery; optionally as of an event."""
    head = await api.head(request.job_id)
    sealed = await api.store.journal.read(head.job_id, limit=request.seq)
    now = api.clock.wall_us()
    if request.seq is not None:
        if request.seq > head.head_seq:
            msg = f"there is no event {request.seq}; the journal has events 1 to {head.head_seq}"
            raise NotFound(msg)
        head, now = msgspec.structs.replace(head, status=_status_at_end(sealed)), sealed[-1].at
    trace = trace_of(head, sealed, now=now)
    return trace if request.bodies == "all" else _without_bodies(trace)


def _status_at_end(sealed: list[SealedEvent]) -> Status:
    """The status after these events. Their types alone decide it, also where bodies were erased."""
    status: Status | None = NOWHERE
    for sealed_event in sealed:
        status = MOVES.get(sealed_event.type, {}).get(status, status)
    assert status is not None, "a journal begins with job_created"
    return status


def _without_bodies(trace: Trace) -> Trace:
    spans = tuple(msgspec.structs.replace(span, args=None, result=None, error=None) for span in trace.spans)
    return msgspec.structs.replace(trace, spans=spans)


class VerifyJob(OperationRequest, frozen=True, kw_only=True):
    job_id: JobId


@operation("GET", "/api/jobs/{job_id}/verify", scope=AccessScope.READ, errors=(404,))
async def verify_job(api: ApiContext, request: VerifyJob) -> Checked:
    """Verify a job's journal: hash chain and grammar, from its first event."""
    while True:
        head, sealed = await api.head(request.job_id), await api.store.journal.read(request.job_id)
        if head == await api.head(request.job_id):  # no write came in between, so the two belong together
            return job_view.check_journal(head, sealed)


class PreviewReplay(OperationRequest, frozen=True, kw_only=True):
    job_id: JobId


@operation("GET", "/api/jobs/{job_id}/replay", scope=AccessScope.READ, errors=(404,))
async def preview_replay(api: ApiContext, request: PreviewReplay) -> Walk:
    """Preview a replay: the recorded result of each call. Runs no code."""
    head = await api.head(request.job_id)
    return walk_of(head, await api.store.journal.read(request.job_id), now=api.clock.wall_us())


# ── reply ─────────────────────────────────────────────────────────────────────────────────────────


class GetReply(OperationRequest, frozen=True, kw_only=True):
    """`wait_ms`: how long the response may wait for the turn to end."""

    job_id: JobId
    wait_ms: WaitMs = 0


@operation("GET", "/api/jobs/{job_id}/reply", scope=AccessScope.READ, errors=(404, 409, 503))
async def get_reply(api: ApiContext, request: GetReply) -> MessageReply:
    """Get the reply to a message; `wait_ms` waits for it (long polling)."""
    from holdfast.agents.conversation import message_in, text_in

    job_id = turn_id = request.job_id
    deadline = asyncio.get_running_loop().time() + request.wait_ms / 1000
    output = await _turn_output(api, turn_id, deadline)
    while "joined" in output:
        turn_id = str(output["joined"])
        output = await _turn_output(api, turn_id, deadline)
    session_id = (await api.head(turn_id)).session_id
    if session_id is None or "node" not in output:
        raise _no_message(job_id)
    node = await api.store.sessions.node(session_id, output["node"], namespace=api.namespace)
    if node is None:
        msg = f"the reply of job {turn_id} is not in the session any more"
        raise NotFound(msg)
    message = message_in(node)
    return MessageReply(
        job_id=job_id,
        turn_job_id=turn_id,
        session_id=session_id,
        node_id=node.node_id,
        text=text_in(message),
        message=message,
    )


async def _turn_output(api: ApiContext, job_id: str, deadline: float) -> dict[str, Any]:
    """The output of a turn, once it has ended. A job that is held for a person is not waited for: that may take for
    ever."""
    loop = asyncio.get_running_loop()
    while True:
        head, sealed = await api.look(job_id)
        if head.session_id is None:
            raise _no_message(job_id)
        if head.wait_reason in HELD:
            msg = f"job {job_id} is held: {head.wait_reason}"
            raise InvalidMove(msg, hint=f"Look at it and decide: holdfast job {job_id}")
        remaining_s = deadline - loop.time()
        head, sealed = await _wait_for_end(api, head, sealed, min(remaining_s, POLL_S))
        if head.status in TERMINAL:
            break
        if remaining_s <= 0:
            msg = f"job {job_id} is {command_checks.state(head)}"
            raise NotOver(msg)
    if head.status is not Status.COMPLETED:
        msg = f"job {job_id} is {head.status}: there is no reply"
        raise InvalidMove(msg, hint="Send the message again; the conversation is unchanged.")
    job = view_of(await api.load_behind(head, sealed))
    return job.output if isinstance(job.output, dict) else {}


def _no_message(job_id: str) -> InvalidMove:
    return InvalidMove(f"job {job_id} answers no message", hint="Read the job: its output is its result.")
