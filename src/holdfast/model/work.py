"""Work items: jobs that are routed by capability, to workers and external agents.

A work item is a job. Its kind and its queue encode what it requires, so that a claim finds it like any other job:

    kind    work:summarize               any agent that can summarize
            work:summarize@claude        only agents of this type
            work:summarize~claude        agents of this type first; after a while any agent
    queue   work                         no boundary
            work:acme                    only agents that may work inside this boundary

So the one query that workers claim by routes work items as well, and a worker that has code for a capability claims it
like any other kind of job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model import canonical
from holdfast.model.agent_registry import DEFAULT_PROJECT
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, WorkItemRow
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import SECOND, from_iso

QUEUE: Final = "work"
KIND: Final = "work:"
HOLDER: Final = "agent:"
"""Prefix of the holder name of an external agent, in journals and leases."""

HOSTED: Final = "hosted"
"""The type of agents that our own workers run."""

PREFERENCE_US: Final = 5 * SECOND
"""How long a work item is reserved for the type of agent that it prefers."""

DESCRIPTION_MAX: Final = 100_000
NAME_MAX: Final = 90
"""Characters of a capability, a type, a boundary: two of them still make a valid kind."""

LEASE_US: Final = 60 * SECOND
LEASE_LEAST_US: Final = 1 * SECOND
LEASE_MOST_US: Final = 3600 * SECOND


class Work(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A work item as a client requests it, and the input of its job. After its `deadline` no agent starts it."""

    description: str
    capability: str
    boundary: str = ""
    priority: int = PRIORITY_DEFAULT
    deadline: str | None = None
    task_id: str | None = None
    preferred_agent_type: str = ""
    required_agent_type: str = ""
    project_id: str = DEFAULT_PROJECT
    context_data: Any = None


class WorkFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for work items; None matches all. `dead`: dead letters only, or none of them."""

    namespace: str = DEFAULT_NAMESPACE
    status: Status | None = None
    dead: bool | None = None
    capability: str | None = None
    boundary: str | None = None
    project: str | None = None


class WorkStatus(StrEnum):
    PENDING = "pending"
    ASSIGNED = "assigned"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead-letter"


# ── requesting work ───────────────────────────────────────────────────────────────────────────────


def draft_of(request: Work, *, namespace: str, job_id: str | None = None) -> JobDraft:
    """The job of this work item. A `taskId` makes it one job, however often it is requested.

    Raises:
        InvalidPayload, InvalidName: The request is invalid; the message says why.
    """
    if not 1 <= len(request.description) <= DESCRIPTION_MAX:
        msg = (
            f"a description of {len(request.description):,} characters; allowed are 1 to {DESCRIPTION_MAX:,}"
        )
        raise InvalidPayload(msg, hint="Describe the work in a few words; put large data into contextData.")
    check_kind_part(request.capability, "capability")
    for label, name in (
        ("boundary", request.boundary),
        ("preferredAgentType", request.preferred_agent_type),
        ("requiredAgentType", request.required_agent_type),
    ):
        if name:
            check_kind_part(name, label)
    check_name(request.project_id, "projectId")
    if request.preferred_agent_type and request.required_agent_type:
        raise InvalidPayload("a type is either preferred or required", hint="Leave one of the two out.")
    if request.task_id is not None:
        check_name(request.task_id, "taskId")
    item = WorkItemRow(
        project=request.project_id,
        capability=request.capability,
        boundary=request.boundary,
        preferred_type=request.preferred_agent_type,
        deadline_at=None if request.deadline is None else from_iso(request.deadline),
    )
    return JobDraft(
        kind=kind_of(request.capability, request.required_agent_type, request.preferred_agent_type),
        input=msgspec.to_builtins(request),
        namespace=namespace,
        queue=queue_of(request.boundary),
        priority=request.priority,
        # A digest, so that it never equals the request key of another job, and a long id fits.
        request_key=None
        if request.task_id is None
        else f"work:{canonical.hex_digest(request.task_id.encode())}",
        job_id=job_id,
        work=item,
    )


def check_kind_part(name: str, label: str) -> str:
    """Check a name that becomes part of a kind."""
    check_name(name, label)
    if len(name) > NAME_MAX:
        raise InvalidPayload(f"{label} has {len(name):,} characters; allowed are {NAME_MAX}")
    if "@" in name or "~" in name:
        raise InvalidPayload(f"{label} {name!r} has an @ or a ~ in it", hint="Use another name.")
    return name


def kind_of(capability: str, required: str = "", preferred: str = "") -> str:
    if required:
        return f"{KIND}{capability}@{required}"
    return f"{KIND}{capability}~{preferred}" if preferred else f"{KIND}{capability}"


def plain_kind(kind: str) -> str:
    """The kind without the type of agent: job functions are registered under it."""
    if not kind.startswith(KIND):
        return kind
    return kind.partition("@")[0].partition("~")[0]


def queue_of(boundary: str) -> str:
    return f"{QUEUE}:{boundary}" if boundary else QUEUE


# ── claiming work ─────────────────────────────────────────────────────────────────────────────────


def kinds_for(capabilities: Iterable[str], agent_type: str) -> tuple[str, ...]:
    """The kinds that an agent of this type with these capabilities may claim at any time."""
    return tuple(
        kind
        for capability in capabilities
        for kind in (
            kind_of(capability),
            kind_of(capability, required=agent_type),
            kind_of(capability, preferred=agent_type),
        )
    )


def queues_for(boundaries: Iterable[str]) -> tuple[str, ...]:
    return (QUEUE, *map(queue_of, boundaries))


def holder_of(guid: str) -> str:
    return f"{HOLDER}{guid}"


def agent_in(holder: str) -> str | None:
    """The guid of the external agent with this holder name; None for one of our workers."""
    return holder.removeprefix(HOLDER) if holder.startswith(HOLDER) else None


# ── status ────────────────────────────────────────────────────────────────────────────────────────

_ENDED: Final[Mapping[Status, WorkStatus]] = {
    Status.COMPLETED: WorkStatus.COMPLETED,
    Status.FAILED: WorkStatus.FAILED,
    Status.CANCELLED: WorkStatus.CANCELLED,
}


def status_of(status: Status, reason: WaitReason | None, *, progressed: bool, external: bool) -> WorkStatus:
    """The status of a work item. One that a worker runs is in progress also while it waits."""
    if status in _ENDED:
        return _ENDED[status]
    if status is Status.PENDING:
        return WorkStatus.PENDING
    if reason is WaitReason.DEAD_LETTER:
        return WorkStatus.DEAD_LETTER
    return WorkStatus.ASSIGNED if external and not progressed else WorkStatus.IN_PROGRESS
