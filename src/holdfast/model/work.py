"""Work that is routed by capability: a job for whoever can do it, here or elsewhere.

A work item is a job. What it asks for is in its kind and its queue, so that a claim finds it like any other:

    kind    work:summarize               anybody who can summarize
            work:summarize@claude        only agents of this type
            work:summarize~claude        agents of this type first; after a while anybody
    queue   work                         no boundary
            work:acme                    only agents that may work inside this boundary

So the one query that workers claim by routes work as well, and a worker that has code for a capability takes it like
any other kind of job.
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
"""What the name of an agent that lives elsewhere begins with, where journals and leases name their holder."""

HOSTED: Final = "hosted"
"""The type of agents that our own workers drive."""

PREFERENCE_US: Final = 5 * SECOND
"""How long work is kept for the type of agent that it prefers."""

DESCRIPTION_MAX: Final = 100_000
NAME_MAX: Final = 90
"""Characters of a capability, a type, a boundary: two of them still make a kind."""

LEASE_US: Final = 60 * SECOND
LEASE_LEAST_US: Final = 1 * SECOND
LEASE_MOST_US: Final = 3600 * SECOND


class Work(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Work as somebody asks for it, and as the journal keeps it, the job's input. After its `deadline` nobody begins
    it."""

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


class WorkWhich(msgspec.Struct, frozen=True, kw_only=True):
    """Of all work items, these; None matches all. `dead`: dead letters only, or none of them."""

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


# ── asking for it ─────────────────────────────────────────────────────────────────────────────────


def draft_of(asked: Work, *, namespace: str, job_id: str | None = None) -> JobDraft:
    """The job that this work is. A `taskId` makes it one job, however often it is asked for.

    Raises:
        InvalidPayload, InvalidName: What cannot be asked for, and why.
    """
    if not 1 <= len(asked.description) <= DESCRIPTION_MAX:
        msg = f"a description of {len(asked.description):,} characters; allowed are 1 to {DESCRIPTION_MAX:,}"
        raise InvalidPayload(msg, hint="Describe the work in a few words; put large data into contextData.")
    check_word(asked.capability, "capability")
    for what, word in (
        ("boundary", asked.boundary),
        ("preferredAgentType", asked.preferred_agent_type),
        ("requiredAgentType", asked.required_agent_type),
    ):
        if word:
            check_word(word, what)
    check_name(asked.project_id, "projectId")
    if asked.preferred_agent_type and asked.required_agent_type:
        raise InvalidPayload("a type is either preferred or required", hint="Leave one of the two out.")
    if asked.task_id is not None:
        check_name(asked.task_id, "taskId")
    item = WorkItemRow(
        project=asked.project_id,
        capability=asked.capability,
        boundary=asked.boundary,
        preferred_type=asked.preferred_agent_type,
        deadline_at=None if asked.deadline is None else from_iso(asked.deadline),
    )
    return JobDraft(
        kind=kind_of(asked.capability, asked.required_agent_type, asked.preferred_agent_type),
        input=msgspec.to_builtins(asked),
        namespace=namespace,
        queue=queue_of(asked.boundary),
        priority=asked.priority,
        # A digest, so that no key of a job, and no other long name, is ever the same.
        request_key=None if asked.task_id is None else f"work:{canonical.hex_digest(asked.task_id.encode())}",
        job_id=job_id,
        work=item,
    )


def check_word(word: str, what: str) -> str:
    """A name that can be part of a kind."""
    check_name(word, what)
    if len(word) > NAME_MAX:
        raise InvalidPayload(f"{what} has {len(word):,} characters; allowed are {NAME_MAX}")
    if "@" in word or "~" in word:
        raise InvalidPayload(f"{what} {word!r} has an @ or a ~ in it", hint="Use another name.")
    return word


def kind_of(capability: str, required: str = "", preferred: str = "") -> str:
    if required:
        return f"{KIND}{capability}@{required}"
    return f"{KIND}{capability}~{preferred}" if preferred else f"{KIND}{capability}"


def plain_kind(kind: str) -> str:
    """The kind without the type it is for: that is what code goes by."""
    if not kind.startswith(KIND):
        return kind
    return kind.partition("@")[0].partition("~")[0]


def queue_of(boundary: str) -> str:
    return f"{QUEUE}:{boundary}" if boundary else QUEUE


# ── taking it ─────────────────────────────────────────────────────────────────────────────────────


def kinds_for(capabilities: Iterable[str], agent_type: str) -> tuple[str, ...]:
    """What an agent of this type with these capabilities may claim at any time."""
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
    """The agent that lives elsewhere and goes by this name; None for a worker of ours."""
    return holder.removeprefix(HOLDER) if holder.startswith(HOLDER) else None


# ── how it is going ───────────────────────────────────────────────────────────────────────────────

_ENDED: Final[Mapping[Status, WorkStatus]] = {
    Status.COMPLETED: WorkStatus.COMPLETED,
    Status.FAILED: WorkStatus.FAILED,
    Status.CANCELLED: WorkStatus.CANCELLED,
}


def status_of(status: Status, reason: WaitReason | None, *, progressed: bool, external: bool) -> WorkStatus:
    """The word for it. A worker of ours that waits for something is still at it."""
    if status in _ENDED:
        return _ENDED[status]
    if status is Status.PENDING:
        return WorkStatus.PENDING
    if reason is WaitReason.DEAD_LETTER:
        return WorkStatus.DEAD_LETTER
    return WorkStatus.ASSIGNED if external and not progressed else WorkStatus.IN_PROGRESS
