"""A job as it was at any event, a call whole, and what a fork would have of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from holdfast.model import canonical
from holdfast.model.append import Extras
from holdfast.model.events import LlmRequested, LlmResponded, StepFinished
from holdfast.model.jobs import JobDraft
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api
from tests.support.fixtures.stores import STORES

USED = {"input": 3, "output": 1, "usd_micros": 40}


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_job_is_shown_as_it_was_at_every_event(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.finished()
        whole = await web.get(f"/api/jobs/{job_id}/trace")
        events = (await web.get(f"/api/jobs/{job_id}/events"))["items"]
        last = events[-1]["seq"]
        assert await web.get(f"/api/jobs/{job_id}/trace?seq={last}") == whole
        for event in events[:-1]:
            then = await web.get(f"/api/jobs/{job_id}/trace?seq={event['seq']}")
            assert (then["over"], then["end_at"]) == (False, event["at"])
            assert [one["seq"] for one in then["seams"]] == [
                one["seq"] for one in whole["seams"] if one["seq"] <= event["seq"]
            ]
            ended = {one["step_key"] for one in then["spans"] if one["end_at"] is not None}
            assert ended == {one["step_key"] for one in whole["spans"] if one["end_seq"] <= event["seq"]}, (
                "the slider needs no more than the whole trace"
            )
        statuses = [(await web.get(f"/api/jobs/{job_id}/trace?seq={n}"))["status"] for n in (1, 2, last)]
        assert statuses == ["pending", "running", "completed"]
        await web.refused(404, "not_found", "GET", f"/api/jobs/{job_id}/trace?seq={last + 1}")
        await web.refused(422, "invalid_payload", "GET", f"/api/jobs/{job_id}/trace?seq=0")


async def test_a_trace_without_bodies_has_all_but_them(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.finished()
        whole = await web.get(f"/api/jobs/{job_id}/trace")
        bare = await web.get(f"/api/jobs/{job_id}/trace?bodies=none")
        assert any(one["args"] or one["result"] for one in whole["spans"])
        empty: dict[str, Any] = {"args": None, "result": None, "error": None}
        assert bare == whole | {"spans": [one | empty for one in whole["spans"]]}


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_an_uncertain_call_is_shown_whole(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.uncertain()
        step = await web.get(f"/api/jobs/{job_id}/steps/{quote('0/pay#1', safe='')}")
        assert (step["span"]["outcome"], step["span"]["name"]) == ("uncertain", "pay")
        assert (step["ledger"]["status"], step["ledger"]["args_digest"]) == ("uncertain", step["args_digest"])
        assert [one["type"] for one in step["events"]][:2] == ["tool_called", "tool_uncertain"]
        assert step["request"] is None
        await web.refused(404, "not_found", "GET", f"/api/jobs/{job_id}/steps/0%2Fnothing%231")
        await web.refused(404, "not_found", "GET", f"/api/jobs/{job_id}/steps/0%2Fpay%231?generation=7")


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_request_to_a_model_is_read_from_where_it_is_kept(backend: Backend) -> None:
    """The second request begins with the first: its own event lists what is new, and the answer shows all of it."""
    async with api(backend) as web:
        job_id = await conversation(web)
        first = await web.get(f"/api/jobs/{job_id}/steps/{quote('0/ask#1', safe='')}")
        second = await web.get(f"/api/jobs/{job_id}/steps/{quote('0/ask#2', safe='')}")
    assert first["request"] == {
        "model": "m",
        "settings": {"max": 9},
        "messages": [{"role": "user", "content": "hello"}],
        "follows": "",
    }
    assert [one["content"] for one in second["request"]["messages"]] == ["hello", "hi", "<b>bye</b>"]
    assert second["span"]["usage"] == USED
    assert [one["type"] for one in second["events"]] == ["llm_requested", "llm_responded"]


async def conversation(web: Api) -> str:
    store = web.one.store
    await store.jobs.submit(JobDraft(kind="chat", job_id="chat-1"))
    (grant,) = await store.leases.claim(ClaimRequest(worker="w", token="t", queues=("default",)))
    driver = Driver(store, web.one.clock, grant)
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    said.append({"role": "user", "content": "<b>bye</b>"})
    bodies = [canonical.encode(part) for part in ({"max": 9}, *said)]
    digests = [canonical.hex_digest(body) for body in bodies]
    for nth, (new, after) in enumerate([(slice(0, 2), ""), (slice(2, 4), "0/ask#1@0")], 1):
        key = f"0/ask#{nth}"
        asked = LlmRequested(key, "m", tuple(digests[new]), "d", after=after)
        await driver.write(asked, extras=Extras(blobs=tuple(bodies[new])))
        await driver.write(LlmResponded(key, response={"text": "ok"}, usage=USED))
    return "chat-1"


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_fork_is_foretold_as_it_comes(backend: Backend) -> None:
    """At every event: what is foretold as taken over is what the fork has, and where it is refused the fork is."""
    async with api(backend) as web:
        job_id = await web.one.finished()
        last = (await web.get(f"/api/jobs/{job_id}"))["events"]
        all_steps = {one["step_key"] for one in (await web.get(f"/api/jobs/{job_id}/trace"))["spans"]}
        outcomes = set()
        for seq in range(2, last + 2):
            told = await web.get(f"/api/jobs/{job_id}/fork?seq={seq}")
            made = await web.ask("POST", f"/api/jobs/{job_id}/fork", {"at": seq, "id": f"fork-{seq}"})
            outcomes.add(made.status_code)
            if told["refused"]:
                assert made.status_code == 409
                assert (made.json()["detail"], made.json()["hint"]) == (told["refused"], told["hint"])
                continue
            assert made.status_code == 201
            has = {one["step_key"] for one in (await web.get(f"/api/jobs/fork-{seq}/trace"))["spans"]}
            taken = {one["step_key"] for one in told["taken"]}
            assert taken == has, seq
            assert taken | {one["step_key"] for one in told["anew"]} == all_steps
        assert outcomes == {201, 409}, "some of its life can be shared, and some cannot"
        whole = await web.get(f"/api/jobs/{job_id}/fork")
        assert (whole["before"], whole["anew"]) == (last + 1, [])
        await web.refused(422, "invalid_payload", "GET", f"/api/jobs/{job_id}/fork?seq=2&step=x")
        await web.refused(404, "not_found", "GET", f"/api/jobs/{job_id}/fork?step=x")


async def test_what_was_made_again_after_the_point_is_made_anew(backend: Backend) -> None:
    """The same call twice, its second record behind the point of the fork: the first is taken, the second is not."""
    async with api(backend) as web:
        store = web.one.store
        await store.jobs.submit(JobDraft(kind="k", job_id="twice"))
        (grant,) = await store.leases.claim(ClaimRequest(worker="w", token="t", queues=("default",)))
        driver = Driver(store, web.one.clock, grant)
        await driver.write(StepFinished("0/look#1", "d", result=1))
        before = driver.next_seq
        await driver.write(StepFinished("0/look#1", "d", result=2, generation=1))
        told = await web.get(f"/api/jobs/twice/fork?seq={before}")
    assert [(one["step_key"], one["generation"]) for one in told["taken"]] == [("0/look#1", 0)]
    assert [(one["step_key"], one["generation"]) for one in told["anew"]] == [("0/look#1", 1)]
