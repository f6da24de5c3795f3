"""Agents that live elsewhere, and the numbers of all, over an open store."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.client.following import EmbeddedFollowing
from holdfast.client.records import Stats
from holdfast.client.work_records import AgentEntryList, AgentEntryView, Deregistered, RegistryView
from holdfast.client.work_views import entry_view
from holdfast.model.agent_registry import (
    DEFAULT_PROJECT,
    AgentEntry,
    AgentStatus,
    Changes,
    Seen,
    Visibility,
    Which,
    root_guid,
)
from holdfast.model.ids import check_name
from holdfast.model.limits import ROWS_PER_PAGE_DEFAULT
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import to_iso
from holdfast.registry.registry import Registry
from holdfast.registry.store_registry import StorePlace

AGENTS_MOST: Final = 100_000
COUNTED: Final = (
    "agents",
    "pendingWork",
    "activeWork",
    "completedWork",
    "failedWork",
    "cancelledWork",
    "deadWork",
)


class EmbeddedRegistering(EmbeddedFollowing, ABC):
    """See `holdfast.client.work_protocol.Working`: what it says about agents."""

    registry: Registry | None = None
    """Where agents are found; the store, unless somebody has set another one."""

    @property
    def _registry(self) -> Registry:
        if self.registry is None:
            self.registry = Registry(StorePlace(self._store, self._namespace), self._clock.wall_us)
        return self.registry

    # ── numbers ───────────────────────────────────────────────────────────────────────────────────

    async def stats(self) -> Stats:
        counts = await self._store.jobs.counts(self._namespace)
        jobs = {"jobs": sum(counts.values())} | {str(status): number for status, number in counts.items()}
        agents = (await self._registry.list(limit=AGENTS_MOST)).items
        projects: dict[str, dict[str, int]] = {}
        for seen in agents:
            project = projects.setdefault(seen.entry.project_id, dict.fromkeys(COUNTED, 0))
            project["agents"] += 1
        work = await self._store.work.counts(namespace=self._namespace)
        for (name, status, reason), number in work.items():
            projects.setdefault(name, dict.fromkeys(COUNTED, 0))[counted_as(status, reason)] += number
        everything = {what: sum(one[what] for one in projects.values()) for what in COUNTED}
        return Stats(totals=jobs | everything, by_project=projects)

    # ── agents ────────────────────────────────────────────────────────────────────────────────────

    async def register_agent(
        self,
        handle: str,
        agent_type: str,
        *,
        guid: str | None = None,
        capabilities: Sequence[str] = (),
        boundaries: Sequence[str] = (),
        max_concurrent_tasks: int = 1,
        hostname: str | None = None,
        project_id: str | None = None,
        username: str | None = None,
        visibility: Visibility | None = None,
        heartbeat_interval_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AgentEntryView:
        check_given(hostname=hostname, projectId=project_id, username=username)
        place = f"{project_id or DEFAULT_PROJECT}/{handle}"
        told: dict[str, Any] = {
            "guid": root_guid(hostname or "", place) if guid is None else guid,
            "handle": handle,
            "agent_type": agent_type,
            "capabilities": tuple(capabilities),
            "boundaries": tuple(boundaries),
            "max_concurrent_tasks": max_concurrent_tasks,
            "hostname": hostname,
            "project_id": project_id,
            "username": username,
            "visibility": visibility,
            "heartbeat_interval_ms": heartbeat_interval_ms,
            "metadata": None if metadata is None else dict(metadata),
        }
        entry = AgentEntry(**{name: value for name, value in told.items() if value is not None})
        return self._shown(await self._registry.register(entry))

    async def heartbeat_agent(
        self, guid: str, *, status: AgentStatus | None = None, current_task_count: int | None = None
    ) -> AgentEntryView:
        check_name(guid, "guid")
        return self._shown(await self._registry.beat(guid, status=status, tasks=current_task_count))

    async def update_agent(self, guid: str, changes: Changes) -> AgentEntryView:
        return self._shown(await self._registry.update(check_name(guid, "guid"), changes))

    async def deregister_agent(self, guid: str) -> Deregistered:
        return Deregistered(guid=guid, deregistered=await self._registry.deregister(check_name(guid, "guid")))

    async def get_entry(self, guid: str) -> AgentEntryView:
        """The entry of an agent that lives elsewhere, or NotFound."""
        return self._shown(await self._registry.get(check_name(guid, "guid")))

    async def list_registry(
        self,
        *,
        agent_type: str | None = None,
        status: AgentStatus | None = None,
        capability: str | None = None,
        project_id: str | None = None,
        viewer: str | None = None,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> AgentEntryList:
        check_given(type=agent_type, capability=capability, project=project_id, viewer=viewer)
        which = Which(
            agent_type=agent_type, status=status, capability=capability, project_id=project_id, viewer=viewer
        )
        page = await self._registry.list(which, limit=limit, cursor=cursor)
        return AgentEntryList(
            agents=tuple(self._shown(seen) for seen in page), next=page.next, registry=self.registry_view()
        )

    def registry_view(self) -> RegistryView:
        health = self._registry.health()
        stale = health.stale_since
        return RegistryView(
            source=health.source,
            connected=health.connected,
            stale_since=None if stale is None else to_iso(stale),
            ignored=health.ignored,
        )

    def _shown(self, seen: Seen) -> AgentEntryView:
        return entry_view(seen, self._registry.now_us(), self._registry.health().source)


def counted_as(status: Status, reason: WaitReason | None) -> str:
    """Under which number of a project a work item counts."""
    match status, reason:
        case Status.PENDING, _:
            return "pendingWork"
        case Status.WAITING, WaitReason.DEAD_LETTER:
            return "deadWork"
        case ((Status.RUNNING | Status.WAITING), _):
            return "activeWork"
        case _:
            return f"{status}Work"


def check_given(**names: str | None) -> None:
    """Those that are given at all are names."""
    for what, name in names.items():
        if name is not None:
            check_name(name, what)
