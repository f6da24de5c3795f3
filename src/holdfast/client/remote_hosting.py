"""Agents and workers, over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.client.paths import path
from holdfast.client.records import AgentView, Posted, WorkerView
from holdfast.client.remote_wire import RemoteWire
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import JobRecord
from holdfast.model.limits import ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page


class RemoteHosting(RemoteWire):
    """See `holdfast.client.hosting_protocol.Hosting`."""

    async def create_agent(
        self,
        name: str,
        *,
        model: str | None = None,
        instructions: str = "",
        tools: Sequence[str] = (),
        context_tokens_max: int | None = None,
        request_key: str | None = None,
    ) -> AgentView:
        body = {
            "name": name,
            "model": model,
            "instructions": instructions,
            "tools": list(tools),
            "context_tokens_max": context_tokens_max,
            "request_key": request_key,
        }
        return await self._post("/api/agents", body, AgentView)

    async def get_agent(self, agent: str) -> AgentView:
        return await self._get(path("api", "agents", agent), AgentView)

    async def list_agents(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[AgentView]:
        return await self._get("/api/agents", Page[AgentView], limit=limit, cursor=cursor)

    async def message(
        self,
        agent: str,
        content: Any,
        *,
        session_id: str | None = None,
        delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY,
        slot: SlotPolicy = SlotPolicy.JOIN,
        request_key: str | None = None,
        job_id: str | None = None,
    ) -> Posted:
        body = {
            "content": content,
            "session_id": session_id,
            "delivery": delivery,
            "slot": slot,
            "request_key": request_key,
            "id": self._ids.new("job") if (job_id, request_key) == (None, None) else job_id,
        }
        return await self._post(path("api", "agents", agent, "message"), body, Posted)

    async def agent_jobs(
        self, agent: str, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[JobRecord]:
        return await self._get(
            path("api", "agents", agent, "jobs"), Page[JobRecord], limit=limit, cursor=cursor
        )

    async def list_workers(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[WorkerView]:
        return await self._get("/api/workers", Page[WorkerView], limit=limit, cursor=cursor)

    async def drain_worker(
        self, worker: str, *, why: str, by: str, operation_id: str | None = None
    ) -> WorkerView:
        body = {"why": why, "by": by, "operation_id": operation_id or self._ids.new("op")}
        return await self._post(path("api", "workers", worker, "drain"), body, WorkerView)
