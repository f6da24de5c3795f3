"""Registry entries of external agents: how an entry is read, changed and judged.

    registered → beats → beats → …           online, or busy if it says so
    three beats missed                       offline
    a day of silence                         forgotten; never while it is heard

An entry is a claim, not a fact: every client that may write to the bucket can write one. So the reader treats each
entry as untrusted input: it limits its size, leaves unknown fields alone, and skips and counts an entry that is
invalid. An entry decides nothing about work. Leases and fences do.

The fields have the names that such agents write already: `agentType`, `lastHeartbeat`. A writer changes the fields that
it means to change and no others, conditional on the revision that it has read: a heartbeat and an update that meet are
both applied.
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
"""The most capabilities, and the most boundaries, of one agent."""

TASKS_MAX: Final = 10_000
DEFAULT_PROJECT: Final = "default"


class AgentStatus(StrEnum):
    ONLINE = "online"
    BUSY = "busy"
    OFFLINE = "offline"


class Visibility(StrEnum):
    """Which agents may find an agent. It always finds itself."""

    PUBLIC = "public"
    PROJECT_ONLY = "project-only"
    USER_ONLY = "user-only"
    PRIVATE = "private"


class AgentEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A registry entry, as the agent describes itself. Instants are text, as agents in other languages write them."""

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


class StoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it was read: its revision, and when the bucket last received a write from the agent."""

    entry: AgentEntry
    revision: int
    heard_at: int


class EntryChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An update of an entry. A field that is left out keeps its value."""

    handle: str | msgspec.UnsetType = msgspec.UNSET
    capabilities: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    boundaries: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    visibility: Visibility | msgspec.UnsetType = msgspec.UNSET
    status: AgentStatus | msgspec.UnsetType = msgspec.UNSET
    current_task_count: int | msgspec.UnsetType = msgspec.UNSET
    max_concurrent_tasks: int | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class AgentFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter for entries. None matches every entry; `viewer` leaves out agents that this viewer may not find."""

    agent_type: str | None = None
    status: AgentStatus | None = None
    capability: str | None = None
    project_id: str | None = None
    viewer: str | None = None


class RegistryHealth(msgspec.Struct, frozen=True, kw_only=True):
    """Which backend keeps the entries, and whether the listing is current. `stale_since`: the listing is the last known
    one, not the current one."""

    source: str
    connected: bool = True
    stale_since: int | None = None
    ignored: int = 0
    """Number of invalid entries that were skipped."""


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def read_entry(data: bytes) -> AgentEntry:
    """Decode and check an entry; any client of the bucket may have written these bytes.

    Raises:
        InvalidPayload: Too large, not a JSON object, or with a field of the wrong type.
    """
    if len(data) > ENTRY_BYTES_MAX:
        raise InvalidPayload(f"an entry of {len(data):,} bytes; at most {ENTRY_BYTES_MAX:,} are read")
    fields = canonical.decode(data)
    if not isinstance(fields, dict):
        raise InvalidPayload("an entry is a JSON object")
    metadata = fields.get("metadata")
    if "boundaries" not in fields and isinstance(metadata, dict) and "boundaries" in metadata:
        fields = {**fields, "boundaries": metadata["boundaries"]}  # where some agents keep them
    try:
        return check_entry(msgspec.convert({k: v for k, v in fields.items() if v is not None}, AgentEntry))
    except msgspec.ValidationError as error:
        raise InvalidPayload(f"not an entry: {error}") from None


def write_entry(entry: AgentEntry, over: bytes = b"") -> bytes:
    """Encode the entry; fields of `over`, the stored bytes, that this version does not know are preserved."""
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
    """Return the entry, or raise an error that says what to change."""
    check_name(entry.guid, "guid")
    check_name(entry.handle, "handle")
    check_name(entry.agent_type, "agentType")
    for label, text in (
        ("hostname", entry.hostname),
        ("projectId", entry.project_id),
        ("username", entry.username),
        ("scope", entry.scope),
    ):
        if text:
            check_name(text, label)
    for label, names in (("capability", entry.capabilities), ("boundary", entry.boundaries)):
        if len(names) > NAMES_MAX:
            raise InvalidPayload(f"{len(names):,} names, each a {label}; allowed are {NAMES_MAX}")
        for name in names:
            check_name(name, label)
        if len(set(names)) < len(names):
            raise InvalidPayload(f"a {label} is named twice", hint=f"Name each {label} once.")
    _within("currentTaskCount", entry.current_task_count, 0, TASKS_MAX)
    _within("maxConcurrentTasks", entry.max_concurrent_tasks, 1, TASKS_MAX)
    _within(
        "heartbeatIntervalMs", entry.heartbeat_interval_ms, SECOND // MILLISECOND // 10, HOUR // MILLISECOND
    )
    for label, instant in (
        ("lastHeartbeat", entry.last_heartbeat),
        ("lastActivity", entry.last_activity),
        ("registeredAt", entry.registered_at),
    ):
        if instant:
            instant_of(instant, label)
    return entry


def _within(label: str, value: int, least: int, most: int) -> None:
    if not least <= check_integer(value, label) <= most:
        raise InvalidPayload(f"{label} is {value:,}; allowed is {least:,} to {most:,}")


def instant_of(text: str, label: str) -> int:
    try:
        return from_iso(text)
    except InvalidPayload as error:
        raise InvalidPayload(f"{label}: {error}", hint=error.hint) from None


def get_last_heartbeat(entry: AgentEntry, written_at: int | None, now: int) -> int:
    """When the agent last sent a heartbeat: the time at which the bucket stored the entry, else the agent's own
    timestamp. A time in the future counts as now, so that a wrong clock does not keep an agent alive for ever."""
    if written_at is None:
        written_at = instant_of(entry.last_heartbeat, "lastHeartbeat") if entry.last_heartbeat else 0
    return min(written_at, now)


# ── status and visibility ─────────────────────────────────────────────────────────────────────────


def status_of(seen: StoredEntry, now: int) -> AgentStatus:
    """The status that the agent reports, or offline after three missed beats."""
    silent = now - seen.heard_at
    if silent >= BEATS_MISSED * seen.entry.heartbeat_interval_ms * MILLISECOND:
        return AgentStatus.OFFLINE
    return seen.entry.status


def is_forgotten(seen: StoredEntry, now: int) -> bool:
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


def select_entries(entries: Iterable[StoredEntry], filter_: AgentFilter, now: int) -> list[StoredEntry]:
    """The entries that match the filter, by handle, without agents that were silent for a day. A viewer without an
    entry finds public agents only."""
    live = [seen for seen in entries if not is_forgotten(seen, now)]
    known = {seen.entry.guid: seen.entry for seen in live}
    viewer = None
    if filter_.viewer is not None:
        viewer = known.get(filter_.viewer) or AgentEntry(
            guid=filter_.viewer, handle=filter_.viewer, agent_type="unknown"
        )
    found = [
        seen
        for seen in live
        if (filter_.agent_type is None or seen.entry.agent_type == filter_.agent_type)
        and (filter_.project_id is None or seen.entry.project_id == filter_.project_id)
        and (filter_.capability is None or filter_.capability in seen.entry.capabilities)
        and (filter_.status is None or status_of(seen, now) is filter_.status)
        and (viewer is None or is_visible(seen.entry, viewer))
    ]
    return sorted(found, key=lambda seen: (seen.entry.handle, seen.entry.guid))


# ── changes, each over what was read ──────────────────────────────────────────────────────────────

Change = Callable[[AgentEntry], AgentEntry]


def make_entry(new: AgentEntry, before: AgentEntry | None, now: int) -> AgentEntry:
    """The entry of an agent that registers. An agent that was registered before keeps its registration time: a restart
    keeps its identity."""
    at = to_iso(now)
    since = before.registered_at if before is not None and before.registered_at else at
    return check_entry(msgspec.structs.replace(new, registered_at=since, last_heartbeat=at, last_activity=at))


def record_heartbeat(now: int, status: AgentStatus | None = None, tasks: int | None = None) -> Change:
    """A heartbeat: sets the time, and the status and task count that the agent sends with it. Other fields stay."""

    def change(entry: AgentEntry) -> AgentEntry:
        updates: dict[str, Any] = {"last_heartbeat": to_iso(now)}
        if status is not None:
            updates["status"] = status
        elif entry.status is AgentStatus.OFFLINE:
            updates["status"] = AgentStatus.ONLINE
        if tasks is not None:
            updates["current_task_count"] = tasks
        return check_entry(msgspec.structs.replace(entry, **updates))

    return change


def apply_changes(changes: EntryChanges, now: int) -> Change:
    """An update: sets the fields that the agent sends, and the time of its last heartbeat and activity."""

    def change(entry: AgentEntry) -> AgentEntry:
        updates = {
            name: value
            for name in changes.__struct_fields__
            if (value := getattr(changes, name)) is not msgspec.UNSET
        }
        at = to_iso(now)
        return check_entry(msgspec.structs.replace(entry, **updates, last_heartbeat=at, last_activity=at))

    return change


# ── identity ──────────────────────────────────────────────────────────────────────────────────────


def root_guid(hostname: str, project_path: str) -> str:
    """Derived guid of an agent: the same folder on the same host gives the same guid after every restart."""
    return hashlib.sha256(f"{hostname}\0{project_path}".encode()).hexdigest()[:32]


def sub_guid(parent: str, agent_type: str) -> str:
    """Derived guid of a sub-agent: the same parent and type give the same guid each time."""
    return hashlib.sha256(f"{parent}\0{agent_type}".encode()).hexdigest()[:32]
