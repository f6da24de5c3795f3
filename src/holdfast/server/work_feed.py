"""Work feed: events of work items and external agents, as server-sent events.

    id: 1763301600000000.job_01….4         time, work item, and event of its journal: send it back as `Last-Event-ID`
    event: work:completed
    data: {"id": "job_01…", "capability": "summarize", "assignedTo": "ant-1", …}

    work:    submitted assigned progress completed failed requeued dead cancelled
    agent:   registered updated offline removed

Events of work come from journals, so every one of them is durable, and a reader that reconnects with its last id gets
what it missed, as far as it belongs to the newest thousand items. Events of agents are the differences between two
looks at the registry: a reader that was disconnected lists the agents again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import msgspec

from holdfast.api.context import ApiContext
from holdfast.api.external_agents import ListEntries, list_entries
from holdfast.api.work_records import AgentEntryView, WorkView
from holdfast.api.work_views import work_view
from holdfast.engine.external_work import WorkItemState
from holdfast.errors import InvalidPayload
from holdfast.model.agent_registry import AgentStatus
from holdfast.model.events import (
    Event,
    JobCancellation,
    JobClaimed,
    JobCompleted,
    JobCreated,
    JobDeadLettered,
    JobFailure,
    JobReleased,
    JobRequeued,
    ProgressReported,
)
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.work import QUEUE, WorkFilter
from holdfast.server.responses import encode_json

LOOK_S: Final = 1.0
NEWEST: Final = 1000
LISTENING: Final = b": listening\n\n"
"""Sent once: every event from here on is delivered."""
NAMES: Final[dict[type[Event], str]] = {
    JobCreated: "submitted",
    JobClaimed: "assigned",
    ProgressReported: "progress",
    JobCompleted: "completed",
    JobFailure: "failed",
    JobRequeued: "requeued",
    JobReleased: "requeued",
    JobDeadLettered: "dead",
    JobCancellation: "cancelled",
}
_STEADY: Final = ("last_heartbeat", "last_activity")
"""Fields that change with every heartbeat, and are not events."""


def after_of(last_id: str | None) -> int | None:
    """The instant after which a reader continues; None: from now on."""
    if not last_id:
        return None
    at = last_id.partition(".")[0]
    if not at.isascii() or not at.isdigit() or len(at) > 18:
        raise InvalidPayload("the event id does not belong to this feed", hint="Send the last id as it came.")
    return int(at)


async def feed(api: ApiContext, after: int | None) -> AsyncGenerator[bytes, None]:
    """Events from now on, or after an instant, until the client disconnects."""
    store, outwork = api.store, api.external_work
    seen_seqs: dict[str, int] = {}
    agents: dict[str, AgentEntryView] | None = None
    news = after is not None
    while True:
        rows = (await store.work.list(WorkFilter(namespace=api.namespace), limit=NEWEST)).items
        changed = [row.head for row in reversed(rows) if seen_seqs.get(row.head.job_id) != row.head.head_seq]
        for head in changed:
            if news:
                item = await outwork.load(head.job_id)
                for event in _work_events(item, seen_seqs.get(head.job_id, 0), after or 0):
                    yield event
        seen_seqs = {row.head.job_id: row.head.head_seq for row in rows}
        current = {entry.guid: entry for entry in await list_entries(api, ListEntries())}
        if agents is not None:
            for event in _agent_events(agents, current):
                yield event
        else:
            yield LISTENING
        agents, news = current, True
        await store.wakeups.wait(frozenset({f"queue:{QUEUE}"}), LOOK_S)


def _work_events(item: WorkItemState, seq: int, after: int) -> Iterator[bytes]:
    view = work_view(item)
    for sealed, event in item.facts:
        name = NAMES.get(type(event))
        if name is not None and sealed.seq > seq and sealed.at > after and sealed.seq <= item.head.head_seq:
            yield _said(f"work:{name}", _id(sealed, view), _brief(view, sealed, event))


def _id(sealed: SealedEvent, view: WorkView) -> str:
    return f"{sealed.at}.{view.id}.{sealed.seq}"


def _brief(view: WorkView, sealed: SealedEvent, event: Event) -> dict[str, Any]:
    """The data of an event: the work item's current state, and the progress that the event reported."""
    data: dict[str, Any] = {
        "id": view.id,
        "seq": sealed.seq,
        "at": sealed.at,
        "capability": view.capability,
        "projectId": view.project_id,
        "status": view.status,
        "assignedTo": view.assigned_to,
    }
    if isinstance(event, ProgressReported):
        data |= {"progress": event.progress, "note": event.note}
    return data


def _agent_events(before: dict[str, AgentEntryView], now: dict[str, AgentEntryView]) -> Iterator[bytes]:
    for guid in sorted(before.keys() | now.keys()):
        was, is_ = before.get(guid), now.get(guid)
        if was is None:
            name = "registered"
        elif is_ is None:
            name = "removed"
        elif is_.status is AgentStatus.OFFLINE and was.status is not AgentStatus.OFFLINE:
            name = "offline"
        elif _steady(was) != _steady(is_):
            name = "updated"
        else:
            continue
        yield _said(f"agent:{name}", None, msgspec.to_builtins(is_ or was))


def _steady(entry: AgentEntryView) -> AgentEntryView:
    return msgspec.structs.replace(entry, **dict.fromkeys(_STEADY, ""))


def _said(name: str, event_id: str | None, data: Any) -> bytes:
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {name}\ndata: ".encode() + encode_json(data) + b"\n\n"
