"""What people say to a job. Each word is durable when it is answered, and said once under its key."""

from __future__ import annotations

from typing import Any, Final

from holdfast.client.records import Accepted
from holdfast.model import budget as money
from holdfast.model.access import AccessScope
from holdfast.server.endpoints import Endpoint, Handle
from holdfast.server.idempotency import REPLAYED
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Answering, Raising, Reconciling, Resuming, Signal, Word


async def stop_job(asked: ApiRequest) -> ApiResponse:
    """Cancel a job: it makes no further calls."""
    word: Word = asked.body
    return heard(
        await asked.client.cancel(
            asked.path["id"], why=word.why, by=asked.by(word.by), operation_id=asked.key(word.operation_id)
        )
    )


async def signal_job(asked: ApiRequest) -> ApiResponse:
    """Send a signal to a job."""
    word: Signal = asked.body
    return heard(
        await asked.client.signal(
            asked.path["id"],
            word.name,
            word.body,
            by=asked.by(word.by),
            operation_id=asked.key(word.operation_id),
        )
    )


async def answer_job(asked: ApiRequest) -> ApiResponse:
    """Answer a question of a job."""
    word: Answering = asked.body
    return heard(
        await asked.client.answer(
            asked.path["id"],
            word.answer,
            question_id=word.question_id,
            by=asked.by(word.by),
            operation_id=asked.key(word.operation_id),
        )
    )


async def resume_job(asked: ApiRequest) -> ApiResponse:
    """Resume a job that is held for a person."""
    word: Resuming = asked.body
    return heard(
        await asked.client.resume(
            asked.path["id"],
            choice=word.choice,
            why=word.why,
            by=asked.by(word.by),
            operation_id=asked.key(word.operation_id),
        )
    )


async def raise_budget(asked: ApiRequest) -> ApiResponse:
    """Raise limits of a budget that applies to a job."""
    word: Raising = asked.body
    limits = {name: getattr(word.limits, name) for name in word.limits.__struct_fields__}
    return heard(
        await asked.client.raise_budget(
            asked.path["id"],
            money.Budget(**limits),
            budget_id=word.budget_id,
            why=word.why,
            by=asked.by(word.by),
            operation_id=asked.key(word.operation_id),
        )
    )


async def reconcile_step(asked: ApiRequest) -> ApiResponse:
    """Settle a call of unknown outcome by the decision of a person."""
    word: Reconciling = asked.body
    return heard(
        await asked.client.reconcile(
            asked.path["id"],
            asked.path["key"],
            word.decision,
            why=word.why,
            by=asked.by(word.by),
            result=word.result,
            generation=word.generation,
            operation_id=asked.key(word.operation_id),
        )
    )


def heard(accepted: Accepted) -> ApiResponse:
    """200 if it is a fact already, 202 if whoever drives the job reads it next."""
    return ApiResponse(
        value=accepted,
        status=200 if accepted.at_once else 202,
        headers=REPLAYED if accepted.repeated else {},
    )


def word_endpoint(path: str, handle: Handle, body: Any, scope: AccessScope, audited: str = "") -> Endpoint:
    return Endpoint(
        method="POST",
        path=path,
        handle=handle,
        body=body,
        answers=Accepted,
        statuses=(200, 202),
        keyed=True,
        errors=(404, 409, 415, 422),
        scope=scope,
        audited=audited,
    )


ENDPOINTS: Final = (
    word_endpoint("/api/jobs/{id}/stop", stop_job, Word, AccessScope.OPERATE, "job.cancel"),
    word_endpoint("/api/jobs/{id}/signal", signal_job, Signal, AccessScope.OPERATE),
    word_endpoint("/api/jobs/{id}/answer", answer_job, Answering, AccessScope.DECIDE, "job.answer"),
    word_endpoint("/api/jobs/{id}/resume", resume_job, Resuming, AccessScope.OPERATE, "job.resume"),
    word_endpoint("/api/jobs/{id}/raise", raise_budget, Raising, AccessScope.DECIDE, "budget.raise"),
    word_endpoint(
        "/api/jobs/{id}/steps/{key:path}/reconcile",
        reconcile_step,
        Reconciling,
        AccessScope.DECIDE,
        "call.reconcile",
    ),
)
