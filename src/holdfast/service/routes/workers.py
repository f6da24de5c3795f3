"""Workers: who drives jobs, and what each can do."""

from __future__ import annotations

from typing import Final

from holdfast.client.records import WorkerView
from holdfast.model.access import Scope
from holdfast.model.page import Page
from holdfast.service.answers import Answer
from holdfast.service.asked import Asked
from holdfast.service.endpoints import Endpoint
from holdfast.service.shapes import Paged


async def list_workers(asked: Asked) -> Answer:
    """Workers by name: what they can do, what they hold, when they were last heard."""
    which: Paged = asked.query
    return Answer(value=await asked.client.list_workers(limit=which.limit, cursor=which.cursor), tagged=True)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/workers",
        handle=list_workers,
        query=Paged,
        answers=Page[WorkerView],
        statuses=(200, 304),
        errors=(422,),
        scope=Scope.READ,
        shared=True,
    ),
)
