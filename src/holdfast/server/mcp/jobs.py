"""Tools for jobs, dead letters and what waits for a person."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from holdfast.server.mcp.tools import TABLE, Args, McpContext
from holdfast.server.mcp.work import Cursor, Rows

JobId = Annotated[str, Meta(description="The id of the job; a work item's id is its job's.")]
Approval = Annotated[str, Meta(description="`approval_id` of an entry of list_waiting.")]
Why = Annotated[str, Meta(description="The reason; written into the journal.")]
By = Annotated[str, Meta(description="The person who decided; written into the journal.")]


class ListDeadLetters(Args, frozen=True):
    """List the dead-letter queue: work and jobs that failed all attempts, each with every cause. They are kept until a
    person requeues or discards them."""

    limit: Rows = 20
    cursor: Cursor = None


@TABLE.tool(ListDeadLetters, reads=True)
async def list_dead_letters(desk: McpContext, asked: ListDeadLetters) -> Any:
    return await desk.client.dead_letters(limit=asked.limit, cursor=asked.cursor)


class RequeueDeadLetter(Args, frozen=True):
    """Requeue a dead letter once its cause is fixed. Attempts count from zero; recorded calls are not repeated."""

    job_id: JobId
    why: Why = ""


@TABLE.tool(RequeueDeadLetter)
async def requeue_dead_letter(desk: McpContext, asked: RequeueDeadLetter) -> Any:
    return await desk.client.requeue(asked.job_id, why=asked.why, by=_me(desk))


class DiscardDeadLetter(Args, frozen=True):
    """Discard a dead letter: the job is cancelled and not tried again."""

    job_id: JobId
    why: Annotated[str, Meta(min_length=1, description="The reason; written into the journal.")]


@TABLE.tool(DiscardDeadLetter)
async def discard_dead_letter(desk: McpContext, asked: DiscardDeadLetter) -> Any:
    return await desk.client.discard(asked.job_id, why=asked.why, by=_me(desk))


class GetJob(Args, frozen=True):
    """Read one job: its status, its input and output, what it waits for and the commands that continue it. Instants are
    microseconds since 1970."""

    job_id: JobId


@TABLE.tool(GetJob, reads=True)
async def get_job(desk: McpContext, asked: GetJob) -> Any:
    return await desk.client.get(asked.job_id)


class GetTrace(Args, frozen=True):
    """Read the timeline of a job: its calls, its workers, where it was interrupted, what recovery did and why."""

    job_id: JobId


@TABLE.tool(GetTrace, reads=True)
async def get_trace(desk: McpContext, asked: GetTrace) -> Any:
    return await desk.client.trace(asked.job_id)


class ListWaiting(Args, frozen=True):
    """List everything that needs a person: approvals, questions, uncertain calls, parked and stalled jobs, whether the
    job waits or still runs something else. Show the person the exact tool and arguments before you ask for a
    decision."""

    limit: Rows = 20


@TABLE.tool(ListWaiting, reads=True)
async def list_waiting(desk: McpContext, asked: ListWaiting) -> Any:
    needs = await desk.client.waiting_for_person()
    return {"items": needs[: asked.limit], "more": max(len(needs) - asked.limit, 0)}


class Approve(Args, frozen=True):
    """Approve a call that waits for approval. Only when a person has seen its arguments and agreed: give the person's
    name."""

    approval_id: Approval
    by: By
    why: Why = ""


@TABLE.tool(Approve)
async def approve(desk: McpContext, asked: Approve) -> Any:
    return await desk.client.approve(asked.approval_id, why=asked.why, by=asked.by)


class Deny(Args, frozen=True):
    """Deny a call that waits for approval. Only when a person has decided so: give the person's name."""

    approval_id: Approval
    by: By
    why: Why = ""


@TABLE.tool(Deny)
async def deny(desk: McpContext, asked: Deny) -> Any:
    return await desk.client.deny(asked.approval_id, why=asked.why, by=asked.by)


class StatsArgs(Args, frozen=True):
    """Count jobs, work items and agents, in all and by project."""


@TABLE.tool(StatsArgs, reads=True)
async def stats(desk: McpContext, _: StatsArgs) -> Any:
    return await desk.client.stats()


def _me(desk: McpContext) -> str:
    """Who says it, in the journal."""
    return "mcp" if desk.keeping.agent is None else f"mcp:{desk.keeping.agent.handle}"
