"""Jobs over HTTP: made once, listed, looked at, taken away; each answer as the document describes it."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from holdfast.client.registering import COUNTED
from holdfast.model import canonical
from holdfast.model.append import Extras
from holdfast.model.events import LlmRequested
from holdfast.model.hash_chain import GENESIS, chain
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.model.worker_presence import Presence
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api

pytestmark = pytest.mark.store("sqlite")

ODD_IDS = ["a/b", "..", "ü ?#%", "x" * 200]


async def test_a_job_is_made_once(backend: Backend) -> None:
    async with api(backend) as web:
        new = {"kind": "refund", "input": {"order": 1}, "priority": 7, "queue": "fast"}
        first = await web.ask("POST", "/api/jobs", new, idempotency_key="k1")
        again = await web.ask("POST", "/api/jobs", new, idempotency_key="k1")
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() | {"created": False} == again.json()
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        job = await web.get(first.headers["location"])
        assert (job["input"], job["priority"], job["queue"]) == ({"order": 1}, 7, "fast")
        before = await web.picture()
        problem = await web.refused(
            409, "key_reused", "POST", "/api/jobs", new | {"input": 2}, idempotency_key="k1"
        )
        assert problem["details"]["stored"] != problem["details"]["sent"]
        assert await web.picture() == before


async def test_a_job_with_an_id_is_made_once(backend: Backend) -> None:
    async with api(backend) as web:
        new = {"kind": "refund", "id": "ticket-81"}
        assert await web.post("/api/jobs", new) == {"job_id": "ticket-81", "created": True}
        assert await web.post("/api/jobs", new) == {"job_id": "ticket-81", "created": False}
        await web.refused(409, "key_reused", "POST", "/api/jobs", new | {"kind": "other"})


async def test_of_many_who_send_one_request_all_get_one_job(backend: Backend) -> None:
    async with api(backend) as web:
        new = {"kind": "refund"}
        said = await asyncio.gather(*(web.post("/api/jobs", new, idempotency_key="k") for _ in range(20)))
        assert len({one["job_id"] for one in said}) == 1
        assert sum(one["created"] for one in said) == 1


@pytest.mark.parametrize("job_id", ODD_IDS)
async def test_an_id_may_have_any_character(backend: Backend, job_id: str) -> None:
    async with api(backend) as web:
        await web.post("/api/jobs", {"kind": "refund", "id": job_id})
        where = "/api/jobs/" + quote(job_id, safe="").replace(".", "%2E")
        assert (await web.get(where))["job_id"] == job_id
        assert (await web.post(where + "/stop", {}))["job_id"] == job_id


async def test_jobs_are_listed_in_pages(backend: Backend) -> None:
    async with api(backend) as web:
        made = [(await web.post("/api/jobs", {"kind": f"k{n % 2}"}))["job_id"] for n in range(5)]
        found: list[str] = []
        query = "?limit=2"
        while True:
            page = await web.get(f"/api/jobs{query}")
            found += [one["job_id"] for one in page["items"]]
            if page["next"] is None:
                break
            query = f"?limit=2&cursor={page['next']}"
        assert found == made[::-1]
        kinds = (await web.get("/api/jobs?kind=k1"))["items"]
        assert [one["job_id"] for one in kinds] == [made[3], made[1]]
        await web.post(f"/api/jobs/{made[0]}/stop", {})
        cancelled = (await web.get("/api/jobs?status=CANCELLED"))["items"]
        assert [one["job_id"] for one in cancelled] == made[:1]
        assert (await web.get("/api/jobs?session_id=none"))["items"] == []


async def test_a_read_waits_for_the_end_of_a_job(backend: Backend) -> None:
    async with api(backend) as web, web.one.running() as (job_id, run):
        assert (await web.get(f"/api/jobs/{job_id}?wait_ms=1"))["status"] == "running"
        waiting = asyncio.create_task(web.get(f"/api/jobs/{job_id}?wait_ms=30000"))
        assert (await web.post(f"/api/jobs/{job_id}/stop", {"by": "ada"}))["at_once"] is False
        run.poke()
        assert (await waiting)["status"] == "cancelled"


async def test_a_finished_job_has_its_output_its_events_and_its_life(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.finished()
        job = await web.get(f"/api/jobs/{job_id}")
        assert (job["status"], job["output"]["then"]) == ("completed", "AFTER")
        events = await web.get(f"/api/jobs/{job_id}/events")
        assert [one["seq"] for one in events["items"]] == list(range(1, job["events"] + 1))
        assert events["next"] is None
        part = await web.get(f"/api/jobs/{job_id}/events?after=1&limit=2")
        assert (part["items"], part["next"]) == (events["items"][1:3], 3)
        assert (await web.get(f"/api/jobs/{job_id}/events?after=999"))["items"] == []
        trace = await web.get(f"/api/jobs/{job_id}/trace")
        assert "send_report" in {span["name"] for span in trace["spans"]}
        assert (await web.get(f"/api/jobs/{job_id}/verify"))["violations"] == []


async def test_a_reader_that_has_it_is_told_so(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.finished()
        sleeping = await web.one.sleeping()
        for where in ("", "/events", "/trace"):
            path = f"/api/jobs/{job_id}{where}"
            tag = (await web.ask("GET", path)).headers["etag"]
            again = await web.ask("GET", path, if_none_match=f'"other", W/{tag}')
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
            assert (await web.ask("GET", path, if_none_match='"other"')).status_code == 200
        for where in ("", "/events"):
            path = f"/api/jobs/{sleeping}{where}"
            tag = (await web.ask("GET", path)).headers["etag"]
            assert (await web.ask("GET", path, if_none_match=tag)).status_code == 304
            await web.post(f"/api/jobs/{sleeping}/stop", {}) if where == "" else None
            status = (await web.ask("GET", path, if_none_match=tag)).status_code
            assert status == (200 if where == "" else 304)


async def test_an_export_can_be_checked_by_anybody(backend: Backend) -> None:
    """The chain is recomputed from the lines alone, and the blobs from their bytes."""
    async with api(backend) as web:
        part = canonical.encode({"role": "user", "content": "hello"})
        job_id = (await web.one.store.jobs.submit(JobDraft(kind="chat", input="\ud800"))).job_id
        driver = Driver(web.one.store, web.one.clock, (await web.one.claim()).grant)
        asked = LlmRequested("0/ask#1", "m", (canonical.hex_digest(part),), "d")
        await driver.write(asked, extras=Extras(blobs=(part,)))
        response = await web.ask("GET", f"/api/jobs/{job_id}/export")
        lines = [json.loads(line) for line in response.text.splitlines()]
        first, *middle, last = lines
        assert (first["what"], last["what"]) == ("job", "end")
        previous = GENESIS
        for line in (line for line in middle if line["what"] == "event"):
            digest = canonical.digest(canonical.encode(line["body"]))
            place = (line["seq"], line["type"], line["version"], line["fence"], line["at"])
            previous = chain(previous, digest, job_id, *place)
            assert (digest.hex(), previous.hex()) == (line["body_digest"], line["hash"])
        assert previous.hex() == first["head_hash"] == last["head_hash"]
        (blob,) = [line for line in middle if line["what"] == "blob"]
        assert canonical.hex_digest(base64.b64decode(blob["base64"])) == blob["digest"]


async def test_a_fork_is_made_once(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.finished()
        where = f"/api/jobs/{job_id}/fork"
        step = next(
            one["step_key"]
            for one in (await web.get(f"/api/jobs/{job_id}/trace"))["spans"]
            if one["name"] == "send_report"
        )
        made = await web.ask("POST", where, {"at": step}, idempotency_key="f1")
        again = await web.ask("POST", where, {"at": step}, idempotency_key="f1")
        assert (made.status_code, again.status_code) == (201, 200)
        assert made.json()["job_id"] == again.json()["job_id"] != job_id
        await web.refused(409, "key_reused", "POST", where, {"at": 2}, idempotency_key="f1")
        await web.refused(404, "not_found", "POST", where, {"at": "0/nothing#1"})
        await web.refused(404, "not_found", "POST", "/api/jobs/nobody/fork", {"at": 1})


async def test_what_text_may_have_in_it_comes_back(backend: Backend) -> None:
    async with api(backend) as web:
        given: Any = {"lone": "\ud800", "nul": "\x00", "deep": json.loads("[" * 50 + "]" * 50), "one": 1.0}
        job_id = (await web.post("/api/jobs", {"kind": "k", "input": given}))["job_id"]
        assert (await web.get(f"/api/jobs/{job_id}"))["input"] == given
        assert (await web.get(f"/api/jobs/{job_id}/events"))["items"][0]["body"]["input"] == given


@pytest.mark.parametrize("where", ["", "/events", "/trace", "/verify", "/export", "/stream"])
async def test_a_job_that_is_not_there_is_not_found(backend: Backend, where: str) -> None:
    async with api(backend) as web:
        await web.refused(404, "not_found", "GET", f"/api/jobs/nobody{where}")


async def test_numbers_of_jobs(backend: Backend) -> None:
    async with api(backend) as web:
        await web.one.sleeping()
        await web.one.store.namespaces.create("other")
        await web.one.store.jobs.submit(JobDraft(kind="elsewhere", namespace="other"))
        totals = {"jobs": 1, str(Status.WAITING): 1} | dict.fromkeys(COUNTED, 0)
        assert await web.get("/api/stats") == {"totals": totals, "byProject": {}}


async def test_workers_are_those_who_say_so(backend: Backend) -> None:
    async with api(backend) as web:
        assert (await web.get("/api/workers"))["items"] == []
        await web.one.store.presences.beat(Presence(worker="ant", identity="i", host="hill", pid=17))
        async with web.one.running():
            (ant,) = (await web.get("/api/workers"))["items"]
            assert (ant["worker"], ant["state"], ant["holds"], ant["pid"]) == ("ant", "here", 1, 17)


async def test_a_job_of_another_namespace_is_not_there(backend: Backend) -> None:
    async with api(backend) as web:
        await web.one.store.namespaces.create("other")
        draft = JobDraft(kind="k", namespace="other", job_id="theirs")
        await web.one.store.jobs.submit(draft)
        for method, where in _of_a_job():
            await web.refused(404, "not_found", method, f"/api/jobs/theirs{where[0]}", *where[1:])
        assert (await web.get("/api/jobs"))["items"] == []


def _of_a_job() -> list[tuple[str, tuple[Any, ...]]]:
    reads = [("GET", (where,)) for where in ("", "/events", "/trace", "/verify", "/export", "/stream")]
    bodies: dict[str, Any] = {
        "/stop": {},
        "/signal": {"name": "n"},
        "/answer": {"answer": 1},
        "/resume": {},
        "/raise": {"limits": {}, "by": "ada"},
        "/fork": {"at": 1},
        "/steps/0%2Fpay%231/reconcile": {"decision": "skip", "why": "w", "by": "ada"},
    }
    return [*reads, *(("POST", (where, body)) for where, body in bodies.items())]


async def test_health_says_what_the_store_survives(backend: Backend) -> None:
    async with api(backend) as web:
        for where in ("/health", "/health/ready"):
            assert (await web.get(where))["tier"] == "sqlite"
        assert (await web.get("/health/live"))["status"] == "ok"
        await web.one.store.close()
        state = (await web.ask("GET", "/health/ready")).json()
        assert (state["status"], (await web.ask("GET", "/health")).status_code) == ("unavailable", 503)
        assert (await web.get("/health/live"))["status"] == "ok"
