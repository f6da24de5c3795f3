"""External agents: they register, send heartbeats, change their entries and leave."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.api.context import ApiContext
from holdfast.api.operation import Created, operation
from holdfast.api.requests import Name
from holdfast.api.work_records import AgentEntryView, Deregistered, RegistryView
from holdfast.api.work_views import entry_view
from holdfast.errors import NotFound
from holdfast.model.access import AccessScope
from holdfast.model.agent_registry import (
    DEFAULT_PROJECT,
    NAMES_MAX,
    TASKS_MAX,
    AgentEntry,
    AgentFilter,
    AgentStatus,
    EntryChanges,
    StoredEntry,
    Visibility,
    root_guid,
)
from holdfast.model.ids import check_name
from holdfast.model.time import to_iso

ENTRIES_MAX: Final = 100_000
ENTRY_ERRORS: Final = (404, 415, 422, 503)
Names = Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]
Tasks = Annotated[int, Meta(ge=0, le=TASKS_MAX)]


class ExternalRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A request by or about an external agent, in the spelling of such agents."""


class RegisterAgent(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    """Registration of an external agent. Without a `guid`, its host, project and handle identify it."""

    handle: Name
    agent_type: Name
    guid: Name | None = None
    capabilities: Names = ()
    boundaries: Names = ()
    max_concurrent_tasks: Annotated[int, Meta(ge=1, le=TASKS_MAX)] = 1
    hostname: Name | None = None
    project_id: Name | None = None
    username: Name | None = None
    visibility: Visibility | None = None
    heartbeat_interval_ms: Annotated[int, Meta(ge=100, le=3_600_000)] | None = None
    metadata: dict[str, Any] | None = None


@operation(
    "POST",
    "/api/agents/register",
    scope=AccessScope.WORK,
    errors=(415, 422, 503),
    location="/api/agents/{guid}",
)
async def register_agent(api: ApiContext, request: RegisterAgent) -> Created[AgentEntryView]:
    """Register an external agent, so that it can claim work. Repeating the request updates the entry."""
    check_names(hostname=request.hostname, projectId=request.project_id, username=request.username)
    place = f"{request.project_id or DEFAULT_PROJECT}/{request.handle}"
    fields = msgspec.structs.asdict(request)
    if request.guid is None:
        fields["guid"] = root_guid(request.hostname or "", place)
    entry = AgentEntry(**{name: value for name, value in fields.items() if value is not None})
    is_known = request.guid is not None and await _is_known(api, request.guid)
    return Created(_view(api, await api.registry.register(entry)), is_new=not is_known)


async def _is_known(api: ApiContext, guid: str) -> bool:
    try:
        await get_entry(api, guid)
    except NotFound:
        return False
    return True


class HeartbeatAgent(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    agent: Name
    status: AgentStatus | None = None
    current_task_count: Tasks | None = None


@operation("POST", "/api/agents/{agent}/heartbeat", scope=AccessScope.WORK, errors=ENTRY_ERRORS)
async def heartbeat_agent(api: ApiContext, request: HeartbeatAgent) -> AgentEntryView:
    """Heartbeat of an external agent."""
    check_name(request.agent, "guid")
    return _view(
        api,
        await api.registry.beat(request.agent, status=request.status, tasks=request.current_task_count),
    )


class UpdateAgent(EntryChanges, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Changes of a registry entry; omitted fields stay."""

    agent: Name


@operation("PATCH", "/api/agents/{agent}", scope=AccessScope.WORK, errors=ENTRY_ERRORS)
async def update_agent(api: ApiContext, request: UpdateAgent) -> AgentEntryView:
    """Update the entry of an external agent; omitted fields stay."""
    changes = EntryChanges(**{name: getattr(request, name) for name in EntryChanges.__struct_fields__})
    return _view(api, await api.registry.update(check_name(request.agent, "guid"), changes))


class DeregisterAgent(ExternalRequest, frozen=True, kw_only=True, rename="camel"):
    agent: Name


@operation("DELETE", "/api/agents/{agent}", scope=AccessScope.WORK, errors=(422, 503))
async def deregister_agent(api: ApiContext, request: DeregisterAgent) -> Deregistered:
    """Deregister an external agent. It keeps the work that it holds until its leases expire."""
    guid = check_name(request.agent, "guid")
    return Deregistered(guid=guid, deregistered=await api.registry.deregister(guid))


# ── entries, for the list of all agents ───────────────────────────────────────────────────────────


class ListEntries(msgspec.Struct, frozen=True, kw_only=True):
    agent_type: str | None = None
    status: AgentStatus | None = None
    capability: str | None = None
    project_id: str | None = None
    viewer: str | None = None


async def get_entry(api: ApiContext, guid: str) -> AgentEntryView:
    """The entry of an external agent, or NotFound."""
    return _view(api, await api.registry.get(check_name(guid, "guid")))


async def list_entries(api: ApiContext, query: ListEntries) -> list[AgentEntryView]:
    check_names(
        type=query.agent_type, capability=query.capability, project=query.project_id, viewer=query.viewer
    )
    page = await api.registry.list(
        AgentFilter(**msgspec.structs.asdict(query)), limit=ENTRIES_MAX, cursor=None
    )
    return [_view(api, entry) for entry in page]


def registry_view(api: ApiContext) -> RegistryView:
    health = api.registry.health()
    stale = health.stale_since
    return RegistryView(
        source=health.source,
        connected=health.connected,
        stale_since=None if stale is None else to_iso(stale),
        ignored=health.ignored,
    )


def _view(api: ApiContext, entry: StoredEntry) -> AgentEntryView:
    return entry_view(entry, api.registry.now_us(), api.registry.health().source)


def check_names(**names: str | None) -> None:
    """Checks that those that are not None are valid names."""
    for label, name in names.items():
        if name is not None:
            check_name(name, label)
