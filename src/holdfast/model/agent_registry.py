"""Agents that live elsewhere: what each says of itself, and what to make of it.

    registered → beats → beats → …           online, or busy if it says so
    three beats missed                       offline
    a day of silence                         forgotten; never while it is heard

An entry is a claim, not a fact: anybody who may write to the bucket can write one. So every entry is read as if a
stranger had sent it: it is bounded, its unknown fields are left alone, and one that says nothing sensible is passed
over and counted. An entry decides nothing about work. Leases and fences do.

The fields are those that such agents write already, in their spelling: `agentType`, `lastHeartbeat`. Whoever changes an
entry changes what it means to change and nothing else, over the revision that it has read: a heartbeat and an update
that meet are both there afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model import canonical
from holdfast.model.ids import check_integer, check_name
from holdfast.model.time import DAY, HOUR, MILLISECOND, SECOND, from_iso, to_iso

BEAT_US: Final = 60 * SECOND
BEATS_MISSED: Final = 3
FORGOTTEN_US: Final = DAY
ENTRY_BYTES_MAX: Final = 16 * 1024
NAMES_MAX: Final = 100
"""Capabilities, and boundaries, of one agent."""

TASKS_MAX: Final = 10_000
DEFAULT_PROJECT: Final = "default"


class AgentStatus(StrEnum):
    ONLINE = "online"
    BUSY = "busy"
    OFFLINE = "offline"


class Visibility(StrEnum):
    """Who may find an agent. It always finds itself."""

    PUBLIC = "public"
    PROJECT_ONLY = "project-only"
    USER_ONLY = "user-only"
    PRIVATE = "private"


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an agent says of itself. Instants are text, as agents in other languages write them."""

    guid: str
    handle: str
    agent_type: str
    capabilities: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    hostname: str = ""
    project_id: str = DEFAULT_PROJECT
    username: str = ""
    scope: str = ""
    visibility: Visibility = Visibility.PUBLIC
    status: AgentStatus = AgentStatus.ONLINE
    current_task_count: int = 0
    max_concurrent_tasks: int = 1
    heartbeat_interval_ms: int = BEAT_US // MILLISECOND
    last_heartbeat: str = ""
    last_activity: str = ""
    registered_at: str = ""
    metadata: dict[str, Any] = {}


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it was read: which revision of it, and when whoever keeps it last heard of the agent."""

    entry: AgentEntry
    revision: int
    heard_at: int


class Changes(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What an agent wants to be different. What it leaves out stays."""

    handle: str | msgspec.UnsetType = msgspec.UNSET
    capabilities: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    boundaries: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    visibility: Visibility | msgspec.UnsetType = msgspec.UNSET
    status: AgentStatus | msgspec.UnsetType = msgspec.UNSET
    current_task_count: int | msgspec.UnsetType = msgspec.UNSET
    max_concurrent_tasks: int | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class Which(msgspec.Struct, frozen=True, kw_only=True):
    """Of all entries, these. None matches everybody; `viewer` leaves out whom that agent may not find."""

    agent_type: str | None = None
    status: AgentStatus | None = None
    capability: str | None = None
    project_id: str | None = None
    viewer: str | None = None


class RegistryHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Where entries are kept, and whether what is listed is what is there. `stale_since`: last known, not current."""

    source: str
    connected: bool = True
    stale_since: int | None = None
    ignored: int = 0
    """Entries that say nothing sensible."""


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def read_entry(data: bytes) -> AgentEntry:
    """The entry in these bytes, whoever wrote them.

    Raises:
        InvalidPayload: Too large, no JSON object, or with fields that are not what they should be.
    """
    if len(data) > ENTRY_BYTES_MAX:
        raise InvalidPayload(f"an entry of {len(data):,} bytes; at most {ENTRY_BYTES_MAX:,} are read")
    told = canonical.decode(data)
    if not isinstance(told, dict):
        raise InvalidPayload("an entry is a JSON object")
    metadata = told.get("metadata")
    if "boundaries" not in told and isinstance(metadata, dict) and "boundaries" in metadata:
        told = {**told, "boundaries": metadata["boundaries"]}  # where some agents keep them
    try:
        return check_entry(msgspec.convert({k: v for k, v in told.items() if v is not None}, AgentEntry))
    except msgspec.ValidationError as error:
        raise InvalidPayload(f"not an entry: {error}") from None


def write_entry(entry: AgentEntry, over: bytes = b"") -> bytes:
    """The bytes to keep: the entry, and whatever else was there that we do not know."""
    known = msgspec.to_builtins(entry)
    unknown: Any = canonical.decode(over) if over else {}
    merged = (
        {k: v for k, v in unknown.items() if k not in known} if isinstance(unknown, dict) else {}
    ) | known
    data = canonical.encode(merged)
    if len(data) > ENTRY_BYTES_MAX:
        raise InvalidPayload(f"an entry of {len(data):,} bytes; allowed are {ENTRY_BYTES_MAX:,}")
    return data


def check_entry(entry: AgentEntry) -> AgentEntry:
    """The entry, or an error that says what to change."""
    check_name(entry.guid, "guid")
    check_name(entry.handle, "handle")
    check_name(entry.agent_type, "agentType")
    for what, text in (
        ("hostname", entry.hostname),
        ("projectId", entry.project_id),
        ("username", entry.username),
        ("scope", entry.scope),
    ):
        if text:
            check_name(text, what)
    for what, names in (("capability", entry.capabilities), ("boundary", entry.boundaries)):
        if len(names) > NAMES_MAX:
            raise InvalidPayload(f"{len(names):,} names, each a {what}; allowed are {NAMES_MAX}")
        for name in names:
            check_name(name, what)
        if len(set(names)) < len(names):
            raise InvalidPayload(f"a {what} is named twice", hint=f"Name each {what} once.")
    _within("currentTaskCount", entry.current_task_count, 0, TASKS_MAX)
    _within("maxConcurrentTasks", entry.max_concurrent_tasks, 1, TASKS_MAX)
    _within(
        "heartbeatIntervalMs", entry.heartbeat_interval_ms, SECOND // MILLISECOND // 10, HOUR // MILLISECOND
    )
    for what, told in (
        ("lastHeartbeat", entry.last_heartbeat),
        ("lastActivity", entry.last_activity),
        ("registeredAt", entry.registered_at),
    ):
        if told:
            instant_of(told, what)
    return entry


def _within(what: str, value: int, least: int, most: int) -> None:
    if not least <= check_integer(value, what) <= most:
        raise InvalidPayload(f"{what} is {value:,}; allowed is {least:,} to {most:,}")


def instant_of(text: str, what: str) -> int:
    try:
        return from_iso(text)
    except InvalidPayload as error:
        raise InvalidPayload(f"{what}: {error}", hint=error.hint) from None


def get_last_heartbeat(entry: AgentEntry, written_at: int | None, now: int) -> int:
    """When the agent was last heard: as whoever keeps the entry says, else by its own word. Nobody is heard in the
    future, so a clock that is wrong keeps no agent alive for ever."""
    if written_at is None:
        written_at = instant_of(entry.last_heartbeat, "lastHeartbeat") if entry.last_heartbeat else 0
    return min(written_at, now)


# ── what to make of it ────────────────────────────────────────────────────────────────────────────


def status_of(seen: Seen, now: int) -> AgentStatus:
    """What it says, unless it was silent for three beats."""
    silent = now - seen.heard_at
    if silent >= BEATS_MISSED * seen.entry.heartbeat_interval_ms * MILLISECOND:
        return AgentStatus.OFFLINE
    return seen.entry.status


def is_forgotten(seen: Seen, now: int) -> bool:
    return now - seen.heard_at >= FORGOTTEN_US


def is_visible(entry: AgentEntry, viewer: AgentEntry) -> bool:
    """Whether the viewer may find this agent."""
    if entry.guid == viewer.guid or entry.visibility is Visibility.PUBLIC:
        return True
    if entry.visibility is Visibility.PROJECT_ONLY:
        return entry.project_id == viewer.project_id
    if entry.visibility is Visibility.USER_ONLY:
        return bool(entry.username) and entry.username == viewer.username
    return False


def select_entries(entries: Iterable[Seen], which: Which, now: int) -> list[Seen]:
    """Those that are asked for, by handle; what was silent for a day is not there any more. A viewer that nobody knows
    finds whoever is public."""
    everybody = [seen for seen in entries if not is_forgotten(seen, now)]
    known = {seen.entry.guid: seen.entry for seen in everybody}
    viewer = None
    if which.viewer is not None:
        viewer = known.get(which.viewer) or AgentEntry(
            guid=which.viewer, handle=which.viewer, agent_type="unknown"
        )
    found = [
        seen
        for seen in everybody
        if (which.agent_type is None or seen.entry.agent_type == which.agent_type)
        and (which.project_id is None or seen.entry.project_id == which.project_id)
        and (which.capability is None or which.capability in seen.entry.capabilities)
        and (which.status is None or status_of(seen, now) is which.status)
        and (viewer is None or is_visible(seen.entry, viewer))
    ]
    return sorted(found, key=lambda seen: (seen.entry.handle, seen.entry.guid))


# ── changes, each over what was read ──────────────────────────────────────────────────────────────

Change = Callable[[AgentEntry], AgentEntry]


def make_entry(new: AgentEntry, before: AgentEntry | None, now: int) -> AgentEntry:
    """The agent as it says, since when it was first there: a restart keeps its identity."""
    at = to_iso(now)
    since = before.registered_at if before is not None and before.registered_at else at
    return check_entry(msgspec.structs.replace(new, registered_at=since, last_heartbeat=at, last_activity=at))


def record_heartbeat(now: int, status: AgentStatus | None = None, tasks: int | None = None) -> Change:
    """It was there just now. Nothing else changes but what it says with the beat."""

    def change(entry: AgentEntry) -> AgentEntry:
        told: dict[str, Any] = {"last_heartbeat": to_iso(now)}
        if status is not None:
            told["status"] = status
        elif entry.status is AgentStatus.OFFLINE:
            told["status"] = AgentStatus.ONLINE
        if tasks is not None:
            told["current_task_count"] = tasks
        return check_entry(msgspec.structs.replace(entry, **told))

    return change


def apply_changes(changes: Changes, now: int) -> Change:
    """It is as it says now, and was there just now."""

    def change(entry: AgentEntry) -> AgentEntry:
        told = {
            name: value
            for name in changes.__struct_fields__
            if (value := getattr(changes, name)) is not msgspec.UNSET
        }
        at = to_iso(now)
        return check_entry(msgspec.structs.replace(entry, **told, last_heartbeat=at, last_activity=at))

    return change


# ── identity ──────────────────────────────────────────────────────────────────────────────────────


def root_guid(hostname: str, project_path: str) -> str:
    """The same folder on the same machine is the same agent, over every restart."""
    return hashlib.sha256(f"{hostname}\0{project_path}".encode()).hexdigest()[:32]


def sub_guid(parent: str, agent_type: str) -> str:
    """An agent of this type that another one has started is the same one each time."""
    return hashlib.sha256(f"{parent}\0{agent_type}".encode()).hexdigest()[:32]
