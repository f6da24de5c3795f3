"""What waits for a person, and the yes or no to a call."""

from __future__ import annotations

from typing import Final

from holdfast.client.records import Need
from holdfast.model.access import AccessScope
from holdfast.model.page import Key, Page
from holdfast.server.endpoints import Endpoint
from holdfast.server.pages import cut
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.routes.commands import heard, word_endpoint
from holdfast.server.schemas import Deciding, Paged


async def list_needs(asked: ApiRequest) -> ApiResponse:
    """List decisions that wait for a person, longest waiting first.

    They are of jobs that wait for nothing else, and of running jobs with an uncertain call, an approval or a question
    open."""
    return _page(asked, "needs", await asked.client.waiting_for_person())


async def list_approvals(asked: ApiRequest) -> ApiResponse:
    """List calls that wait for approval, longest waiting first."""
    needs = await asked.client.waiting_for_person()
    return _page(asked, "approvals", tuple(need for need in needs if need.approval_id is not None))


def _page(asked: ApiRequest, kind: str, needs: tuple[Need, ...]) -> ApiResponse:
    which: Paged = asked.query
    return ApiResponse(
        value=cut(kind, needs, _place, keys=4, limit=which.limit, cursor=which.cursor), tagged=True
    )


def _place(need: Need) -> tuple[Key, ...]:
    return need.since, need.job_id, need.step_key or "", need.generation


async def approve_call(asked: ApiRequest) -> ApiResponse:
    """Approve a call. The id is the approval's, or that of a job with one open approval."""
    word: Deciding = asked.body
    return heard(
        await asked.client.approve(
            asked.path["id"],
            step_key=word.step_key,
            why=word.why,
            by=asked.by(word.by),
            operation_id=asked.key(word.operation_id),
        )
    )


async def deny_call(asked: ApiRequest) -> ApiResponse:
    """Deny a call. The id is the approval's, or that of a job with one open approval."""
    word: Deciding = asked.body
    return heard(
        await asked.client.deny(
            asked.path["id"],
            step_key=word.step_key,
            why=word.why,
            by=asked.by(word.by),
            operation_id=asked.key(word.operation_id),
        )
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/needs",
        handle=list_needs,
        query=Paged,
        answers=Page[Need],
        statuses=(200, 304),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/approvals",
        handle=list_approvals,
        query=Paged,
        answers=Page[Need],
        statuses=(200, 304),
        scope=AccessScope.READ,
    ),
    word_endpoint("/api/approvals/{id}/approve", approve_call, Deciding, AccessScope.DECIDE, "call.approve"),
    word_endpoint("/api/approvals/{id}/deny", deny_call, Deciding, AccessScope.DECIDE, "call.deny"),
)
