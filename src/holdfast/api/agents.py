"""Agents: create, list, inspect, send a message.

A configured agent is a row of the store. An agent declared in code is not: it is known from the workers that offer
its code and from the messages that it has taken. Both kinds take messages.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.api.context import ApiContext
from holdfast.api.external_agents import ListEntries, get_entry, list_entries, registry_view
from holdfast.api.job_records import AgentView, Posted
from holdfast.api.operation import Created, operation
from holdfast.api.requests import Name, OperationRequest, PageRequest
from holdfast.api.work_records import AgentEntryView, RegistryView
from holdfast.errors import InvalidPayload, NotFound
from holdfast.model import canonical
from holdfast.model.access import AccessScope
from holdfast.model.agent_registry import AgentStatus
from holdfast.model.configured_agents import ASSISTANT, TOOLS_MAX, Configuration, HostedAgent
from holdfast.model.ids import base32, check_name
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import DEFAULT_QUEUE, JobFilter, JobRecord, encode_job_cursor
from holdfast.model.limits import INTEGER_MAX, PRIORITY_DEFAULT, ROWS_PER_PAGE_MAX
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.work import HOSTED
from holdfast.model.worker_presence import SeenWorker, SessionKind

JOBS_SEARCHED_MAX: Final = 500
"""Jobs that one page of an agent's jobs searches: for a configured agent only the input of a job has the agent's id."""

AGENTS_MAX: Final = 100_000
_CURSOR: Final = "agents"


class Recipient(msgspec.Struct, frozen=True):
    """The recipient of a message: the kind, queue, priority and input of the job that answers it."""

    name: str
    queue: str
    priority: int
    given: Any


# ── create ────────────────────────────────────────────────────────────────────────────────────────


class CreateAgent(OperationRequest, frozen=True, kw_only=True):
    """A configured agent: its model, its instructions, and the names of its tools."""

    name: Name
    model: Name | None = None
    instructions: str = ""
    tools: Annotated[tuple[Name, ...], Meta(max_length=TOOLS_MAX)] = ()
    context_tokens_max: Annotated[int, Meta(ge=1, le=INTEGER_MAX)] | None = None
    request_key: Name | None = None


@operation(
    "POST",
    "/api/agents",
    scope=AccessScope.OPERATE,
    errors=(409, 415, 422),
    location="/api/agents/{agent_id}",
)
async def create_agent(api: ApiContext, request: CreateAgent) -> Created[AgentView]:
    """Create an agent. Repeating the request changes nothing; the same name with other settings is a conflict."""
    configuration = Configuration(
        model=request.model,
        instructions=request.instructions,
        tools=tuple(request.tools),
        context_tokens_max=request.context_tokens_max,
    )
    agent = HostedAgent(
        agent_id=api.ids.new("agent") if request.request_key is None else _derive_id(request.request_key),
        name=request.name,
        configuration=configuration,
        namespace=api.namespace,
    )
    existing = await api.store.agents.find(request.name, namespace=api.namespace)
    return Created(_configured(await api.store.agents.create(agent)), is_new=existing is None)


def _derive_id(request_key: str) -> str:
    """The id of the agent that is created under this key: so the same key for another agent is a conflict."""
    digest = canonical.digest(check_name(request_key, "request key").encode())
    return f"agent_{base32(int.from_bytes(digest[:16]))}"


# ── list and get ──────────────────────────────────────────────────────────────────────────────────


class ListAgents(PageRequest, frozen=True, kw_only=True, rename={"viewer": "for"}):
    """`for` leaves out agents that the agent of this guid may not find. `source`: only `hosted` agents, which our
    workers run, or only `external` ones."""

    type: Name | None = None
    status: AgentStatus | None = None
    capability: Name | None = None
    project: Name | None = None
    viewer: Name | None = None
    source: str | None = None


class AgentPage(msgspec.Struct, frozen=True, kw_only=True):
    """Agents by handle, hosted and external. `items` are the hosted ones of this page, with their configuration."""

    agents: tuple[AgentEntryView, ...] = ()
    items: tuple[AgentView, ...] = ()
    next: str | None = None
    registry: RegistryView = RegistryView()


@operation("GET", "/api/agents", scope=AccessScope.READ, errors=(422,))
async def list_agents(api: ApiContext, request: ListAgents) -> AgentPage:
    """List agents by handle: external agents, configured agents, and agents that a worker has code for."""
    if request.source not in {None, "hosted", "external"}:
        msg = f"there is no source {request.source!r}"
        raise InvalidPayload(msg, hint="Say hosted or external, or leave it out for both.")
    rows: dict[tuple[str, str], tuple[AgentEntryView, AgentView | None]] = {}
    if request.source != "external" and _may_be_hosted(request):
        for view in await _list_hosted(api):
            entry = _as_entry(view)
            if request.status in {None, entry.status}:
                rows[entry.handle, entry.guid] = entry, view
    if request.source != "hosted":
        entry_filter = ListEntries(
            agent_type=request.type,
            status=request.status,
            capability=request.capability,
            project_id=request.project,
            viewer=request.viewer,
        )
        entries = await list_entries(api, entry_filter)
        rows.update({(entry.handle, entry.guid): (entry, None) for entry in entries})
    places = sorted(rows)
    if request.cursor is not None:
        after = tuple(map(str, decode_cursor(_CURSOR, request.cursor, keys=2)))
        places = [place for place in places if place > after]
    page_places = places[: request.limit]
    return AgentPage(
        agents=tuple(rows[place][0] for place in page_places),
        items=tuple(ours for place in page_places if (ours := rows[place][1]) is not None),
        next=encode_cursor(_CURSOR, *page_places[-1]) if len(places) > len(page_places) else None,
        registry=registry_view(api),
    )


def _may_be_hosted(request: ListAgents) -> bool:
    return request.type in {None, HOSTED} and request.capability is None and request.project is None


async def _list_hosted(api: ApiContext) -> list[AgentView]:
    """Configured agents, and those that a listed worker offers code for."""
    page = await api.store.agents.list(namespace=api.namespace, limit=AGENTS_MAX, cursor=None)
    views = {agent.name: _configured(agent) for agent in page}
    for name in await _announced(api):
        views.setdefault(name, _declared(name))
    return list(views.values())


def _as_entry(view: AgentView) -> AgentEntryView:
    """A hosted agent as an entry of the registry: online as long as a worker could run it."""
    return AgentEntryView(
        guid=view.agent_id,
        handle=view.name,
        agent_type=HOSTED,
        status=AgentStatus.ONLINE,
        source=HOSTED,
        metadata={"kind": view.kind},
    )


class GetAgent(OperationRequest, frozen=True, kw_only=True):
    agent: Name


@operation("GET", "/api/agents/{agent}", scope=AccessScope.READ, errors=(404,))
async def get_agent(api: ApiContext, request: GetAgent) -> AgentView:
    """Get one agent, by id or name; an external agent by its guid."""
    try:
        return (await _find(api, request.agent))[0]
    except NotFound as unknown:
        try:
            entry = await get_entry(api, request.agent)
        except NotFound:
            raise unknown from None
    return AgentView(
        agent_id=entry.guid, name=entry.handle, kind=entry.agent_type, session_id="", entry=entry
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class MessageAgent(OperationRequest, frozen=True, kw_only=True, rename={"job_id": "id"}):
    """A message to an agent: `text`, or `content` of any kind. Without a `session_id` it belongs to the agent's one
    conversation. Its id or its `Idempotency-Key` is its idempotency key: sent again, it is the same message."""

    agent: Name
    text: str | msgspec.UnsetType = msgspec.UNSET
    content: Any = msgspec.UNSET
    session_id: Name | None = None
    delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY
    slot: SlotPolicy = SlotPolicy.JOIN
    job_id: Name | None = None
    request_key: Name | None = None


@operation(
    "POST",
    "/api/agents/{agent}/message",
    scope=AccessScope.OPERATE,
    errors=(404, 409, 413, 415, 422, 503),
    submits=True,
    location="/api/jobs/{job_id}",
)
async def message_agent(api: ApiContext, request: MessageAgent) -> Posted:
    """Send a message to an agent; returns the job that answers it."""
    from holdfast.agents.conversation import bind_input, draft_message

    if (request.text is msgspec.UNSET) == (request.content is msgspec.UNSET):
        raise InvalidPayload("a message has either text or content", hint='Send {"text": "…"}.')
    content = request.content if request.text is msgspec.UNSET else request.text
    view, recipient = await _find(api, request.agent)
    session_id = (
        view.session_id if request.session_id is None else check_name(request.session_id, "session id")
    )
    batch, job = draft_message(
        recipient, session_id, content, id=request.request_key, when=request.delivery.value, slot=request.slot
    )
    job_id = api.ids.new("job") if request.job_id is None else check_name(request.job_id, "job id")
    job = msgspec.structs.replace(
        job,
        job_id=job_id,
        namespace=api.namespace,
        input=bind_input(recipient.given, batch),
        python_version=None,  # that of the worker that runs it, not of the process that posts it
    )
    is_known = await _is_known(api, request.job_id)
    posted = await api.store.inbox.deliver(batch, job)
    return Posted(
        job_id=posted.batch_id,
        session_id=session_id,
        agent_id=view.agent_id,
        repeated=is_known or posted.batch_id != job_id,
    )


async def _is_known(api: ApiContext, job_id: str | None) -> bool:
    if job_id is None:
        return False
    try:
        await api.store.jobs.head(job_id)
    except NotFound:
        return False
    return True


class ListAgentJobs(PageRequest, frozen=True, kw_only=True):
    agent: Name


@operation("GET", "/api/agents/{agent}/jobs", scope=AccessScope.READ, errors=(404, 422))
async def list_agent_jobs(api: ApiContext, request: ListAgentJobs) -> Page[JobRecord]:
    """List the jobs that answer messages to an agent, newest first."""
    view, _ = await _find(api, request.agent)
    job_filter = JobFilter(namespace=api.namespace, kind=view.kind)
    limit, cursor = request.limit, request.cursor
    if view.declared:
        return await api.store.jobs.list(job_filter, limit=limit, cursor=cursor)
    records: list[JobRecord] = []
    searched = 0
    while True:
        page = await api.store.jobs.list(job_filter, limit=limit, cursor=cursor)
        for record in page:
            if await _is_to(api, record.job_id, view.agent_id):
                records.append(record)
                if len(records) == limit:
                    is_last = page.next is None and record is page.items[-1]
                    return Page(tuple(records), None if is_last else encode_job_cursor(record))
        searched += len(page)
        cursor = page.next
        if cursor is None or searched >= JOBS_SEARCHED_MAX:
            return Page(tuple(records), cursor)


async def _is_to(api: ApiContext, job_id: str, agent_id: str) -> bool:
    first = await api.store.journal.read(job_id, limit=1)
    body = canonical.decode_stored(first[0].body) if first and first[0].body is not None else {}
    job_input = body.get("input")
    return isinstance(job_input, dict) and job_input.get("agent") == agent_id


# ── resolution ────────────────────────────────────────────────────────────────────────────────────


async def _find(api: ApiContext, name: str) -> tuple[AgentView, Recipient]:
    """The agent of this name or id, and the recipient of its messages."""
    check_name(name, "agent")
    configured = await api.store.agents.find(name, namespace=api.namespace)
    if configured is None:
        try:
            configured = await api.store.agents.get(name, namespace=api.namespace)
        except NotFound:
            kind = await _find_code(api, name)
            return _declared(name), Recipient(name, kind.queue, kind.priority, None)
    job_input = {"agent": configured.agent_id}
    return _configured(configured), Recipient(ASSISTANT, DEFAULT_QUEUE, PRIORITY_DEFAULT, job_input)


async def _find_code(api: ApiContext, kind: str) -> SessionKind:
    """The queue and priority of a session agent that is declared in code."""
    announced = await _announced(api)
    if kind in announced:
        return announced[kind]
    # No listed worker has its code now. A worker that took a message before will be back.
    newest = await api.store.jobs.list(JobFilter(namespace=api.namespace, kind=kind), limit=1, cursor=None)
    for record in newest:
        if record.session_id is not None and await _took_message(api, record):
            return SessionKind(name=kind, queue=record.queue, priority=record.priority)
    msg = f"there is no agent {kind!r}"
    raise NotFound(
        msg,
        hint="`holdfast agent list` lists them. Agents of an application need a worker: holdfast worker app.py",
    )


async def _took_message(api: ApiContext, record: JobRecord) -> bool:
    assert record.session_id is not None
    batch = await api.store.inbox.find(record.session_id, record.job_id, namespace=api.namespace)
    return batch is not None


async def _announced(api: ApiContext) -> dict[str, SessionKind]:
    """The sessions that listed workers offer code for; the newest heartbeat wins."""
    kinds: dict[str, SessionKind] = {}
    for worker in sorted(await _list_workers(api), key=lambda worker_entry: worker_entry.seen_at):
        kinds |= {kind.name: kind for kind in worker.presence.offer.sessions}
    return kinds


async def _list_workers(api: ApiContext) -> list[SeenWorker]:
    workers: list[SeenWorker] = []
    cursor: str | None = None
    while True:
        page = await api.store.presences.list(limit=ROWS_PER_PAGE_MAX, cursor=cursor)
        workers += page.items
        cursor = page.next
        if cursor is None:
            return workers


def _configured(agent: HostedAgent) -> AgentView:
    return AgentView(
        agent_id=agent.agent_id,
        name=agent.name,
        kind=agent.kind,
        session_id=agent.agent_id,
        configuration=agent.configuration,
        created_at=agent.created_at,
    )


def _declared(name: str) -> AgentView:
    return AgentView(agent_id=name, name=name, kind=name, session_id=f"agent:{name}", declared=True)
