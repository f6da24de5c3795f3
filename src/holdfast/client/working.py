"""Work that is routed by capability, and the agents that take it, over an open store."""

from __future__ import annotations

import asyncio
import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.client import words
from holdfast.client.following import EmbeddedFollowing
from holdfast.client.records import Accepted, Stats
from holdfast.client.work_records import (
    AgentEntryList,
    AgentEntryView,
    ClaimedWork,
    Deregistered,
    RegistryView,
    Renewed,
    WorkList,
    WorkView,
)
from holdfast.client.work_views import claimed_view, entry_view, work_view
from holdfast.engine.outwork import Outwork, need_work
from holdfast.errors import InvalidPayload
from holdfast.model.ids import check_name
from holdfast.model.instants import SECOND, to_iso
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.registry import (
    DEFAULT_PROJECT,
    AgentStatus,
    Changes,
    Entry,
    Seen,
    Visibility,
    Which,
    root_guid,
)
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import (
    LEASE_LEAST_US,
    LEASE_MOST_US,
    LEASE_US,
    PREFERENCE_US,
    Work,
    WorkStatus,
    WorkWhich,
    draft_of,
    holder_of,
    kinds_for,
    queues_for,
)
from holdfast.registry.registry import Registry
from holdfast.registry.stored import StorePlace
from holdfast.store.ports.leases import ClaimAsk, Held

WAIT_MOST_S: Final = 30
LOOK_S: Final = 2.0
"""How long a hint may be late before the queue is asked without one."""

LIMIT_MOST: Final = 100
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
_STATUSES: Final[dict[WorkStatus, tuple[Status, bool | None]]] = {
    WorkStatus.PENDING: (Status.PENDING, None),
    WorkStatus.ASSIGNED: (Status.RUNNING, None),
    WorkStatus.IN_PROGRESS: (Status.RUNNING, None),
    WorkStatus.COMPLETED: (Status.COMPLETED, None),
    WorkStatus.FAILED: (Status.FAILED, None),
    WorkStatus.CANCELLED: (Status.CANCELLED, None),
    WorkStatus.DEAD_LETTER: (Status.WAITING, True),
}


class EmbeddedWorking(EmbeddedFollowing, ABC):
    """See `holdfast.client.work_protocol.Working`."""

    registry: Registry | None = None
    """Where agents are found; the store, unless somebody has set another one."""

    @property
    def _registry(self) -> Registry:
        if self.registry is None:
            self.registry = Registry(StorePlace(self._store, self._namespace), self._clock.wall_us)
        return self.registry

    @property
    def _outwork(self) -> Outwork:
        return Outwork(self._store, self._clock, random.random)

    # ── work ──────────────────────────────────────────────────────────────────────────────────────

    async def submit_work(
        self,
        description: str,
        capability: str,
        *,
        boundary: str | None = None,
        priority: int = PRIORITY_DEFAULT,
        deadline: str | None = None,
        task_id: str | None = None,
        preferred_agent_type: str | None = None,
        required_agent_type: str | None = None,
        project_id: str | None = None,
        context_data: Any = None,
        request_key: str | None = None,
    ) -> WorkView:
        asked = Work(
            description=description,
            capability=capability,
            boundary=boundary or "",
            priority=priority,
            deadline=deadline,
            task_id=task_id,
            preferred_agent_type=preferred_agent_type or "",
            required_agent_type=required_agent_type or "",
            project_id=project_id or DEFAULT_PROJECT,
            context_data=context_data,
        )
        return (await self.ask_for_work(asked, request_key))[0]

    async def ask_for_work(self, asked: Work, request_key: str | None = None) -> tuple[WorkView, bool]:
        """The work, and whether it is new."""
        draft = draft_of(asked, namespace=self._namespace)
        if request_key is not None and draft.request_key is None:
            draft = msgspec.structs.replace(draft, request_key=check_name(request_key, "request key"))
        submitted = await self._store.jobs.submit(draft)
        return await self.get_work(submitted.job_id), submitted.created

    async def get_work(self, work_id: str) -> WorkView:
        await self._work(work_id)
        return work_view(await self._outwork.load(work_id))

    async def list_work(
        self,
        *,
        status: str | None = None,
        capability: str | None = None,
        boundary: str | None = None,
        project_id: str | None = None,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> WorkList:
        wanted = None if status is None else _status(status)
        state, dead = (None, None) if wanted is None else _STATUSES[wanted]
        which = WorkWhich(
            namespace=self._namespace,
            status=state,
            dead=dead,
            capability=capability,
            boundary=boundary,
            project=project_id,
        )
        page = await self._store.work.list(which, limit=limit, cursor=cursor)
        views = [work_view(await self._outwork.load(row.head.job_id)) for row in page]
        # A page may be shorter than asked for: an item that is assigned is told from one in progress by its journal.
        return WorkList(
            items=tuple(view for view in views if wanted is None or view.status == wanted), next=page.next
        )

    async def claim_work(
        self,
        guid: str,
        *,
        capabilities: Sequence[str] | None = None,
        limit: int = 1,
        wait_seconds: int = 0,
        lease_seconds: int | None = None,
        claim_id: str | None = None,
    ) -> tuple[ClaimedWork, ...]:
        seen = await self._registry.get(check_name(guid, "guid"))
        ask = self._ask(seen.entry, capabilities, limit, lease_seconds, claim_id)
        if not 0 <= wait_seconds <= WAIT_MOST_S:
            raise InvalidPayload(f"waitSeconds is {wait_seconds}; allowed is 0 to {WAIT_MOST_S}")
        names = seen.entry.capabilities if capabilities is None else tuple(capabilities)
        topics = frozenset(f"queue:{queue}" for queue in ask.queues)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_seconds
        while True:
            also = await self._store.work.unpreferred(names, grace_us=PREFERENCE_US)
            asking = msgspec.structs.replace(ask, kinds=(*ask.kinds, *also))
            granted = await self._outwork.claim(asking)
            left = until - loop.time()
            if granted or left <= 0:
                return tuple(
                    claimed_view(grant, facts, ask.ttl_us, self._clock.wall_us()) for grant, facts in granted
                )
            await self._store.wakeups.wait(topics, min(left, LOOK_S))

    def _ask(
        self,
        entry: Entry,
        capabilities: Sequence[str] | None,
        limit: int,
        lease_seconds: int | None,
        claim_id: str | None,
    ) -> ClaimAsk:
        names = entry.capabilities if capabilities is None else tuple(capabilities)
        foreign = sorted(set(names) - set(entry.capabilities))
        if foreign:
            msg = f"agent {entry.guid!r} has not said that it can {', '.join(foreign)}"
            raise InvalidPayload(msg, hint="Update its entry first: PATCH /api/agents/{guid}.")
        if not names:
            raise InvalidPayload(f"agent {entry.guid!r} has no capability", hint="Register with some.")
        if not 1 <= limit <= LIMIT_MOST:
            raise InvalidPayload(f"limit is {limit}; allowed is 1 to {LIMIT_MOST}")
        said = self._ids.new("claim") if claim_id is None else check_name(claim_id, "claimId")
        return ClaimAsk(
            worker=holder_of(entry.guid),
            # Of this agent alone: what another one calls its claim is another claim.
            token=hashlib.sha256(f"{self._namespace}\0{entry.guid}\0{said}".encode()).hexdigest(),
            queues=queues_for(entry.boundaries),
            kinds=kinds_for(names, entry.agent_type),
            limit=min(limit, entry.max_concurrent_tasks),
            ttl_us=_lease_us(lease_seconds),
            namespace=self._namespace,
        )

    async def renew_work(
        self, work_id: str, *, fence: int, lease_token: str, lease_seconds: int | None = None
    ) -> Renewed:
        await self._work(work_id)
        ttl_us = _lease_us(lease_seconds)
        await self._outwork.renew(Held(work_id, fence, lease_token), ttl_us)
        return Renewed(id=work_id, lease_expires_at=to_iso(self._clock.wall_us() + ttl_us))

    async def progress_work(
        self,
        work_id: str,
        *,
        fence: int,
        lease_token: str,
        progress: int,
        note: str | None = None,
        lease_seconds: int | None = None,
    ) -> Renewed:
        await self._work(work_id)
        ttl_us = _lease_us(lease_seconds)
        await self._outwork.progress(Held(work_id, fence, lease_token), progress, note or "", ttl_us)
        return Renewed(id=work_id, lease_expires_at=to_iso(self._clock.wall_us() + ttl_us))

    async def complete_work(
        self, work_id: str, *, fence: int, lease_token: str, result: Any = None
    ) -> WorkView:
        await self._work(work_id)
        return work_view(await self._outwork.complete(Held(work_id, fence, lease_token), result))

    async def fail_work(
        self,
        work_id: str,
        *,
        fence: int,
        lease_token: str,
        message: str,
        code: str | None = None,
        recoverable: bool = True,
    ) -> WorkView:
        await self._work(work_id)
        error = {"type": code or "Failed", "message": message}
        held = Held(work_id, fence, lease_token)
        return work_view(await self._outwork.fail(held, error, recoverable=recoverable))

    async def release_work(self, work_id: str, *, fence: int, lease_token: str, why: str = "") -> WorkView:
        await self._work(work_id)
        return work_view(await self._outwork.release(Held(work_id, fence, lease_token), why))

    async def cancel_work(self, work_id: str, *, why: str = "", by: str = "") -> WorkView:
        await self._work(work_id)
        asked = words.cancel(why, by, self._ids.new("op"))
        if not await self._outwork.cancel(work_id, asked):
            await self.cancel(work_id, why=why, by=by)
        return await self.get_work(work_id)

    @abstractmethod
    async def cancel(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted: ...

    async def _work(self, work_id: str) -> None:
        """There is such work in this namespace."""
        await need_work(self._store, check_name(work_id, "work id"), self._namespace)

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
        entry = Entry(**{name: value for name, value in told.items() if value is not None})
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
        return entry_view(seen, self._clock.wall_us(), self._registry.health().source)


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


def _status(text: str) -> WorkStatus:
    try:
        return WorkStatus(text)
    except ValueError:
        msg = f"there is no work status {text!r}"
        raise InvalidPayload(msg, hint=f"One of: {', '.join(WorkStatus)}.") from None


def _lease_us(seconds: int | None) -> int:
    if seconds is None:
        return LEASE_US
    if not LEASE_LEAST_US <= seconds * SECOND <= LEASE_MOST_US:
        least, most = LEASE_LEAST_US // SECOND, LEASE_MOST_US // SECOND
        raise InvalidPayload(f"leaseSeconds is {seconds}; allowed is {least} to {most}")
    return seconds * SECOND
