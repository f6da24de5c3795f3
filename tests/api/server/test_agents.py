"""Agents over HTTP: created once, written to once under a key, refused without a trace."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.worker_presence import Presence, SessionKind, WorkerOffer
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api

pytestmark = pytest.mark.store("sqlite")

HELPER = {"name": "helper", "model": "anthropic:x", "instructions": "Be brief.", "tools": ["lookup"]}


async def test_an_agent_is_created_once(backend: Backend) -> None:
    async with api(backend) as web:
        first = await web.ask("POST", "/api/agents", HELPER)
        again = await web.ask("POST", "/api/agents", HELPER)
        assert (first.status_code, again.status_code) == (201, 200)
        assert again.headers["idempotency-replayed"] == "true"
        assert first.json() == again.json()
        made = first.json()
        assert first.headers["location"] == f"/api/agents/{made['agent_id']}"
        assert made["configuration"] == {
            "model": "anthropic:x",
            "instructions": "Be brief.",
            "tools": ["lookup"],
            "context_tokens_max": None,
        }
        assert await web.get("/api/agents/helper") == made == await web.get(first.headers["location"])
        await web.refused(409, "conflict", "POST", "/api/agents", {"name": "helper"})
        assert (await web.get("/api/agents"))["items"] == [made]


async def test_a_key_of_an_agent_is_its_own(backend: Backend) -> None:
    async with api(backend) as web:
        first = await web.ask("POST", "/api/agents", HELPER, Idempotency_Key="k-1")
        again = await web.ask("POST", "/api/agents", HELPER, Idempotency_Key="k-1")
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        other = HELPER | {"name": "other"}
        await web.refused(409, "conflict", "POST", "/api/agents", other, Idempotency_Key="k-1")
        assert len((await web.get("/api/agents"))["items"]) == 1
        assert (await web.ask("POST", "/api/agents", other, Idempotency_Key="k-2")).status_code == 201


@pytest.mark.parametrize(
    "wrong, status, code",
    [
        ({}, 422, "invalid_payload"),
        ({"name": ""}, 422, "invalid_name"),
        ({"name": "a", "modle": "x"}, 422, "invalid_payload"),
        ({"name": "a", "model": "hal:9000"}, 422, "invalid_payload"),
        ({"name": "a", "tools": ["x"] * 129}, 422, "invalid_payload"),
        ({"name": "a", "tools": ["x", "x"]}, 422, "invalid_payload"),
        ({"name": "a", "context_tokens_max": 0}, 422, "invalid_payload"),
    ],
)
async def test_an_agent_that_makes_no_sense_leaves_nothing(
    backend: Backend, wrong: Any, status: int, code: str
) -> None:
    async with api(backend) as web:
        await web.refused(status, code, "POST", "/api/agents", wrong)
        assert (await web.get("/api/agents"))["items"] == []


async def test_a_message_is_accepted_once_under_its_key(backend: Backend) -> None:
    async with api(backend) as web:
        agent = await web.post("/api/agents", {"name": "helper"})
        where, said = "/api/agents/helper/message", {"text": "hello"}
        first = await web.ask("POST", where, said, Idempotency_Key="m-1")
        again = await web.ask("POST", where, said, Idempotency_Key="m-1")
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json()["job_id"] == again.json()["job_id"]
        assert first.json()["session_id"] == agent["agent_id"] == first.json()["agent_id"]
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert first.headers["location"] == f"/api/jobs/{first.json()['job_id']}"
        before = await web.picture()
        for other in ({"text": "goodbye"}, {"content": ["hello"]}, said | {"session_id": "s1"}):
            problem = await web.refused(409, "key_reused", "POST", where, other, Idempotency_Key="m-1")
            assert problem["details"].keys() >= {"stored", "sent"}
        assert await web.picture() == before
        jobs = (await web.get("/api/agents/helper/jobs"))["items"]
        assert [job["job_id"] for job in jobs] == [first.json()["job_id"]]
        assert jobs[0]["request_key"] == "m-1"


@pytest.mark.parametrize(
    "wrong, status, code",
    [
        ({}, 422, "invalid_payload"),
        ({"text": "a", "content": "b"}, 422, "invalid_payload"),
        ({"text": 7}, 422, "invalid_payload"),
        ({"text": "a", "slot": "sideways"}, 422, "invalid_payload"),
        ({"text": "a", "delivery": "now"}, 422, "invalid_payload"),
        ({"text": "a", "session_id": ""}, 422, "invalid_name"),
        ({"text": "a", "id": "\x07"}, 422, "invalid_name"),
    ],
)
async def test_a_message_that_makes_no_sense_leaves_nothing(
    backend: Backend, wrong: Any, status: int, code: str
) -> None:
    async with api(backend) as web:
        await web.post("/api/agents", {"name": "helper"})
        before = await web.picture()
        await web.refused(status, code, "POST", "/api/agents/helper/message", wrong)
        await web.refused(404, "not_found", "POST", "/api/agents/nobody/message", {"text": "a"})
        assert await web.picture() == before


async def test_code_that_a_worker_has_is_an_agent(backend: Backend) -> None:
    async with api(backend) as web:
        offer = WorkerOffer(sessions=(SessionKind(name="a/b", queue="talk", priority=2),))
        await web.one.store.presences.beat(Presence(worker="ant", identity="i", offer=offer))
        (agent,) = (await web.get("/api/agents"))["items"]
        assert (agent["name"], agent["declared"], agent["configuration"]) == ("a/b", True, None)
        posted = await web.post("/api/agents/a%2Fb/message", {"text": "hello", "slot": "exclusive"})
        assert posted["session_id"] == "agent:a/b"
        (batch,) = (await web.get("/api/sessions/agent:a%2Fb/inbox"))["items"]
        assert (batch["slot"], batch["job_id"]) == ("exclusive", posted["job_id"])
        job = await web.get(f"/api/jobs/{posted['job_id']}")
        assert (job["kind"], job["queue"], job["priority"]) == ("a/b", "talk", 2)
