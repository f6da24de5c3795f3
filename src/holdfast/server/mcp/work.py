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
async def register_agent(context: McpContext, arguments: RegisterAgentArgs) -> Any:
    fields = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
    fields["visibility"] = Visibility(arguments.visibility)
    handle, agent_type = fields.pop("handle"), fields.pop("agent_type")

    async def register() -> AgentEntryView:
        return await context.client.register_agent(handle, agent_type, **fields)

    agent = await register()
    context.keeping.track_agent(agent, register)
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
async def heartbeat(context: McpContext, arguments: HeartbeatArgs) -> Any:
    status = None if arguments.status is None else AgentStatus(arguments.status)
    return await context.client.heartbeat_agent(
        context.keeping.guid(arguments.guid), status=status, current_task_count=arguments.current_task_count
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
async def discover_agents(context: McpContext, arguments: DiscoverAgentsArgs) -> Any:
    return await context.client.list_registry(
        capability=arguments.capability,
        agent_type=arguments.agent_type,
        status=None if arguments.status is None else AgentStatus(arguments.status),
        project_id=arguments.project_id,
        viewer=None if context.keeping.agent is None else context.keeping.agent.guid,
        limit=arguments.limit,
        cursor=arguments.cursor,
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
async def submit_work(context: McpContext, arguments: SubmitWorkArgs) -> Any:
    fields = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
    return await context.client.submit_work(fields.pop("description"), fields.pop("capability"), **fields)


class ListWorkArgs(Args, frozen=True):
    """List work items, newest first, with their status."""

    status: Status | None = None
    capability: str | None = None
    boundary: str | None = None
    project_id: str | None = None
    limit: Rows = 20
    cursor: Cursor = None


@TABLE.tool(ListWorkArgs, reads=True)
async def list_work(context: McpContext, arguments: ListWorkArgs) -> Any:
    return await context.client.list_work(
        **{name: getattr(arguments, name) for name in arguments.__struct_fields__}
    )


class GetWorkArgs(Args, frozen=True):
    """Read one work item: its status, who has it, its progress, its result or its error."""

    work_id: WorkId
    from_character: Annotated[
        int, Meta(ge=0, description="Leave out so much of a description that was too long to be shown whole.")
    ] = 0


@TABLE.tool(GetWorkArgs, reads=True)
async def get_work(context: McpContext, arguments: GetWorkArgs) -> Any:
    work = await context.client.get_work(arguments.work_id)
    return msgspec.structs.replace(work, description=work.description[arguments.from_character :])


class CancelWorkArgs(Args, frozen=True):
    """Cancel a work item. An agent that works on it can no longer report on it."""

    work_id: WorkId
    why: Annotated[str, Meta(description="The reason; written into the journal.")] = ""


@TABLE.tool(CancelWorkArgs)
async def cancel_work(context: McpContext, arguments: CancelWorkArgs) -> Any:
    cancelled = await context.client.cancel_work(arguments.work_id, why=arguments.why)
    context.keeping.over(arguments.work_id)
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
async def claim_work(context: McpContext, arguments: ClaimWorkArgs) -> Any:
    items = await context.client.claim_work(
        context.keeping.guid(arguments.guid),
        capabilities=arguments.capabilities,
        limit=arguments.limit,
        wait_seconds=arguments.wait_seconds,
        lease_seconds=arguments.lease_seconds,
    )
    context.keeping.track_work(items, arguments.lease_seconds)
    return {"items": items}


class RenewWorkArgs(Args, frozen=True):
    """Renew the lease of claimed work by hand. Work that this session has claimed is renewed by itself."""

    work_id: WorkId
    lease_seconds: Annotated[int, Meta(ge=1, le=3600)] | None = None
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(RenewWorkArgs)
async def renew_work(context: McpContext, arguments: RenewWorkArgs) -> Any:
    right = context.keeping.right(arguments.work_id, arguments.fence, arguments.lease_token)
    lease_s = arguments.lease_seconds or context.keeping.lease_s(arguments.work_id)
    return await context.client.renew_work(arguments.work_id, **right, lease_seconds=lease_s)


class ReportProgressArgs(Args, frozen=True):
    """Report the progress of claimed work, for everyone who watches it. It renews the lease as well."""

    work_id: WorkId
    progress: Annotated[int, Meta(ge=0, le=100, description="In hundredths of the whole.")]
    note: Annotated[str | None, Meta(description="In a few words, what is done or comes next.")] = None
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(ReportProgressArgs)
async def report_progress(context: McpContext, arguments: ReportProgressArgs) -> Any:
    right = context.keeping.right(arguments.work_id, arguments.fence, arguments.lease_token)
    return await context.client.progress_work(
        arguments.work_id,
        **right,
        progress=arguments.progress,
        note=arguments.note,
        lease_seconds=context.keeping.lease_s(arguments.work_id),
    )


class CompleteWorkArgs(Args, frozen=True):
    """Finish claimed work with its result. Do it once the work is really done: it cannot be taken back. A `fenced`
    error means that another agent has the work now, and this result was not kept."""

    work_id: WorkId
    result: Annotated[
        Any, Meta(description="Any JSON; by custom an object with summary, output and artifacts.")
    ] = None
    fence: Fence = None
    lease_token: Token = None


@TABLE.tool(CompleteWorkArgs)
async def complete_work(context: McpContext, arguments: CompleteWorkArgs) -> Any:
    right = context.keeping.right(arguments.work_id, arguments.fence, arguments.lease_token)
    done = await context.client.complete_work(arguments.work_id, **right, result=arguments.result)
    context.keeping.over(arguments.work_id)
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
async def fail_work(context: McpContext, arguments: FailWorkArgs) -> Any:
    right = context.keeping.right(arguments.work_id, arguments.fence, arguments.lease_token)
    failed = await context.client.fail_work(
        arguments.work_id,
        **right,
        message=arguments.message,
        code=arguments.code,
        recoverable=arguments.recoverable,
    )
    context.keeping.over(arguments.work_id)
    return failed
