"""Entries of agents: read as if a stranger had sent them, and changed without harm to what others wrote."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.errors import HoldfastError
from holdfast.model.agent_registry import (
    AgentEntry,
    AgentStatus,
    EntryChanges,
    StoredEntry,
    apply_changes,
    get_last_heartbeat,
    make_entry,
    read_entry,
    record_heartbeat,
    root_guid,
    status_of,
    sub_guid,
    write_entry,
)
from holdfast.model.time import DAY, SECOND, to_iso

NOW = 1_763_243_606_000_000
TOLD: dict[str, Any] = {"guid": "g", "handle": "ant", "agentType": "claude"}


def test_an_entry_is_read_as_agents_write_it() -> None:
    told = TOLD | {
        "metadata": {"boundaries": ["acme"], "x": 1},
        "natsUrl": "nats://x",
        "capabilities": ["dig"],
    }
    entry = read_entry(json.dumps(told).encode())
    assert (entry.boundaries, entry.capabilities, entry.status) == (("acme",), ("dig",), AgentStatus.ONLINE)
    again = json.loads(write_entry(entry, over=json.dumps(told).encode()))
    assert again["natsUrl"] == "nats://x", "what we do not know stays"
    assert read_entry(json.dumps(again).encode()) == entry


@pytest.mark.parametrize(
    "wrong",
    [
        {"guid": ""},
        {"guid": 7},
        {"handle": "a\x00"},
        {"agentType": None},
        {"capabilities": "dig"},
        {"capabilities": ["dig", "dig"]},
        {"capabilities": [f"c{n}" for n in range(101)]},
        {"status": "asleep"},
        {"visibility": "secret"},
        {"maxConcurrentTasks": 0},
        {"currentTaskCount": -1},
        {"heartbeatIntervalMs": 1},
        {"lastHeartbeat": "yesterday"},
        {"metadata": []},
        {"metadata": {"x": "y" * 20_000}},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(HoldfastError):
        read_entry(json.dumps(TOLD | wrong).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b'{"guid": "a", "guid": "b"}', b"\xff"])
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(HoldfastError):
        read_entry(data)


def test_silence_decides_who_is_there() -> None:
    entry = read_entry(json.dumps(TOLD | {"heartbeatIntervalMs": 1000, "status": "busy"}).encode())
    for silent, expected in (
        (0, "busy"),
        (3 * SECOND - 1, "busy"),
        (3 * SECOND, "offline"),
        (DAY, "offline"),
    ):
        assert status_of(StoredEntry(entry=entry, revision=1, heard_at=NOW - silent), NOW) == expected


def test_nobody_is_heard_in_the_future() -> None:
    entry = read_entry(json.dumps(TOLD | {"lastHeartbeat": to_iso(NOW + DAY)}).encode())
    assert get_last_heartbeat(entry, None, NOW) == NOW
    assert get_last_heartbeat(entry, NOW - 5, NOW) == NOW - 5
    assert get_last_heartbeat(msgspec.structs.replace(entry, last_heartbeat=""), None, NOW) == 0


def test_a_beat_and_a_change_touch_only_their_own() -> None:
    entry = make_entry(read_entry(json.dumps(TOLD).encode()), None, NOW)
    beat = record_heartbeat(NOW + SECOND, AgentStatus.BUSY, 2)
    change = apply_changes(EntryChanges(handle="anna", capabilities=("dig",)), NOW)
    one, other = beat(change(entry)), change(beat(entry))
    assert one.handle == other.handle == "anna"
    assert one.status == other.status == AgentStatus.BUSY
    assert one.current_task_count == other.current_task_count == 2
    assert (
        record_heartbeat(NOW)(msgspec.structs.replace(entry, status=AgentStatus.OFFLINE)).status
        is AgentStatus.ONLINE
    )


def test_an_agent_keeps_the_day_it_was_first_there() -> None:
    entry = read_entry(json.dumps(TOLD).encode())
    first = make_entry(entry, None, NOW)
    assert make_entry(entry, first, NOW + DAY).registered_at == first.registered_at == to_iso(NOW)


def test_identities_are_stable_and_apart() -> None:
    assert root_guid("host", "/a") == root_guid("host", "/a") != root_guid("host", "/b")
    assert len({root_guid("h", "/a"), root_guid("h/", "a"), sub_guid("h", "/a"), sub_guid("h", "/b")}) >= 3
    assert len(root_guid("h", "p")) == 32
    assert AgentEntry(guid="g", handle="h", agent_type="t").max_concurrent_tasks == 1
