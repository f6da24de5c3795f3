"""Dead letters: work that used up its attempts. It is held, not lost."""

from __future__ import annotations

from typing import Final

from holdfast.client.records import Need
from holdfast.model.access import AccessScope
from holdfast.model.page import Page
from holdfast.server.endpoints import Endpoint
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.routes.commands import heard, word_endpoint
from holdfast.server.schemas import Paged, Word


async def list_dead_letters(asked: ApiRequest) -> ApiResponse:
    """List dead letters with their causes, newest first."""
    which: Paged = asked.query
    page = await asked.client.dead_letters(limit=which.limit, cursor=which.cursor)
    return ApiResponse(value=page, tagged=True)


async def requeue_dead_letter(asked: ApiRequest) -> ApiResponse:
    """Requeue a dead letter: same job, same journal, same idempotency keys."""
    word: Word = asked.body
    return heard(
        await asked.client.requeue(
            asked.path["id"], why=word.why, by=asked.by(word.by), operation_id=asked.key(word.operation_id)
        )
    )


async def discard_dead_letter(asked: ApiRequest) -> ApiResponse:
    """Discard a dead letter: the job is cancelled."""
    word: Word = asked.body
    return heard(
        await asked.client.discard(
            asked.path["id"], why=word.why, by=asked.by(word.by), operation_id=asked.key(word.operation_id)
        )
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/dead-letters",
        handle=list_dead_letters,
        query=Paged,
        answers=Page[Need],
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    word_endpoint(
        "/api/dead-letters/{id}/requeue", requeue_dead_letter, Word, AccessScope.OPERATE, "dead.requeue"
    ),
    word_endpoint(
        "/api/dead-letters/{id}/discard", discard_dead_letter, Word, AccessScope.OPERATE, "dead.discard"
    ),
)
