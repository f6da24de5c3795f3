"""The feed: what happens to work and to agents, as it happens, and what was missed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.model.time import DAY, MINUTE
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api

pytestmark = pytest.mark.store("sqlite")

ANT = {"guid": "ant-1", "handle": "ant", "agentType": "t", "capabilities": ["dig"]}


async def listen(web: Api, last: str | None = None) -> AsyncGenerator[tuple[str, str, Any], None]:
    """Name, id and data of each event; comments are events, too."""
    headers = {} if last is None else {"last-event-id": last}
    async with web.http.stream("GET", "/api/feed", headers=headers) as response:
        assert response.status_code == 200
        name = named = ""
        async for line in response.aiter_lines():
            head, _, value = line.partition(": ")
            if head == "event":
                name = value
            elif head == "id":
                named = value
            elif head == "data":
                yield name, named, json.loads(value)
            elif line.startswith(":"):
                yield line, "", None


async def until(events: AsyncGenerator[tuple[str, str, Any], None], name: str) -> tuple[str, Any]:
    async for found, named, data in events:
        if found == name:
            return named, data
    raise AssertionError(f"{name} was not told")


async def held(web: Api) -> tuple[str, dict[str, Any]]:
    """Work that the ant holds, and what it says with."""
    work_id = (await web.post("/api/work", {"description": "x", "capability": "dig"}))["id"]
    (item,) = (await web.post("/api/work/claim", {"guid": "ant-1"}))["items"]
    return f"/api/work/{work_id}", {"fence": item["fence"], "leaseToken": item["leaseToken"]}


async def test_work_is_told_as_it_goes_and_again_from_the_last_id(backend: Backend) -> None:
    async with api(backend) as web:
        await web.post("/api/agents/register", ANT)
        await web.post("/api/work", {"description": "before", "capability": "other"})
        async with aclosing(listen(web)) as events:
            await until(events, ": listening")
            web.one.clock.advance(MINUTE)
            where, said = await held(web)
            named, submitted = await until(events, "work:submitted")
            assert submitted["capability"] == "dig", "what was there before is not news"
            assert where.endswith(submitted["id"])
            await until(events, "work:assigned")
            web.one.clock.advance(MINUTE)
            await web.post(f"{where}/progress", said | {"progress": 30, "note": "deep"})
            _, progress = await until(events, "work:progress")
            assert (progress["progress"], progress["note"], progress["assignedTo"]) == (30, "deep", "ant-1")
            await web.post(f"{where}/complete", said)
            await until(events, "work:completed")
        async with aclosing(listen(web, last=named)) as again:
            told = []
            async for name, _, data in again:
                if not name.startswith(":"):
                    told.append((name, data["seq"]))
                if name == "work:completed":
                    break
        assert [name for name, _ in told] == ["work:progress", "work:completed"], (
            "what came after that instant"
        )


async def test_agents_are_told_when_they_change(backend: Backend) -> None:
    async with api(backend) as web, aclosing(listen(web)) as events:
        await until(events, ": listening")
        await web.post("/api/agents/register", ANT)
        _, entry = await until(events, "agent:registered")
        assert entry["guid"] == "ant-1"
        await web.post("/api/agents/ant-1/heartbeat", {})
        await web.ask("PATCH", "/api/agents/ant-1", {"handle": "anna"})
        _, entry = await until(events, "agent:updated")
        assert entry["handle"] == "anna"
        web.one.clock.advance(3 * MINUTE)
        await until(events, "agent:offline")
        web.one.clock.advance(DAY)
        _, entry = await until(events, "agent:removed")
        assert entry["guid"] == "ant-1"


async def test_an_id_that_is_none_is_refused(backend: Backend) -> None:
    async with api(backend) as web:
        for asked, headers in (("/api/feed?after=x", {}), ("/api/feed", {"Last_Event_ID": "-5.a.1"})):
            problem = await web.refused(422, "invalid_payload", "GET", asked, **headers)
            assert "does not belong to this feed" in problem["detail"]
