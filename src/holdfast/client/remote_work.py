"""Work and the agents that take it, over HTTP. Bodies are camelCase, as agents in other languages write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.client.paths import path
from holdfast.client.remote_following import RemoteFollowing
from holdfast.client.work_records import (
    AgentEntryList,
    AgentEntryView,
    ClaimedWork,
    ClaimList,
    Deregistered,
    Renewed,
    WorkList,
    WorkView,
)
from holdfast.model.agent_registry import AgentStatus, Changes, Visibility
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT


class RemoteWork(RemoteFollowing):
    """See `holdfast.client.work_protocol.Working`."""

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
        body = _said(
            description=description,
            capability=capability,
            boundary=boundary,
            priority=priority,
            deadline=deadline,
            taskId=task_id,
            preferredAgentType=preferred_agent_type,
            requiredAgentType=required_agent_type,
            projectId=project_id,
            contextData=context_data,
        )
        if (task_id, request_key) == (None, None):
            request_key = self._ids.new("op")
        return await self._post("/api/work", body, WorkView, key=request_key)

    async def get_work(self, work_id: str) -> WorkView:
        return await self._get(_work(work_id), WorkView)

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
        return await self._get(
            "/api/work",
            WorkList,
            status=status,
            capability=capability,
            boundary=boundary,
            project=project_id,
            limit=limit,
            cursor=cursor,
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
        body = _said(
            guid=guid,
            capabilities=None if capabilities is None else list(capabilities),
            limit=limit,
            waitSeconds=wait_seconds,
            leaseSeconds=lease_seconds,
            claimId=self._ids.new("claim") if claim_id is None else claim_id,
        )
        return (await self._post("/api/work/claim", body, ClaimList)).items

    async def renew_work(
        self, work_id: str, *, fence: int, lease_token: str, lease_seconds: int | None = None
    ) -> Renewed:
        body = _said(fence=fence, leaseToken=lease_token, leaseSeconds=lease_seconds)
        return await self._post(_work(work_id, "renew"), body, Renewed)

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
        body = _said(
            fence=fence, leaseToken=lease_token, progress=progress, note=note, leaseSeconds=lease_seconds
        )
        return await self._post(_work(work_id, "progress"), body, Renewed)

    async def complete_work(
        self, work_id: str, *, fence: int, lease_token: str, result: Any = None
    ) -> WorkView:
        body = {"fence": fence, "leaseToken": lease_token, "result": result}
        return await self._post(_work(work_id, "complete"), body, WorkView)

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
        error = _said(message=message, code=code)
        body = {"fence": fence, "leaseToken": lease_token, "error": error, "recoverable": recoverable}
        return await self._post(_work(work_id, "fail"), body, WorkView)

    async def release_work(self, work_id: str, *, fence: int, lease_token: str, why: str = "") -> WorkView:
        body = {"fence": fence, "leaseToken": lease_token, "why": why}
        return await self._post(_work(work_id, "release"), body, WorkView)

    async def cancel_work(self, work_id: str, *, why: str = "", by: str = "") -> WorkView:
        return await self._post(_work(work_id, "cancel"), {"why": why, "by": by}, WorkView)

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
        body = _said(
            guid=guid,
            handle=handle,
            agentType=agent_type,
            capabilities=list(capabilities),
            boundaries=list(boundaries),
            maxConcurrentTasks=max_concurrent_tasks,
            hostname=hostname,
            projectId=project_id,
            username=username,
            visibility=visibility,
            heartbeatIntervalMs=heartbeat_interval_ms,
            metadata=None if metadata is None else dict(metadata),
        )
        return await self._post("/api/agents/register", body, AgentEntryView)

    async def heartbeat_agent(
        self, guid: str, *, status: AgentStatus | None = None, current_task_count: int | None = None
    ) -> AgentEntryView:
        body = _said(status=status, currentTaskCount=current_task_count)
        return await self._post(_agent(guid, "heartbeat"), body, AgentEntryView)

    async def update_agent(self, guid: str, changes: Changes) -> AgentEntryView:
        return await self._post(_agent(guid), msgspec.to_builtins(changes), AgentEntryView, method="PATCH")

    async def deregister_agent(self, guid: str) -> Deregistered:
        return await self._delete(_agent(guid), Deregistered)

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
        asked: dict[str, Any] = {
            "type": agent_type,
            "status": status,
            "capability": capability,
            "project": project_id,
            "for": viewer,
        }
        return await self._get("/api/agents", AgentEntryList, **asked, limit=limit, cursor=cursor)


def _said(**fields: Any) -> dict[str, Any]:
    """What was said; what was not is left out."""
    return {name: value for name, value in fields.items() if value is not None}


def _work(work_id: str, *parts: str) -> str:
    return path("api", "work", work_id, *parts)


def _agent(guid: str, *parts: str) -> str:
    return path("api", "agents", guid, *parts)
