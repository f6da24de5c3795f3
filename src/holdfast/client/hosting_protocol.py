"""What anybody may ask and say about agents and workers. The docstrings are the contract, for every implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.client.records import AgentView, Posted, WorkerView
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import JobRecord
from holdfast.model.limits import ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page


class Hosting(Protocol):
    # ── agents ────────────────────────────────────────────────────────────────────────────────────

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
        """The agent exists. The same again is the same agent; another one under its name, or under the same request
        key, is a Conflict."""
        ...

    async def get_agent(self, agent: str) -> AgentView:
        """The agent of this name or id, or NotFound.

        Configured agents are known by the store. Those that code declares are known by the workers that have it, and
        by the messages that they have taken.
        """
        ...

    async def list_agents(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[AgentView]:
        """Agents by name: those that are configured, and those that a listed worker has code for."""
        ...

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
        """The message is in the session's inbox, and the job that answers it exists. Without a session it belongs to
        the agent's one conversation.

        `delivery`: whether it may join a turn that is under way, or waits for its commit; `slot`: whether others may
        share its turn. Its request key or job id stands for it: sent again, it is the same message; with other
        content, KeyReused.
        """
        ...

    async def agent_jobs(
        self, agent: str, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[JobRecord]:
        """The jobs that answer messages to this agent, newest first. A page may have fewer than its limit and still
        lead to a next one."""
        ...

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    async def list_workers(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[WorkerView]:
        """List workers by name: capabilities, jobs held, last heartbeat."""
        ...

    async def drain_worker(
        self, worker: str, *, why: str, by: str, operation_id: str | None = None
    ) -> WorkerView:
        """The worker, by its name in journals, hears within seconds that it shall drain, as on SIGTERM; the audit log
        keeps who wants it and why. InvalidMove for one that would not heed it."""
        ...
