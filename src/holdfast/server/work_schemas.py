"""What is asked about work and about agents that live elsewhere, as types, in the spelling of those agents."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.client.records import AgentView
from holdfast.client.work_records import AgentEntryView, RegistryView
from holdfast.client.working import LIMIT_MOST, WAIT_MOST_S
from holdfast.engine.external_work import NOTE_MAX
from holdfast.model.agent_registry import NAMES_MAX, TASKS_MAX, AgentStatus, Changes, Visibility
from holdfast.model.limits import PRIORITY_DEFAULT, PRIORITY_MAX, PRIORITY_MIN
from holdfast.model.time import SECOND
from holdfast.model.work import DESCRIPTION_MAX, LEASE_LEAST_US, LEASE_MOST_US, WorkStatus
from holdfast.server.schemas import Asks, Name, Paged, Whole

LeaseSeconds = Annotated[int, Meta(ge=LEASE_LEAST_US // SECOND, le=LEASE_MOST_US // SECOND)]
Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Tasks = Annotated[int, Meta(ge=0, le=TASKS_MAX)]


class Says(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Something said by or to an agent that lives elsewhere."""


# ── work ──────────────────────────────────────────────────────────────────────────────────────────


class NewWork(Says, frozen=True, kw_only=True, rename="camel"):
    """A work item to submit. `taskId` is its idempotency key: sent again, it is the same work. It does not start after
    its `deadline`."""

    description: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": DESCRIPTION_MAX})]
    capability: Name
    boundary: Name | None = None
    priority: Annotated[int, Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)] = PRIORITY_DEFAULT
    deadline: str | None = None
    task_id: Name | None = None
    preferred_agent_type: Name | None = None
    required_agent_type: Name | None = None
    project_id: Name | None = None
    context_data: Any = None


class WhichWork(Paged, frozen=True, kw_only=True):
    status: WorkStatus | None = None
    capability: Name | None = None
    boundary: Name | None = None
    project: Name | None = None


class WhichNews(Asks, frozen=True, kw_only=True):
    """`after`: the id of the last event that was heard, for whoever cannot send `Last-Event-ID`."""

    after: str | None = None


class Claims(Says, frozen=True, kw_only=True, rename="camel"):
    """A claim by an agent. If there is no work, the response waits for some (long polling). `claimId` is its
    idempotency key: sent again, it returns the same work."""

    guid: Name
    capabilities: Names | None = None
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MOST)] = 1
    wait_seconds: Annotated[int, Meta(ge=0, le=WAIT_MOST_S)] = 0
    lease_seconds: LeaseSeconds | None = None
    claim_id: Name | None = None


class Holds(Says, frozen=True, kw_only=True, rename="camel"):
    """Said by whoever holds the work: what the claim was answered with."""

    fence: Whole
    lease_token: Name


class Renews(Holds, frozen=True, kw_only=True, rename="camel"):
    lease_seconds: LeaseSeconds | None = None


class Progresses(Renews, frozen=True, kw_only=True, rename="camel"):
    """Progress in percent. Renews the lease."""

    progress: Annotated[int, Meta(ge=0, le=100)]
    note: Annotated[str, Meta(max_length=NOTE_MAX)] | None = None


class Completes(Holds, frozen=True, kw_only=True, rename="camel"):
    result: Any = None


class WorkError(Says, frozen=True, kw_only=True, rename="camel"):
    message: Annotated[str, Meta(max_length=10_000)]
    code: Annotated[str, Meta(max_length=200)] | None = None


class Fails(Holds, frozen=True, kw_only=True, rename="camel"):
    """A failed attempt. Not `recoverable`: do not retry."""

    error: WorkError
    recoverable: bool = True


class Releases(Holds, frozen=True, kw_only=True, rename="camel"):
    why: Annotated[str, Meta(max_length=200)] = ""


class Cancels(Says, frozen=True, kw_only=True, rename="camel"):
    why: Annotated[str, Meta(max_length=200)] = ""
    by: str = ""


# ── agents ────────────────────────────────────────────────────────────────────────────────────────


class Registers(Says, frozen=True, kw_only=True, rename="camel"):
    """Registration of an external agent. Without a `guid`, its host, project and handle identify it."""

    handle: Name
    agent_type: Name
    guid: Name | None = None
    capabilities: Names = ()
    boundaries: Names = ()
    max_concurrent_tasks: Annotated[int, Meta(ge=1, le=TASKS_MAX)] = 1
    hostname: Name | None = None
    project_id: Name | None = None
    username: Name | None = None
    visibility: Visibility | None = None
    heartbeat_interval_ms: Annotated[int, Meta(ge=100, le=3_600_000)] | None = None
    metadata: dict[str, Any] | None = None


class Beats(Says, frozen=True, kw_only=True, rename="camel"):
    status: AgentStatus | None = None
    current_task_count: Tasks | None = None


class AgentChanges(Changes, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Changes of a registry entry; omitted fields stay."""


class WhichAgents(Paged, frozen=True, kw_only=True, rename={"viewer": "for"}):
    """`for` leaves out whom that agent may not find."""

    type: Name | None = None
    status: AgentStatus | None = None
    capability: Name | None = None
    project: Name | None = None
    viewer: Name | None = None


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page of agents, by handle. `items` are the configured agents of this page."""

    agents: tuple[AgentEntryView, ...] = ()
    items: tuple[AgentView, ...] = ()
    next: str | None = None
    registry: RegistryView = RegistryView()
