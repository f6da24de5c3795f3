"""Records of work and of agents for clients.

Fields are camelCase in JSON and instants are ISO text: agents in any language read these.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.agent_registry import AgentEntry
from holdfast.model.work import WorkStatus

WORK_OVER = frozenset({WorkStatus.COMPLETED, WorkStatus.FAILED, WorkStatus.CANCELLED})
"""Final states. A dead letter is not final: an operator may requeue it."""


# ── work ──────────────────────────────────────────────────────────────────────────────────────────


class WorkView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A work item. `id` and `work_item_id` are the same: the id of its job.

    `assigned_to` is the guid of the agent, or the worker, that holds it now, or that finished it; `attempts` counts
    failed attempts; `error` is the last error, or the causes of a dead letter.
    """

    id: str
    work_item_id: str
    description: str
    capability: str
    status: WorkStatus
    created_at: str
    task_id: str | None = None
    boundary: str | None = None
    priority: int = 5
    deadline: str | None = None
    preferred_agent_type: str | None = None
    required_agent_type: str | None = None
    project_id: str | None = None
    context_data: Any = None
    assigned_to: str | None = None
    assigned_at: str | None = None
    attempts: int = 0
    progress: int | None = None
    progress_note: str | None = None
    result: Any = None
    error: Any = None

    @property
    def over(self) -> bool:
        return self.status in WORK_OVER


class ClaimedWork(WorkView, frozen=True, kw_only=True, rename="camel"):
    """A claimed work item: leased until `lease_expires_at`, with the fence and token that later requests must carry.

    `attempt` counts from 1. `lease_seconds` is how long from the grant the lease holds: a holder renews well within
    it, by its own clock; `lease_expires_at` is for people to read.
    """

    fence: int
    lease_token: str
    lease_expires_at: str
    attempt: int
    lease_seconds: int | None = None


class ClaimList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Claimed work items: as many as requested, fewer, or none."""

    items: tuple[ClaimedWork, ...] = ()


class Renewed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A renewed lease and its end."""

    id: str
    lease_expires_at: str


class WorkList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of work items, newest first."""

    items: tuple[WorkView, ...] = ()
    next: str | None = None


# ── agents ────────────────────────────────────────────────────────────────────────────────────────


class AgentEntryView(AgentEntry, frozen=True, kw_only=True, rename="camel"):
    """A registry entry, its current status, and its source: `store`, `nats`, or `hosted` for code on our workers."""

    source: str = "store"


class RegistryView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """State of the registry. `stale_since`: since when the list is the last known one. `ignored`: number of invalid
    entries."""

    source: str = "store"
    connected: bool = True
    stale_since: str | None = None
    ignored: int = 0


class AgentEntryList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of agents, by handle."""

    agents: tuple[AgentEntryView, ...] = ()
    next: str | None = None
    registry: RegistryView = RegistryView()


class Deregistered(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A removed registry entry. `deregistered` is False if there was none."""

    guid: str
    deregistered: bool
