"""Goal: seed 003 by name, its six checks and the restart that it left to hands, 7 of 7. Method: the API and an agent as
real processes; agents written straight into the registry by somebody else's client, with a real nats-server and with
the store alone; kill -9 of the server that keeps the registry."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest

from holdfast.model.agent_registry import AgentEntry, read_entry
from holdfast.model.ids import RandomIds
from holdfast.model.time import to_iso
from holdfast.registry.bucket import BUCKET
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from tests.support.deployment.receivers import Outside, serving
from tests.support.deployment.stage import Stage
from tests.support.servers import NatsServer

pytestmark = [
    pytest.mark.parametrize("lane", ["nats", "store"]),
    pytest.mark.store("sqlite"),
    pytest.mark.timeout(200),
]

WITHIN_S = 2.0
PATIENCE_S = 60.0


class Registry(Stage):
    """A deployment, and whoever keeps its registry."""

    def __init__(self, folder: Path, outside: Outside, server: NatsServer | None) -> None:
        super().__init__(folder, f"sqlite:///{folder / 'holdfast.db'}", outside)
        self.server = server

    @property
    def environment(self) -> dict[str, str]:
        url = {} if self.server is None else {"HOLDFAST_NATS_URL": self.server.url}
        return {**super().environment, **url}

    def write(self, **told: Any) -> dict[str, Any]:
        """An entry, written past the API by another client; and as it is read back there."""
        fields = {"agentType": "fail-test", "capabilities": ["fail-capability"], "status": "online", **told}
        fields.setdefault("lastHeartbeat", to_iso(SystemClock().wall_us()))
        return asyncio.run(self._write_to_bucket(fields) if self.server else self._write_to_store(fields))

    async def _write_to_bucket(self, fields: dict[str, Any]) -> dict[str, Any]:
        assert self.server is not None
        async with await nats.connect(self.server.url) as client:
            bucket = await client.jetstream().key_value(BUCKET)
            await bucket.put(fields["guid"], json.dumps(fields).encode())
            value = (await bucket.get(fields["guid"])).value
            assert value is not None
            read: dict[str, Any] = json.loads(value)
            return read

    async def _write_to_store(self, fields: dict[str, Any]) -> dict[str, Any]:
        store = await open_store(self.store, clock=SystemClock(), ids=RandomIds())
        try:
            known = await store.entries.get(fields["guid"])
            entry = read_entry(json.dumps(fields).encode())
            await store.entries.put(entry, over=0 if known is None else known.revision)
            seen = await store.entries.get(fields["guid"])
            assert seen is not None
            return _camel(seen.entry)
        finally:
            await store.close()

    def agents(self) -> dict[str, Any]:
        return {one["guid"]: one for one in self.ask("GET", "/api/agents")["agents"]}

    def log(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("serve-*.log")))


def _camel(entry: AgentEntry) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(entry)
    return told


def until(holds: Callable[[], Any], within_s: float = PATIENCE_S) -> float:
    """It holds; and how long that took."""
    pause, begun = threading.Event(), time.monotonic()
    while not holds():
        assert time.monotonic() - begun < within_s, f"not within {within_s:g} s"
        pause.wait(0.05)
    return time.monotonic() - begun


@pytest.fixture
def stage(lane: str, tmp_path: Path) -> Iterator[Registry]:
    with serving() as outside:
        server = NatsServer() if lane == "nats" else None
        if server is not None:
            server.start()
        made = Registry(tmp_path, outside, server)
        try:
            made.serve()
            until(lambda: made.ask("GET", "/health")["status"] == "ok")
            yield made
        finally:
            made.close()
            if server is not None:
                server.stop()


# ── REQ-FAIL-001 to 006 ───────────────────────────────────────────────────────────────────────────


@pytest.mark.seed("003", check="agent_state_is_read_from_the_registry")
def test_req_fail_001_an_agent_written_past_the_api_is_listed(stage: Registry) -> None:
    stage.write(guid="fail-agent-1", handle="failer")
    until(lambda: "fail-agent-1" in stage.agents(), WITHIN_S)
    assert stage.agents()["fail-agent-1"]["handle"] == "failer"
    stage.kill(stage.api)
    stage.serve()
    until(lambda: "fail-agent-1" in stage.agents(), WITHIN_S + 2)


@pytest.mark.seed("003", check="work_state_is_consistent_across_requests")
def test_req_fail_002_work_is_there_in_the_next_request_and_after_a_restart(stage: Registry) -> None:
    asked = {"description": "a test", "boundary": "personal", "capability": "general", "priority": 5}
    made = stage.ask("POST", "/api/work", asked)
    assert made["id"] == made["workItemId"]
    assert stage.ask("GET", f"/api/work/{made['id']}")["status"] == "pending"
    stage.kill(stage.api)
    stage.serve()
    assert stage.ask("GET", f"/api/work/{made['id']}") == made, "what upstream keeps in memory"


@pytest.mark.seed("003", check="registry_data_persists")
def test_req_fail_003_what_is_written_is_read_back(stage: Registry) -> None:
    beat = to_iso(SystemClock().wall_us())
    read = stage.write(guid="fail-agent-3", handle="third", lastHeartbeat=beat, currentTaskCount=3)
    assert (read["lastHeartbeat"], read["currentTaskCount"]) == (beat, 3)
    until(lambda: "fail-agent-3" in stage.agents(), WITHIN_S)
    listed = stage.agents()["fail-agent-3"]
    assert (listed["lastHeartbeat"], listed["currentTaskCount"]) == (beat, 3)


@pytest.mark.seed("003", check="health_check_is_operational")
def test_req_fail_004_health_says_ok_and_when(stage: Registry) -> None:
    said = stage.ask("GET", "/health")
    assert said["status"] == "ok"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*Z", said["timestamp"])


@pytest.mark.seed("003", check="multiple_agents_are_tracked_at_once")
def test_req_fail_005_two_agents_are_seen_and_leave(stage: Registry) -> None:
    for nth in (1, 2):
        stage.write(guid=f"multi-{nth}", handle=f"multi {nth}")
        until(lambda nth=nth: f"multi-{nth}" in stage.agents(), 1.5)  # type: ignore[misc]
    assert {"multi-1", "multi-2"} <= set(stage.agents())
    for nth in (1, 2):
        stage.write(guid=f"multi-{nth}", handle=f"multi {nth}", status="offline")
    until(lambda: {stage.agents()[f"multi-{nth}"]["status"] for nth in (1, 2)} == {"offline"}, WITHIN_S)


@pytest.mark.seed("003", check="stats_reflect_the_current_state")
def test_req_fail_006_numbers_are_exact(stage: Registry) -> None:
    before = stage.ask("GET", "/api/stats")
    assert before["totals"]["agents"] == 0
    for nth in range(3):
        stage.write(guid=f"s{nth}", handle=f"s{nth}", projectId=("one", "two")[nth % 2])
    stage.ask("POST", "/api/work", {"description": "x", "capability": "c", "projectId": "two"})
    until(lambda: len(stage.agents()) == 3, WITHIN_S)
    after = stage.ask("GET", "/api/stats")
    assert (after["totals"]["agents"], after["totals"]["pendingWork"]) == (3, 1)
    assert (after["byProject"]["one"]["agents"], after["byProject"]["two"]["agents"]) == (2, 1)
    assert after["byProject"]["two"]["pendingWork"] == 1


# ── the one that was manual ───────────────────────────────────────────────────────────────────────


@pytest.mark.seed("003", check="the_server_of_the_registry_is_restarted")
def test_manual_the_registry_goes_away_and_comes_back(stage: Registry, lane: str) -> None:
    """With NATS: kill -9 of nats-server, down for a while, back. The API says that it is degraded, logs every attempt,
    lists what it last knew; work is submitted, claimed and kept meanwhile; afterwards the registry is intact, what is
    written then is listed, and work in progress was judged again. With the store alone there is no such server: the API
    is what is killed, and everything is there again."""
    stage.write(guid="survivor", handle="survivor", maxConcurrentTasks=5, agentType="t", capabilities=["c"])
    until(lambda: "survivor" in stage.agents(), WITHIN_S)
    held = stage.ask("POST", "/api/work", {"description": "held", "capability": "c"})["id"]
    claim = {"guid": "survivor", "leaseSeconds": 600}
    (item,) = stage.ask("POST", "/api/work/claim", claim)["items"]
    assert item["id"] == held
    said = {"fence": item["fence"], "leaseToken": item["leaseToken"]}
    if lane == "nats":
        _restart_nats(stage, held, said)
    else:
        stage.kill(stage.api, signal.SIGKILL)
        stage.serve()
    assert "survivor" in stage.agents(), "the registry is intact"
    stage.write(guid="afterwards", handle="afterwards")
    until(lambda: "afterwards" in stage.agents(), WITHIN_S)
    assert stage.ask("GET", f"/api/work/{held}")["assignedTo"] == "survivor"
    assert stage.ask("POST", f"/api/work/{held}/complete", said | {"result": 1})["status"] == "completed"


def _restart_nats(stage: Registry, held: str, said: dict[str, Any]) -> None:
    assert stage.server is not None
    stage.server.kill()
    until(lambda: stage.ask("GET", "/health")["status"] == "degraded")
    assert stage.ask("GET", "/health/ready")["status"] != "unavailable"
    page = stage.ask("GET", "/api/agents")
    assert [one["guid"] for one in page["agents"]] == ["survivor"], "the last known state"
    assert page["registry"]["staleSince"] is not None
    meanwhile = stage.ask("POST", "/api/work", {"description": "meanwhile", "capability": "c"})["id"]
    assert stage.ask("GET", f"/api/work/{meanwhile}")["status"] == "pending"
    (taken,) = stage.ask("POST", "/api/work/claim", {"guid": "survivor"})["items"]
    assert taken["id"] == meanwhile, "work does not wait for the registry"
    right = {"fence": taken["fence"], "leaseToken": taken["leaseToken"]}
    assert stage.ask("POST", f"/api/work/{meanwhile}/complete", right)["status"] == "completed"
    stage.ask("POST", f"/api/work/{held}/renew", said | {"leaseSeconds": 600})
    until(lambda: len(re.findall(r"attempt|trying|reconnect", stage.log(), re.IGNORECASE)) >= 3)
    stage.server.restart(keep_data=True)
    until(lambda: stage.ask("GET", "/health")["status"] == "ok")
    until(lambda: "work in progress: 1 kept by their agents" in stage.log())
