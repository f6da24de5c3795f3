"""Work items: routed by capability, claimed by external agents, and ended by the holder of the lease.

Work is claimed for a limited time. Later requests of the holder carry the fence and the token of its claim, and are
rejected as Fenced as soon as another agent has the work or it has ended: the holder then stops working on it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.api import command_checks
from holdfast.api.commands import CancelJob, cancel_job
from holdfast.api.context import ApiContext
from holdfast.api.external_agents import ExternalRequest, Names, check_names
from holdfast.api.operation import Created, operation
from holdfast.api.requests import Name, PageRequest, Priority, Whole
from holdfast.api.work_records import ClaimList, Renewed, WorkList, WorkView
from holdfast.api.work_views import view_claimed_work, work_view
from holdfast.engine.external_work import NOTE_MAX, WorkItemState, need_work
from holdfast.errors import InvalidPayload
from holdfast.model.access import AccessScope
from holdfast.model.agent_registry import DEFAULT_PROJECT, AgentEntry
from holdfast.model.ids import check_name
from holdfast.model.lease import Grant
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.states import Status
from holdfast.model.time import SECOND, to_iso
from holdfast.model.work import (
    DESCRIPTION_MAX,
    LEASE_LEAST_US,
    LEASE_MOST_US,
    LEASE_US,
    PREFERENCE_US,
    Work,
    WorkFilter,
    WorkStatus,
    draft_of,
    holder_of,
    kinds_for,
    queues_for,
)
from holdfast.store.ports.leases import ClaimRequest, HeldLease

WAIT_S_MAX: Final = 30
POLL_S: Final = 2.0
"""How long a wake-up may be late before the queue is polled."""

CLAIMS_MAX: Final = 100
UNWANTED_EVERY: Final = 32
"""One of so many claims also looks at work preferred for other agents, which did not take it."""

HOLDER_ERRORS: Final = (404, 409, 415, 422, 503)
LeaseSeconds = Annotated[int, Meta(ge=LEASE_LEAST_US // SECOND, le=LEASE_MOST_US // SECOND)]

_STATUSES: Final[dict[WorkStatus, tuple[Status, bool | None]]] = {
    WorkStatus.PENDING: (Status.PENDING, None),
    WorkStatus.ASSIGNED: (Status.RUNNING, None),
    WorkStatus.IN_PROGRESS: (Status.RUNNING, None),
    WorkStatus.COMPLETED: (Status.COMPLETED, None),
    WorkStatus.FAILED: (Status.FAILED, None),
    WorkStatus.CANCELLED: (Status.CANCELLED, None),
    WorkStatus.DEAD_LETTER: (Status.WAITING, True),
}


# ── submit, get, list ─────────────────────────────────────────────────────────────────────────────


class SubmitWork(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    """A work item to submit. `taskId` is its idempotency key: sent again, it is the same work. It does not start after
    its `deadline`."""

    description: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": DESCRIPTION_MAX})]
    capability: Name
    boundary: Name | None = None
    priority: Priority = PRIORITY_DEFAULT
    deadline: str | None = None
    task_id: Name | None = None
    preferred_agent_type: Name | None = None
    required_agent_type: Name | None = None
    project_id: Name | None = None
    context_data: Any = None
    request_key: Name | None = None


@operation(
    "POST",
    "/api/work",
    scope=AccessScope.OPERATE,
    errors=(409, 413, 415, 422, 503),
    submits=True,
    location="/api/work/{id}",
)
async def submit_work(api: ApiContext, request: SubmitWork) -> Created[WorkView]:
    """Submit a work item."""
    work = Work(
        description=request.description,
        capability=request.capability,
        boundary=request.boundary or "",
        priority=request.priority,
        deadline=request.deadline,
        task_id=request.task_id,
        preferred_agent_type=request.preferred_agent_type or "",
        required_agent_type=request.required_agent_type or "",
        project_id=request.project_id or DEFAULT_PROJECT,
        context_data=request.context_data,
    )
    draft = draft_of(work, namespace=api.namespace)
    if request.request_key is not None and draft.request_key is None:
        draft = msgspec.structs.replace(draft, request_key=check_name(request.request_key, "request key"))
    submitted = await api.store.jobs.submit(draft)
    if submitted.created:
        api.notify_ready(request.capability)
    return Created(await get_work(api, GetWork(work_id=submitted.job_id)), is_new=submitted.created)


class GetWork(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    work_id: Name


@operation("GET", "/api/work/{work_id}", scope=AccessScope.READ, errors=(404,))
async def get_work(api: ApiContext, request: GetWork) -> WorkView:
    """Get one work item: its agent, progress and result."""
    await _check_work(api, request.work_id)
    return work_view(await api.external_work.load(request.work_id))


class ListWork(PageRequest, frozen=True, kw_only=True, rename={"project_id": "project"}):
    status: WorkStatus | None = None
    capability: Name | None = None
    boundary: Name | None = None
    project_id: Name | None = None


@operation("GET", "/api/work", scope=AccessScope.READ, errors=(422,))
async def list_work(api: ApiContext, request: ListWork) -> WorkList:
    """List work items, newest first."""
    check_names(capability=request.capability, boundary=request.boundary, project=request.project_id)
    requested_status = request.status
    status, is_dead = (None, None) if requested_status is None else _STATUSES[requested_status]
    work_filter = WorkFilter(
        namespace=api.namespace,
        status=status,
        dead=is_dead,
        capability=request.capability,
        boundary=request.boundary,
        project=request.project_id,
    )
    page = await api.store.work.list(work_filter, limit=request.limit, cursor=request.cursor)
    views = [work_view(await api.external_work.load(row.head.job_id)) for row in page]
    # A page may be shorter than its limit: only the journal tells an assigned item from one in progress.
    return WorkList(
        items=tuple(view for view in views if requested_status is None or view.status == requested_status),
        next=page.next,
    )


def parse_status(text: str) -> WorkStatus:
    try:
        return WorkStatus(text)
    except ValueError:
        msg = f"there is no work status {text!r}"
        raise InvalidPayload(msg, hint=f"One of: {', '.join(WorkStatus)}.") from None


# ── claim ─────────────────────────────────────────────────────────────────────────────────────────


class ClaimWork(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    """A claim by an agent. If there is no work, the response waits for some (long polling). `claimId` is its
    idempotency key: sent again, it returns the same work."""

    guid: Name
    capabilities: Names | None = None
    limit: Annotated[int, Meta(ge=1, le=CLAIMS_MAX)] = 1
    wait_seconds: Annotated[int, Meta(ge=0, le=WAIT_S_MAX)] = 0
    lease_seconds: LeaseSeconds | None = None
    claim_id: Name | None = None


@operation(
    "POST", "/api/work/claim", scope=AccessScope.WORK, errors=(404, 415, 422, 503), waits="wait_seconds"
)
async def claim_work(api: ApiContext, request: ClaimWork) -> ClaimList:
    """Claim work items for an agent; each is leased for a time."""
    entry = (await api.registry.get(check_name(request.guid, "guid"))).entry
    claim = _to_claim(api, entry, request)
    if not 0 <= request.wait_seconds <= WAIT_S_MAX:
        raise InvalidPayload(f"waitSeconds is {request.wait_seconds}; allowed is 0 to {WAIT_S_MAX}")
    names = entry.capabilities if request.capabilities is None else tuple(request.capabilities)
    topics = frozenset(f"queue:{queue}" for queue in claim.queues)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.wait_seconds
    while True:
        granted = await _claim(api, claim, names, entry.max_concurrent_tasks)
        remaining_s = deadline - loop.time()
        if granted or remaining_s <= 0:
            now = api.clock.wall_us()
            return ClaimList(
                items=tuple(view_claimed_work(grant, state, claim.ttl_us, now) for grant, state in granted)
            )
        await api.store.wakeups.wait(topics, min(remaining_s, POLL_S))


async def _claim(
    api: ApiContext, claim: ClaimRequest, capabilities: Sequence[str], tasks_max: int
) -> list[tuple[Grant, WorkItemState]]:
    """Claims work for this agent; if there is none, work preferred for other agents, which did not take it. Now and
    then a claim includes that as well, so that it does not wait for ever behind other work."""
    # Even without free slots: a claim that was granted before finds the same work.
    claim = msgspec.structs.replace(claim, most=tasks_max)
    if api.chance() * UNWANTED_EVERY < 1:
        unwanted = tuple(await api.store.work.find_unpreferred(capabilities, grace_us=PREFERENCE_US))
        claim = msgspec.structs.replace(claim, kinds=(*claim.kinds, *unwanted))
    granted = await api.external_work.claim(claim)
    if granted or await api.store.leases.count(claim.worker) >= tasks_max:
        return granted
    unwanted = tuple(await api.store.work.find_unpreferred(capabilities, grace_us=PREFERENCE_US))
    if not unwanted:
        return []
    return await api.external_work.claim(msgspec.structs.replace(claim, kinds=unwanted))


def _to_claim(api: ApiContext, entry: AgentEntry, request: ClaimWork) -> ClaimRequest:
    names = entry.capabilities if request.capabilities is None else tuple(request.capabilities)
    foreign = sorted(set(names) - set(entry.capabilities))
    if foreign:
        msg = f"agent {entry.guid!r} does not have the capability {', '.join(foreign)}"
        raise InvalidPayload(msg, hint="Update its entry first: PATCH /api/agents/{guid}.")
    if not names:
        raise InvalidPayload(f"agent {entry.guid!r} has no capability", hint="Register with some.")
    if not 1 <= request.limit <= CLAIMS_MAX:
        raise InvalidPayload(f"limit is {request.limit}; allowed is 1 to {CLAIMS_MAX}")
    claim_id = api.ids.new("claim") if request.claim_id is None else check_name(request.claim_id, "claimId")
    return ClaimRequest(
        worker=holder_of(entry.guid),
        # Of this agent alone: the same claim id of another agent is another claim.
        token=hashlib.sha256(f"{api.namespace}\0{entry.guid}\0{claim_id}".encode()).hexdigest(),
        queues=queues_for(entry.boundaries),
        kinds=kinds_for(names, entry.agent_type),
        limit=min(request.limit, entry.max_concurrent_tasks),
        ttl_us=_lease_us(request.lease_seconds),
        namespace=api.namespace,
    )


# ── the holder of a lease ─────────────────────────────────────────────────────────────────────────


class HolderRequest(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    """A request by the holder of the work: fence and token are those that the claim returned."""

    work_id: Name
    fence: Whole
    lease_token: Name

    @property
    def held(self) -> HeldLease:
        return HeldLease(self.work_id, self.fence, self.lease_token)


class RenewWork(HolderRequest, frozen=True, kw_only=True, rename="camel"):
    lease_seconds: LeaseSeconds | None = None


@operation("POST", "/api/work/{work_id}/renew", scope=AccessScope.WORK, errors=HOLDER_ERRORS)
async def renew_work(api: ApiContext, request: RenewWork) -> Renewed:
    """Renew the lease of a work item."""
    await _check_work(api, request.work_id)
    ttl_us = _lease_us(request.lease_seconds)
    await api.external_work.renew(request.held, ttl_us)
    return Renewed(id=request.work_id, lease_expires_at=to_iso(api.clock.wall_us() + ttl_us))


class ProgressWork(RenewWork, frozen=True, kw_only=True, rename="camel"):
    """Progress in percent. Renews the lease."""

    progress: Annotated[int, Meta(ge=0, le=100)]
    note: Annotated[str, Meta(max_length=NOTE_MAX)] | None = None


@operation("POST", "/api/work/{work_id}/progress", scope=AccessScope.WORK, errors=HOLDER_ERRORS)
async def progress_work(api: ApiContext, request: ProgressWork) -> Renewed:
    """Report the progress of a work item; renews the lease."""
    await _check_work(api, request.work_id)
    ttl_us = _lease_us(request.lease_seconds)
    await api.external_work.progress(request.held, request.progress, request.note or "", ttl_us)
    return Renewed(id=request.work_id, lease_expires_at=to_iso(api.clock.wall_us() + ttl_us))


class CompleteWork(HolderRequest, frozen=True, kw_only=True, rename="camel"):
    result: Any = None


@operation("POST", "/api/work/{work_id}/complete", scope=AccessScope.WORK, errors=HOLDER_ERRORS)
async def complete_work(api: ApiContext, request: CompleteWork) -> WorkView:
    """Complete a work item. Repeating the request returns the first response."""
    await _check_work(api, request.work_id)
    return work_view(await api.external_work.complete(request.held, request.result))


class WorkError(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    message: Annotated[str, Meta(max_length=10_000)]
    code: Annotated[str, Meta(max_length=200)] | None = None


class FailWork(HolderRequest, frozen=True, kw_only=True, rename="camel"):
    """A failed attempt. Not `recoverable`: do not retry."""

    error: WorkError
    recoverable: bool = True


@operation("POST", "/api/work/{work_id}/fail", scope=AccessScope.WORK, errors=HOLDER_ERRORS)
async def fail_work(api: ApiContext, request: FailWork) -> WorkView:
    """Report a failed attempt: the work is retried, becomes a dead letter, or fails for good."""
    await _check_work(api, request.work_id)
    error = {"type": request.error.code or "Failed", "message": request.error.message}
    return work_view(await api.external_work.fail(request.held, error, recoverable=request.recoverable))


class ReleaseWork(HolderRequest, frozen=True, kw_only=True, rename="camel"):
    why: Annotated[str, Meta(max_length=200)] = ""


@operation("POST", "/api/work/{work_id}/release", scope=AccessScope.WORK, errors=HOLDER_ERRORS)
async def release_work(api: ApiContext, request: ReleaseWork) -> WorkView:
    """Release a work item: it is pending at once."""
    await _check_work(api, request.work_id)
    view = work_view(await api.external_work.release(request.held, request.why))
    api.notify_ready(view.capability)
    return view


class CancelWork(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    work_id: Name
    why: Annotated[str, Meta(max_length=200)] = ""
    by: str = ""


@operation("POST", "/api/work/{work_id}/cancel", scope=AccessScope.OPERATE, errors=HOLDER_ERRORS)
async def cancel_work(api: ApiContext, request: CancelWork) -> WorkView:
    """Cancel a work item. The agent that holds it can no longer report on it."""
    await _check_work(api, request.work_id)
    command = command_checks.cancel(request.why, request.by, api.ids.new("op"))
    if not await api.external_work.cancel(request.work_id, command):
        await cancel_job(api, CancelJob(job_id=request.work_id, why=request.why, by=request.by))
    return await get_work(api, GetWork(work_id=request.work_id))


async def _check_work(api: ApiContext, work_id: str) -> None:
    """Raise NotFound unless there is such work in this namespace."""
    await need_work(api.store, check_name(work_id, "work id"), api.namespace)


def _lease_us(seconds: int | None) -> int:
    if seconds is None:
        return LEASE_US
    if not LEASE_LEAST_US <= seconds * SECOND <= LEASE_MOST_US:
        least, most = LEASE_LEAST_US // SECOND, LEASE_MOST_US // SECOND
        raise InvalidPayload(f"leaseSeconds is {seconds}; allowed is {least} to {most}")
    return seconds * SECOND
