"""Work that is routed by capability, over an open store."""

from __future__ import annotations

import asyncio
import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from holdfast.client import command_checks
from holdfast.client.records import Accepted
from holdfast.client.registering import EmbeddedRegistering, check_given
from holdfast.client.work_records import (
    ClaimedWork,
    Renewed,
    WorkList,
    WorkView,
)
from holdfast.client.work_views import claimed_view, work_view
from holdfast.engine.external_work import ExternalWork, WorkItemState, need_work
from holdfast.errors import InvalidPayload
from holdfast.model.agent_registry import (
    DEFAULT_PROJECT,
    AgentEntry,
)
from holdfast.model.ids import check_name
from holdfast.model.lease import Grant
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.states import Status
from holdfast.model.time import SECOND, to_iso
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
from holdfast.store.ports.leases import ClaimAsk, Held

WAIT_MOST_S: Final = 30
LOOK_S: Final = 2.0
"""How long a hint may be late before the queue is asked without one."""

LIMIT_MOST: Final = 100
UNWANTED_EVERY: Final = 32
"""Of so many claims one also looks at what others were preferred for and did not want, also when there is more."""

_STATUSES: Final[dict[WorkStatus, tuple[Status, bool | None]]] = {
    WorkStatus.PENDING: (Status.PENDING, None),
    WorkStatus.ASSIGNED: (Status.RUNNING, None),
    WorkStatus.IN_PROGRESS: (Status.RUNNING, None),
    WorkStatus.COMPLETED: (Status.COMPLETED, None),
    WorkStatus.FAILED: (Status.FAILED, None),
    WorkStatus.CANCELLED: (Status.CANCELLED, None),
    WorkStatus.DEAD_LETTER: (Status.WAITING, True),
}


class EmbeddedWorking(EmbeddedRegistering, ABC):
    """See `holdfast.client.work_protocol.Working`."""

    chance: Callable[[], float] = staticmethod(random.random)
    """Spreads the tries of what failed, and decides when what nobody wanted is looked at."""

    @property
    def _outwork(self) -> ExternalWork:
        return ExternalWork(self._store, self._clock, self.chance)

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
        check_given(capability=capability, boundary=boundary, project=project_id)
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
            granted = await self._claimed(ask, names, seen.entry.max_concurrent_tasks)
            left = until - loop.time()
            if granted or left <= 0:
                return tuple(
                    claimed_view(grant, facts, ask.ttl_us, self._clock.wall_us()) for grant, facts in granted
                )
            await self._store.wakeups.wait(topics, min(left, LOOK_S))

    async def _claimed(
        self, ask: ClaimAsk, capabilities: Sequence[str], tasks_max: int
    ) -> list[tuple[Grant, WorkItemState]]:
        """What is for this agent; if there is nothing, what others were preferred for and did not want. Now and then
        that is looked at as well, so that it does not wait for ever behind what never ends."""
        # Also without room: a question that was answered before finds the same work.
        ask = msgspec.structs.replace(ask, most=tasks_max)
        if self.chance() * UNWANTED_EVERY < 1:
            unwanted = tuple(await self._store.work.unpreferred(capabilities, grace_us=PREFERENCE_US))
            ask = msgspec.structs.replace(ask, kinds=(*ask.kinds, *unwanted))
        granted = await self._outwork.claim(ask)
        if granted or await self._store.leases.count(ask.worker) >= tasks_max:
            return granted
        unwanted = tuple(await self._store.work.unpreferred(capabilities, grace_us=PREFERENCE_US))
        return await self._outwork.claim(msgspec.structs.replace(ask, kinds=unwanted)) if unwanted else []

    def _ask(
        self,
        entry: AgentEntry,
        capabilities: Sequence[str] | None,
        limit: int,
        lease_seconds: int | None,
        claim_id: str | None,
    ) -> ClaimAsk:
        names = entry.capabilities if capabilities is None else tuple(capabilities)
        foreign = sorted(set(names) - set(entry.capabilities))
        if foreign:
            msg = f"agent {entry.guid!r} does not have the capability {', '.join(foreign)}"
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
        asked = command_checks.cancel(why, by, self._ids.new("op"))
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
