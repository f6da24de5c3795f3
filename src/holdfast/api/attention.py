"""Attention: what waits for a person: open decisions, approvals, dead letters."""

from __future__ import annotations

from holdfast.api import job_needs
from holdfast.api.context import ApiContext
from holdfast.api.job_records import Need
from holdfast.api.list_pages import cut_page
from holdfast.api.operation import operation
from holdfast.api.requests import PageRequest
from holdfast.model.access import AccessScope
from holdfast.model.jobs import JobFilter
from holdfast.model.page import Key, Page
from holdfast.model.states import WaitReason


class ListNeeds(PageRequest, frozen=True, kw_only=True):
    pass


@operation(
    "GET",
    "/api/needs",
    scope=AccessScope.READ,
    tool="List everything that needs a person: approvals, questions, uncertain calls, parked and stalled jobs, whether "
    "the job waits or still runs something else. Show the person the exact tool and arguments before you ask for a "
    "decision.",
)
async def list_needs(api: ApiContext, request: ListNeeds) -> Page[Need]:
    """List decisions that wait for a person, longest waiting first.

    They are of jobs that wait for nothing else, and of running jobs with an uncertain call, an approval or a question
    open."""
    return _page(request, "needs", await job_needs.list_needs(api.store.jobs, api.namespace, api.load))


class ListApprovals(PageRequest, frozen=True, kw_only=True):
    pass


@operation("GET", "/api/approvals", scope=AccessScope.READ)
async def list_approvals(api: ApiContext, request: ListApprovals) -> Page[Need]:
    """List calls that wait for approval, longest waiting first."""
    open_needs = await job_needs.list_needs(api.store.jobs, api.namespace, api.load)
    return _page(request, "approvals", tuple(need for need in open_needs if need.approval_id is not None))


def _page(request: PageRequest, kind: str, all_needs: tuple[Need, ...]) -> Page[Need]:
    return cut_page(kind, all_needs, _place, keys=4, limit=request.limit, cursor=request.cursor)


def _place(need: Need) -> tuple[Key, ...]:
    return need.since, need.job_id, need.step_key or "", need.generation


class ListDeadLetters(PageRequest, frozen=True, kw_only=True):
    pass


@operation(
    "GET",
    "/api/dead-letters",
    scope=AccessScope.READ,
    errors=(422,),
    tool="List work and jobs that used up their attempts, each with every cause. They are kept whole until they are "
    "requeued or discarded.",
)
async def list_dead_letters(api: ApiContext, request: ListDeadLetters) -> Page[Need]:
    """List dead letters with their causes, newest first."""
    job_filter = JobFilter(namespace=api.namespace, wait_reason=WaitReason.DEAD_LETTER)
    page = await api.store.jobs.list(job_filter, limit=request.limit, cursor=request.cursor)
    jobs = [await api.load(record.job_id) for record in page]
    all_needs = (need for job in jobs for need in job_needs.needs_of(job))
    return Page(tuple(need for need in all_needs if need.reason is WaitReason.DEAD_LETTER), page.next)
