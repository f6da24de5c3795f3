"""Tools for work and for the agents that take it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from holdfast.api.work_records import AgentEntryView
from holdfast.model.agent_registry import AgentStatus, Visibility
from holdfast.server.mcp.tools import TABLE, Args, McpContext

LEASE_S = 60
Status = Literal["pending", "assigned", "in-progress", "completed", "failed", "cancelled", "dead-letter"]
WorkId = Annotated[str, Meta(description="The id of the work item, as claim_work or list_work gave it.")]
Rows = Annotated[int, Meta(ge=1, le=100, description="Most entries to return.")]
Cursor = Annotated[str | None, Meta(description="`next` of the previous page.")]
Guid = Annotated[str | None, Meta(description="The agent; default: the one of this session.")]
Fence = Annotated[int | None, Meta(description="Only for work that another session has claimed.")]
Token = Annotated[str | None, Meta(description="Only for work that another session has claimed.")]


# ── agents ────────────────────────────────────────────────────────────────────────────────────────


class RegisterAgentArgs(Args, frozen=True):
    """Register this session as an agent, so that others find it and it can claim work. Do this once, before
    claim_work. The same handle on the same host and project is the same agent again. It stays online while this
    session lives."""

    handle: Annotated[str, Meta(description="A short name that people recognise, such as 'reviewer'.")]
    agent_type: Annotated[str, Meta(description="What kind of agent, such as 'claude' or 'script'.")] = "mcp"
    capabilities: Annotated[
        tuple[str, ...], Meta(description="Capabilities: work is routed by these words, compared exactly.")
    ] = ()
    boundaries: Annotated[
        tuple[str, ...], Meta(description="Inside which boundaries (tenants, data zones) it may work.")
    ] = ()
    max_concurrent_tasks: Annotated[
        int, Meta(ge=1, le=100, description="Most work items at the same time.")
    ] = 1
    project_id: Annotated[str | None, Meta(description="The project it belongs to.")] = None
    hostname: str | None = None
    username: str | None = None
    visibility: Annotated[
        Literal["public", "project-only", "user-only", "private"], Meta(description="Who may find it.")
    ] = "public"
    guid: Annotated[str | None, Meta(description="Its id, if it has one already.")] = None
    metadata: dict[str, Any] | None = None


@TABLE.tool(RegisterAgentArgs)
async def register_agent(desk: McpContext, asked: RegisterAgentArgs) -> Any:
    told = {name: getattr(asked, name) for name in asked.__struct_fields__}
    told["visibility"] = Visibility(asked.visibility)
    handle, agent_type = told.pop("handle"), told.pop("agent_type")

    async def register() -> AgentEntryView:
        return await desk.client.register_agent(handle, agent_type, **told)

    agent = await register()
    desk.keeping.track_agent(agent, register)
    return agent


class HeartbeatArgs(Args, frozen=True):
    """Send a heartbeat of an agent with its status. The agent that this session registered sends heartbeats by itself;
    call this only to change its status."""

    guid: Guid = None
    status: Annotated[
        Literal["online", "busy", "offline"] | None, Meta(description="Default: unchanged.")
    ] = None
    current_task_count: Annotated[int, Meta(ge=0)] | None = None


@TABLE.tool(HeartbeatArgs)
async def heartbeat(desk: McpContext, asked: HeartbeatArgs) -> Any:
    status = None if asked.status is None else AgentStatus(asked.status)
    return await desk.client.heartbeat_agent(
        desk.keeping.guid(asked.guid), status=status, current_task_count=asked.current_task_count
    )


class DiscoverAgentsArgs(Args, frozen=True):
    """List agents, external ones included: status, capabilities, free slots. Use it before submit_work to see whether
    an agent has the capability."""

    capability: str | None = None
    agent_type: str | None = None
    status: Literal["online", "busy", "offline"] | None = None
    project_id: str | None = None
    limit: Rows = 20
    cursor: Cursor = None


@TABLE.tool(DiscoverAgentsArgs, reads=True)
async def discover_agents(desk: McpContext, asked: DiscoverAgentsArgs) -> Any:
    return await desk.client.list_registry(
        capability=asked.capability,
        agent_type=asked.agent_type,
        status=None if asked.status is None else AgentStatus(asked.status),
        project_id=asked.project_id,
        viewer=None if desk.keeping.agent is None else desk.keeping.agent.guid,
        limit=asked.limit,
        cursor=asked.cursor,
    )


# ── work for others ───────────────────────────────────────────────────────────────────────────────


class SubmitWorkArgs(Args, frozen=True):
    """Submit a work item for any agent with the capability. It is stored durably, and done once even if agents die.
    Read its result with get_work."""

    description: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100_000,
            description="What is to be done, complete in itself: the agent that takes it knows nothing else.",
        ),
    ]
    capability: Annotated[str, Meta(description="What an agent must be able to do; see discover_agents.")]
    context_data: Annotated[Any, Meta(description="Further data for the agent, as JSON.")] = None
    priority: Annotated[int, Meta(ge=1, le=10, description="Larger goes first.")] = 5
    deadline: Annotated[
        str | None,
        Meta(
            description="ISO instant with a zone, such as 2026-11-16T12:00:00Z: the latest time to start it."
        ),
    ] = None
    boundary: Annotated[str | None, Meta(description="Only agents that may work inside it take this.")] = None
    preferred_agent_type: str | None = None
    required_agent_type: str | None = None
    project_id: str | None = None
    task_id: Annotated[
        str | None,
        Meta(
            description="Your own name for this work: submitted again under it, it is the same work, not another."
        ),
    ] = None


@TABLE.tool(SubmitWorkArgs)
async def submit_work(desk: McpContext, asked: SubmitWorkArgs) -> Any:
    told = {name: getattr(asked, name) for name in asked.__struct_fields__}
    return await desk.client.submit_work(told.pop("description"), told.pop("capability"), **told)


class ListWorkArgs(Args, frozen=True):
    """List work items, newest first, with their status."""

    status: Status | None = None
    capability: str | None = None
    boundary: str | None = None
    project_id: str | None = None
    limit: Rows = 20
    cursor: Cursor = None


@TABLE.tool(ListWorkArgs, reads=True)
async def list_work(desk: McpContext, asked: ListWorkArgs) -> Any:
    return await desk.client.list_work(**{name: getattr(asked, name) for name in asked.__struct_fields__})


class GetWorkArgs(Args, frozen=True):
    """Read one work item: its status, who has it, its progress, its result or its error."""

    work_id: WorkId
    from_character: Annotated[
        int, Meta(ge=0, description="Leave out so much of a description that was too long to be shown whole.")
    ] = 0


@TABLE.tool(GetWorkArgs, reads=True)
async def get_work(desk: McpContext, asked: GetWorkArgs) -> Any:
    work = await desk.client.get_work(asked.work_id)
    return msgspec.structs.replace(work, description=work.description[asked.from_character :])


class CancelWorkArgs(Args, frozen=True):
    """Cancel a work item. An agent that works on it can no longer report on it."""

    work_id: WorkId
    why: Annotated[str, Meta(description="The reason; written into the journal.")] = ""


@TABLE.tool(CancelWorkArgs)
async def cancel_work(desk: McpContext, asked: CancelWorkArgs) -> Any:
    cancelled = await desk.client.cancel_work(asked.work_id, why=asked.why)
    desk.keeping.over(asked.work_id)
    return cancelled


# ── work for this session ─────────────────────────────────────────────────────────────────────────


class ClaimWorkArgs(Args, frozen=True):
    """Take work that fits this session's capabilities. An empty list means that there is none now. What you claim is
    yours until you call complete_work or fail_work: this server renews its lease for you while the session lives, as
    long as you name the work at least once an hour (report_progress does). Finish or fail everything that you claim."""

    limit: Annotated[int, Meta(ge=1, le=20, description="Most entries to return.")] = 1
    capabilities: Annotated[
        tuple[str, ...] | None, Meta(description="Only these of the agent's capabilities.")
    ] = None
    wait_seconds: Annotated[int, Meta(ge=0, le=30, description="How long to wait if there is none now.")] = 0
    lease_seconds: Annotated[
        int, Meta(ge=1, le=3600, description="How soon others may take it if this process dies.")
    ] = LEASE_S
    guid: Guid = None


@TABLE.tool(ClaimWorkArgs)
async def claim_work(desk: McpContext, asked: ClaimWorkArgs) -> Any:
    items = await desk.client.claim_work(
        desk.keeping.guid(asked.guid),
        capabilities=asked.capabilities,
        limit=asked.limit,
        wait_seconds=asked.wait_seconds,
        lease_seconds=asked.lease_seconds,
    )
    desk.keeping.track_work(items, asked.lease_seconds)
    return {"items": items}


class RenewWorkArgs(Args, frozen=True):
    """Renew the lease of claimed work by hand. Work that this session has claimed is renewed by itself."""

    work_id: WorkId
    lease_seconds: Annotated[int, Meta(ge=1, le=3600)] | None = None
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(RenewWorkArgs)
async def renew_work(desk: McpContext, asked: RenewWorkArgs) -> Any:
    right = desk.keeping.right(asked.work_id, asked.fence, asked.lease_token)
    lease_s = asked.lease_seconds or desk.keeping.lease_s(asked.work_id)
    return await desk.client.renew_work(asked.work_id, **right, lease_seconds=lease_s)


class ReportProgressArgs(Args, frozen=True):
    """Say how far claimed work has come, for whoever watches. It renews the lease as well."""

    work_id: WorkId
    progress: Annotated[int, Meta(ge=0, le=100, description="In hundredths of the whole.")]
    note: Annotated[str | None, Meta(description="In a few words, what is done or comes next.")] = None
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(ReportProgressArgs)
async def report_progress(desk: McpContext, asked: ReportProgressArgs) -> Any:
    right = desk.keeping.right(asked.work_id, asked.fence, asked.lease_token)
    return await desk.client.progress_work(
        asked.work_id,
        **right,
        progress=asked.progress,
        note=asked.note,
        lease_seconds=desk.keeping.lease_s(asked.work_id),
    )


class CompleteWorkArgs(Args, frozen=True):
    """Finish claimed work with its result. Do it once the work is really done: it cannot be taken back. A `fenced`
    error means that somebody else has the work now, and this result was not kept."""

    work_id: WorkId
    result: Annotated[
        Any, Meta(description="Any JSON; by custom an object with summary, output and artifacts.")
    ] = None
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(CompleteWorkArgs)
async def complete_work(desk: McpContext, asked: CompleteWorkArgs) -> Any:
    right = desk.keeping.right(asked.work_id, asked.fence, asked.lease_token)
    done = await desk.client.complete_work(asked.work_id, **right, result=asked.result)
    desk.keeping.over(asked.work_id)
    return done


class FailWorkArgs(Args, frozen=True):
    """Give up claimed work. If another try can help, it goes back to the others after a while, and becomes a dead
    letter when its attempts are used up; with recoverable=false it has failed for good."""

    work_id: WorkId
    message: Annotated[str, Meta(min_length=1, description="What went wrong, for the next attempt.")]
    code: str | None = None
    recoverable: Annotated[bool, Meta(description="Whether another try can help.")] = True
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(FailWorkArgs)
async def fail_work(desk: McpContext, asked: FailWorkArgs) -> Any:
    right = desk.keeping.right(asked.work_id, asked.fence, asked.lease_token)
    failed = await desk.client.fail_work(
        asked.work_id, **right, message=asked.message, code=asked.code, recoverable=asked.recoverable
    )
    desk.keeping.over(asked.work_id)
    return failed
