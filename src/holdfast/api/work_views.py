"""Views of work and agents: from a journal, and from a registry entry."""

from __future__ import annotations

import msgspec

from holdfast.api.work_records import AgentEntryView, ClaimedWork, WorkView
from holdfast.engine.external_work import WorkItemState
from holdfast.engine.recovery import causes_of
from holdfast.model.agent_registry import StoredEntry, status_of
from holdfast.model.events import (
    JobClaimed,
    JobCompleted,
    JobDeadLettered,
    JobFailure,
    JobRequeued,
    ProgressReported,
)
from holdfast.model.lease import Grant
from holdfast.model.states import Status
from holdfast.model.time import SECOND, to_iso
from holdfast.model.work import Work, agent_in
from holdfast.model.work import status_of as work_status


def work_view(item: WorkItemState) -> WorkView:
    """The work item from its journal."""
    work = msgspec.convert(item.created.input, Work)
    head = item.head
    holder = assigned_at = progress = note = result = error = None
    for sealed, event in item.facts:
        match event:
            case JobClaimed(worker=worker):
                holder, assigned_at, progress, note = worker, sealed.at, None, None
            case ProgressReported(progress=percent, note=progress_note):
                progress, note = percent, progress_note or None
            case JobCompleted(output=output):
                result, error = output, None
            case JobRequeued(error=failed):
                error = failed
            case JobFailure(error=failed):
                error = failed
            case JobDeadLettered():
                error = {"causes": causes_of((sealed.at, event) for sealed, event in item.facts)}
            case _:
                pass
    if head.status is Status.PENDING:
        holder = assigned_at = progress = note = None
    external = holder is not None and agent_in(holder) is not None
    return WorkView(
        id=head.job_id,
        work_item_id=head.job_id,
        task_id=work.task_id,
        description=work.description,
        capability=work.capability,
        boundary=work.boundary or None,
        priority=work.priority,
        deadline=work.deadline,
        preferred_agent_type=work.preferred_agent_type or None,
        required_agent_type=work.required_agent_type or None,
        project_id=work.project_id,
        context_data=work.context_data,
        status=work_status(head.status, head.wait_reason, progressed=progress is not None, external=external),
        assigned_to=None if holder is None else agent_in(holder) or holder,
        assigned_at=None if assigned_at is None else to_iso(assigned_at),
        attempts=head.attempts + head.takeovers,
        progress=100 if head.status is Status.COMPLETED else progress,
        progress_note=note,
        result=result,
        error=error,
        created_at=to_iso(item.facts[0][0].at),
    )


def view_claimed_work(grant: Grant, item: WorkItemState, ttl_us: int, now: int) -> ClaimedWork:
    """The item for its new holder."""
    view = work_view(item)
    fields = {name: getattr(view, name) for name in view.__struct_fields__}
    return ClaimedWork(
        **fields,
        fence=grant.fence,
        lease_token=grant.lease_token,
        lease_expires_at=to_iso(now + ttl_us),
        lease_seconds=ttl_us // SECOND,
        attempt=grant.attempts + grant.takeovers + 1,
    )


def entry_view(registered: StoredEntry, now: int, source: str) -> AgentEntryView:
    """The entry with its current status and its source."""
    fields = {name: getattr(registered.entry, name) for name in registered.entry.__struct_fields__}
    return AgentEntryView(**{**fields, "status": status_of(registered, now)}, source=source)
