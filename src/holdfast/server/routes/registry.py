"""Agents that live elsewhere: they register, beat, change and leave; and everybody is listed with them."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.records import AgentView
from holdfast.client.work_records import AgentEntryView, Deregistered
from holdfast.errors import NotFound
from holdfast.model.access import AccessScope
from holdfast.model.agent_registry import AgentStatus
from holdfast.model.page import decode_cursor, encode_cursor
from holdfast.model.work import HOSTED
from holdfast.server.endpoints import Endpoint
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.work_schemas import AgentChanges, AgentPage, Beats, Registers, WhichAgents

PAGE_MOST: Final = 100_000
_CURSOR: Final = "agents"


async def register_agent(asked: ApiRequest) -> ApiResponse:
    """Register an external agent, so that it can claim work. Repeating the request updates the entry."""
    new: Registers = asked.body
    told = msgspec.structs.asdict(new)
    known = new.guid is not None and await _is_known(asked.client, new.guid)
    entry = await asked.client.register_agent(told.pop("handle"), told.pop("agent_type"), **told)
    where = {"Location": f"/api/agents/{quote(entry.guid, safe='')}"}
    return ApiResponse(value=entry, status=200 if known else 201, headers=where)


async def _is_known(client: EmbeddedClient, guid: str) -> bool:
    try:
        await client.get_entry(guid)
    except NotFound:
        return False
    return True


async def heartbeat_agent(asked: ApiRequest) -> ApiResponse:
    """Heartbeat of an external agent."""
    said: Beats = asked.body
    entry = await asked.client.heartbeat_agent(
        asked.path["id"], status=said.status, current_task_count=said.current_task_count
    )
    return ApiResponse(value=entry)


async def update_agent(asked: ApiRequest) -> ApiResponse:
    """Update the entry of an external agent; omitted fields stay."""
    changes: AgentChanges = asked.body
    return ApiResponse(value=await asked.client.update_agent(asked.path["id"], changes))


async def deregister_agent(asked: ApiRequest) -> ApiResponse:
    """Deregister an external agent. It keeps the work that it holds until its leases expire."""
    return ApiResponse(value=await asked.client.deregister_agent(asked.path["id"]))


async def list_agents(asked: ApiRequest) -> ApiResponse:
    """List agents by handle: external agents, configured agents, and agents that a worker has code for."""
    which: WhichAgents = asked.query
    client = asked.client
    found: dict[tuple[str, str], tuple[AgentEntryView, AgentView | None]] = {}
    if _may_be_hosted(which):
        for view in (await client.list_agents(limit=PAGE_MOST)).items:
            entry = _hosted(view)
            if which.status in {None, entry.status}:
                found[entry.handle, entry.guid] = entry, view
    elsewhere = await client.list_registry(
        agent_type=which.type,
        status=which.status,
        capability=which.capability,
        project_id=which.project,
        viewer=which.viewer,
        limit=PAGE_MOST,
    )
    found.update({(entry.handle, entry.guid): (entry, None) for entry in elsewhere.agents})
    places = sorted(found)
    if which.cursor is not None:
        after = tuple(map(str, decode_cursor(_CURSOR, which.cursor, keys=2)))
        places = [place for place in places if place > after]
    here = places[: which.limit]
    page = AgentPage(
        agents=tuple(found[place][0] for place in here),
        items=tuple(ours for place in here if (ours := found[place][1]) is not None),
        next=encode_cursor(_CURSOR, *here[-1]) if len(places) > len(here) else None,
        registry=elsewhere.registry,
    )
    return ApiResponse(value=page, tagged=True)


def _may_be_hosted(which: WhichAgents) -> bool:
    return which.type in {None, HOSTED} and which.capability is None and which.project is None


def _hosted(view: AgentView) -> AgentEntryView:
    """One of ours as an entry: there as long as somebody could drive it."""
    return AgentEntryView(
        guid=view.agent_id,
        handle=view.name,
        agent_type=HOSTED,
        status=AgentStatus.ONLINE,
        source=HOSTED,
        metadata={"kind": view.kind},
    )


async def get_agent(asked: ApiRequest) -> ApiResponse:
    """Get one agent, by id or name; an external agent by its guid."""
    try:
        found = await asked.client.get_agent(asked.path["id"])
    except NotFound as unknown:
        try:
            entry = await asked.client.get_entry(asked.path["id"])
        except NotFound:
            raise unknown from None
        found = AgentView(
            agent_id=entry.guid, name=entry.handle, kind=entry.agent_type, session_id="", entry=entry
        )
    return ApiResponse(value=found, tagged=True)


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/api/agents/register",
        handle=register_agent,
        body=Registers,
        answers=AgentEntryView,
        statuses=(201, 200),
        keyed=True,
        errors=(415, 422, 503),
        scope=AccessScope.WORK,
    ),
    Endpoint(
        method="POST",
        path="/api/agents/{id}/heartbeat",
        handle=heartbeat_agent,
        body=Beats,
        answers=AgentEntryView,
        keyed=True,
        errors=(404, 415, 422, 503),
        scope=AccessScope.WORK,
    ),
    Endpoint(
        method="PATCH",
        path="/api/agents/{id}",
        handle=update_agent,
        body=AgentChanges,
        answers=AgentEntryView,
        errors=(404, 415, 422, 503),
        scope=AccessScope.WORK,
    ),
    Endpoint(
        method="DELETE",
        path="/api/agents/{id}",
        handle=deregister_agent,
        answers=Deregistered,
        errors=(422, 503),
        scope=AccessScope.WORK,
    ),
    Endpoint(
        method="GET",
        path="/api/agents",
        handle=list_agents,
        query=WhichAgents,
        answers=AgentPage,
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.READ,
    ),
    Endpoint(
        method="GET",
        path="/api/agents/{id}",
        handle=get_agent,
        answers=AgentView,
        statuses=(200, 304),
        errors=(404,),
        scope=AccessScope.READ,
    ),
)
