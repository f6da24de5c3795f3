"""Agents: created, listed, spoken to."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from holdfast.client.records import AgentView, Posted
from holdfast.errors import InvalidPayload
from holdfast.model.access import AccessScope
from holdfast.model.jobs import JobRecord
from holdfast.model.page import Page
from holdfast.server.endpoints import Endpoint
from holdfast.server.hosting_schemas import NewAgent, NewMessage
from holdfast.server.idempotency import REPLAYED
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.schemas import Paged


async def create_agent(asked: ApiRequest) -> ApiResponse:
    """Create an agent. Repeating the request changes nothing; the same name with other settings is a conflict."""
    new: NewAgent = asked.body
    known = await asked.store.agents.find(new.name, namespace=asked.namespace)
    made = await asked.client.create_agent(
        new.name,
        model=new.model,
        instructions=new.instructions,
        tools=new.tools,
        context_tokens_max=new.context_tokens_max,
        request_key=asked.key(new.request_key, named="request_key"),
    )
    where = {"Location": f"/api/agents/{quote(made.agent_id, safe='')}"}
    if known is None:
        return ApiResponse(value=made, status=201, headers=where)
    return ApiResponse(value=made, headers=where | REPLAYED)


async def message_agent(asked: ApiRequest) -> ApiResponse:
    """Send a message to an agent; returns the job that answers it."""
    new: NewMessage = asked.body
    if (new.text is msgspec.UNSET) == (new.content is msgspec.UNSET):
        raise InvalidPayload("a message has either text or content", hint='Send {"text": "…"}.')
    posted = await asked.client.message(
        asked.path["id"],
        new.content if new.text is msgspec.UNSET else new.text,
        session_id=new.session_id,
        delivery=new.delivery,
        slot=new.slot,
        request_key=asked.key(new.request_key, named="request_key"),
        job_id=new.id,
    )
    where = {"Location": f"/api/jobs/{quote(posted.job_id, safe='')}"}
    return ApiResponse(value=posted, status=202, headers=where | (REPLAYED if posted.repeated else {}))


async def list_agent_jobs(asked: ApiRequest) -> ApiResponse:
    """List the jobs that answer messages to an agent, newest first."""
    which: Paged = asked.query
    page = await asked.client.agent_jobs(asked.path["id"], limit=which.limit, cursor=which.cursor)
    return ApiResponse(value=page, tagged=True)


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/agents",
        handle=create_agent,
        body=NewAgent,
        answers=AgentView,
        statuses=(201, 200),
        keyed=True,
        errors=(409, 415, 422),
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="POST",
        path="/api/agents/{id}/message",
        handle=message_agent,
        body=NewMessage,
        answers=Posted,
        statuses=(202,),
        keyed=True,
        errors=(404, 409, 413, 415, 422, 503),
        submits=True,
        scope=AccessScope.OPERATE,
    ),
    Endpoint(
        method="GET",
        path="/api/agents/{id}/jobs",
        handle=list_agent_jobs,
        query=Paged,
        answers=Page[JobRecord],
        statuses=(200, 304),
        errors=(404, 422),
        scope=AccessScope.READ,
    ),
)
