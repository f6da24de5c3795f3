"""Sessions over HTTP: the graph and its path, and a queue whose batches are taken back or not."""

from __future__ import annotations

import pytest

from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api
from tests.support.fixtures.populated import populate

pytestmark = pytest.mark.store("sqlite")

INBOX = "/api/sessions/s1/inbox"
NEW = {"items": [{"kind": "turn_input", "payload": {"text": "hello"}}], "slot": "join"}


async def test_a_session_shows_its_graph_and_what_it_used(backend: Backend) -> None:
    async with api(backend) as web:
        await web.refused(404, "not_found", "GET", "/api/sessions/s1")
        await populate(web.one.store, web.one.clock)
        session = await web.get("/api/sessions/s1")
        assert [node["node_id"] for node in session["nodes"]] == ["n1", "n2"]
        assert (session["active_path"], session["leaf_node_id"]) == (["n1", "n2"], "n2")
        assert (session["usage"][0]["input_tokens"], session["turn_index"]) == (3, 1)
        assert session["frames"][0]["frame_id"] == session["frame_id"] == "f1"
        short = await web.get("/api/sessions/s1?graph=none")
        assert (short["nodes"], short["active_path"]) == ([], ["n1", "n2"])
        tag = (await web.ask("GET", "/api/sessions/s1")).headers["etag"]
        assert (await web.ask("GET", "/api/sessions/s1", if_none_match=tag)).status_code == 304


async def test_a_batch_is_queued_once(backend: Backend) -> None:
    async with api(backend) as web:
        first = await web.ask("POST", INBOX, NEW, idempotency_key="m1")
        again = await web.ask("POST", INBOX, NEW, idempotency_key="m1")
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        other = {"items": [{"kind": "turn_input", "payload": {"text": "bye"}}], "slot": "join"}
        problem = await web.refused(409, "key_reused", "POST", INBOX, other, idempotency_key="m1")
        assert set(problem["details"]) == {"stored", "sent"}
        await web.post(INBOX, NEW)
        await web.post(INBOX, NEW)
        assert len((await web.get(INBOX))["items"]) == 3


async def test_a_batch_is_taken_back_while_nobody_has_it(backend: Backend) -> None:
    async with api(backend) as web:
        batch = (await web.post(INBOX, NEW))["batch_id"]
        gone = (await web.ask("DELETE", f"{INBOX}/{batch}")).json()
        assert (gone["state"], gone["items"][0]["payload"]) == ("cancelled", {"text": "hello"})
        again = await web.ask("DELETE", f"{INBOX}/{batch}")
        assert (again.status_code, again.json()["state"]) == (200, "cancelled")
        assert (await web.get(INBOX))["items"] == []
        await web.refused(404, "not_found", "DELETE", f"{INBOX}/nothing")
        await populate(web.one.store, web.one.clock)
        await web.refused(409, "invalid_move", "DELETE", f"{INBOX}/b1")
