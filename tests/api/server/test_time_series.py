"""Figures over time, counted from journals; and jobs told as they move, also to a reader that was away."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.model.time import HOUR, MINUTE
from holdfast.server import job_feed, time_series
from holdfast.server.time_series import Numbers
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api
from tests.api.server.test_job_history import conversation
from tests.support.fixtures.stores import STORES


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_what_happened_is_counted_where_it_happened(backend: Backend) -> None:
    async with api(backend) as web:
        began = backend.clock.wall_us()
        await web.one.finished()  # one takeover, one effect
        await web.one.dead()
        backend.clock.advance(10 * MINUTE)
        await conversation(web)
        told = await web.get(f"/api/time-series?minutes=60&today_since={began}")
        now = backend.clock.wall_us()
    assert (told["step_us"], len(told["at"]), told["complete"]) == (MINUTE, 60, True)
    assert told["at"][-1] == now // MINUTE * MINUTE
    sums = {name: sum(told[name]) for name in time_series.SERIES}
    assert sums == {
        "submitted": 3,
        "completed": 1,
        "failed": 0,
        "cancelled": 0,
        "dead": 1,
        "tool_calls": 2,
        "uncertain": 0,
        "takeovers": 1,
        "tokens_in": 6,
        "tokens_out": 2,
        "usd_micros": 80,
    }
    assert told["today"] == sums, "it all was today"
    assert (told["tokens_in"][-1], told["submitted"][-1]) == (6, 1), "in the minute in which it was"
    assert told["by_model"] == [
        {"model": "m", "calls": 2, "tokens_in": 6, "tokens_out": 2, "usd_micros": 80},
    ]
    agents = {one["kind"]: one for one in told["by_agent"]}
    assert agents["chat"] == {"kind": "chat", "jobs": 1, "failed": 0, "tokens": 8, "usd_micros": 80}
    assert (agents["hopeless"]["failed"], agents["hopeless"]["usd_micros"]) == (1, None)
    assert len(told["pickup_us"]) == 3


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_what_is_remembered_is_what_would_be_read_again(backend: Backend) -> None:
    async with api(backend) as web:
        store, clock = web.one.store, backend.clock
        kept = Numbers(store)
        job_id = await web.one.sleeping()
        asked: dict[str, Any] = {}
        for change in (web.one.dead, web.one.finished, lambda: web.one.client.cancel(job_id)):
            await kept.look("default", now=clock.wall_us(), minutes=600, today_since=None)
            await change()
            asked = {"now": clock.wall_us(), "minutes": 600, "today_since": None}
            assert await kept.look("default", **asked) == await Numbers(store).look("default", **asked)
        later: dict[str, Any] = {"now": clock.wall_us() + 11 * HOUR, "minutes": 600, "today_since": None}
        assert sum((await kept.look("default", **later)).submitted) == 0, "that was before"
        assert sum((await kept.look("elsewhere", **asked)).submitted) == 0


async def test_a_look_reads_no_more_than_it_may_and_the_next_goes_on(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_series, "READ_MAX", 2)
    async with api(backend) as web:
        for _ in range(5):
            await web.post("/api/jobs", {"kind": "k"})
        seen = [await web.get("/api/time-series") for _ in range(4)]
    assert [sum(one["submitted"]) for one in seen] == [2, 4, 5, 5]
    assert [one["complete"] for one in seen] == [False, False, True, True]


async def test_the_window_has_limits(backend: Backend) -> None:
    async with api(backend) as web:
        for query in ("minutes=0", "minutes=1441", "today_since=-1", "minutes=x"):
            await web.refused(422, "invalid_payload", "GET", f"/api/time-series?{query}")
        assert len((await web.get("/api/time-series?minutes=1440&today_since=0"))["at"]) == 1440


async def listen(web: Api, last: str | None = None) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """Id and data of each event; that it is listened to is the first."""
    headers = {} if last is None else {"last-event-id": last}
    async with web.http.stream("GET", "/api/feed/jobs", headers=headers) as response:
        assert response.status_code == 200
        named = ""
        async for line in response.aiter_lines():
            head, _, value = line.partition(": ")
            if line == ": listening":
                yield "", {}
            elif head == "id":
                named = value
            elif head == "data":
                yield named, json.loads(value)


async def test_an_old_job_that_ends_is_told_though_it_is_in_no_list_any_more(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_feed, "NEWEST", 1)
    async with api(backend) as web:
        old = await web.one.sleeping()
        await web.post("/api/jobs", {"kind": "k"})
        async with aclosing(listen(web)) as events:
            assert await anext(events) == ("", {})
            await web.post(f"/api/jobs/{old}/stop", {})
            _, told = await anext(events)
    assert (told["job_id"], told["status"]) == (old, "cancelled")


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_jobs_are_told_as_they_move_and_again_from_the_last_id(backend: Backend) -> None:
    async with api(backend) as web:
        old = await web.one.sleeping()
        async with aclosing(listen(web)) as events:
            assert await anext(events) == ("", {})
            backend.clock.advance(MINUTE)
            made = (await web.post("/api/jobs", {"kind": "k"}))["job_id"]
            named, told = await anext(events)
            assert (told["job_id"], told["status"]) == (made, "pending"), "what was there before is not news"
            backend.clock.advance(MINUTE)
            await web.post(f"/api/jobs/{old}/stop", {})
            _, told = await anext(events)
            assert (told["job_id"], told["status"]) == (old, "cancelled")
        async with aclosing(listen(web, last=named)) as again:
            assert await anext(again) == ("", {})
            _, missed = await anext(again)
            assert (missed["job_id"], missed["status"]) == (old, "cancelled"), "what came after that instant"
        await web.refused(422, "invalid_payload", "GET", "/api/feed/jobs?after=never")
