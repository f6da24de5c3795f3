"""What anybody may ask and say about work that is routed by capability, and about the agents that take it.

Work is claimed for a time. What the holder says afterwards carries the fence and the token of its claim, and is Fenced
as soon as somebody else has the work or it is over: whoever reads that stops working on it. The docstrings are the
contract, for every implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from holdfast.client.work_records import (
    AgentEntryList,
    AgentEntryView,
    ClaimedWork,
    Deregistered,
    Renewed,
    WorkList,
    WorkView,
)
from holdfast.model.agent_registry import AgentStatus, Changes, Visibility
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT


class Working(Protocol):
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
        """The work is durable, and waits for somebody with this capability. Its task id, or its request key, stands
        for it: sent again, it is the same work; with other content, a Conflict.

        `deadline`: an ISO instant, after which nobody begins it.
        """
        ...

    async def get_work(self, work_id: str) -> WorkView:
        """The work as it stands now, or NotFound."""
        ...

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
        """Work, newest first. The cursor of one page leads to the next."""
        ...

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
        """Up to so many work items are this agent's for the time of the lease. If there is none now, the answer waits
        for some. Asked again with the same claim id, it finds the same grants: a lost answer costs nothing.

        Raises:
            NotFound: No such agent is registered. Register, and ask again.
        """
        ...

    async def renew_work(
        self, work_id: str, *, fence: int, lease_token: str, lease_seconds: int | None = None
    ) -> Renewed:
        """The lease holds for its whole time again, from now on; or Fenced."""
        ...

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
        """So many hundredths are done, anybody can read it, and the lease is renewed; or Fenced."""
        ...

    async def complete_work(
        self, work_id: str, *, fence: int, lease_token: str, result: Any = None
    ) -> WorkView:
        """The work is done, with this result. The same again from the same holder is answered like the first time;
        from anybody else it is Fenced."""
        ...

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
        """This attempt has failed. If trying again can help, the work is pending again after a while, or a dead letter
        once its attempts are used up; otherwise it has failed for good."""
        ...

    async def release_work(self, work_id: str, *, fence: int, lease_token: str, why: str = "") -> WorkView:
        """The work is given back and pending at once; no attempt is counted."""
        ...

    async def cancel_work(self, work_id: str, *, why: str = "", by: str = "") -> WorkView:
        """Nobody works on it any more: whoever holds it is Fenced the next time."""
        ...

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
        """The agent is found by others, and may claim. The same guid again is the same agent, as it says now; without
        a guid, host, project and handle say who it is."""
        ...

    async def heartbeat_agent(
        self, guid: str, *, status: AgentStatus | None = None, current_task_count: int | None = None
    ) -> AgentEntryView:
        """The agent was there just now; or NotFound, and it should register again."""
        ...

    async def update_agent(self, guid: str, changes: Changes) -> AgentEntryView:
        """The agent is as it says now. What it leaves out stays."""
        ...

    async def deregister_agent(self, guid: str) -> Deregistered:
        """There is no such entry any more. What it holds, it holds until its leases run out."""
        ...

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
        """Agents by handle, wherever they live, and whether the list is today's. `viewer`: only those whom the agent
        of this guid may find."""
        ...
