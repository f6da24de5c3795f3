"""What a job says, over HTTP: resumed behind the last id, kept alive, ended with the job, given up with its reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
import pytest

from holdfast.engine import streams
from holdfast.model.streams import StreamLine, passage_of
from holdfast.server.settings import Settings
from holdfast.store.ports.streams import StreamAppend
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api

pytestmark = pytest.mark.store("sqlite")


class Speaker:
    """A job that somebody drives by hand."""

    def __init__(self, web: Api, driver: Driver) -> None:
        self.web, self.driver, self.job_id = web, driver, driver.job_id
        self._said = 0

    async def say(self, *words: str, stream: str = "out", attempt: int = 1) -> None:
        line = StreamLine(stream, "0/talk#1", attempt, self._said, list(words))
        self._said += line.numbers
        passage = passage_of(self.driver.held.fence, self._said, [line])
        assert await self.web.one.store.streams.append([StreamAppend(self.driver.held, passage)]) == [True]

    async def restart(self) -> None:
        await self.say(stream="", attempt=2)


@asynccontextmanager
async def speaker(backend: Backend, settings: Settings | None = None) -> AsyncIterator[Speaker]:
    async with api(backend, settings) as web:
        await web.post("/api/jobs", {"kind": "talk", "id": "j"})
        yield Speaker(web, Driver(web.one.store, backend.clock, (await web.one.claim()).grant))


async def listen(web: Api, query: str = "", last: str | None = None) -> AsyncGenerator[dict[str, Any], None]:
    """Events as they come; a comment is one, too."""
    headers = {} if last is None else {"last-event-id": last}
    async with web.http.stream("GET", f"/api/jobs/j/stream{query}", headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "x-request-id" in response.headers
        event: dict[str, Any] = {}
        async for line in _lines(response):
            name, _, value = line.partition(": ")
            if line and name:
                event[name] = value
            elif line:
                yield {"comment": value}
            elif event:
                yield event | {"data": json.loads(event["data"])}
                event = {}


async def _lines(response: httpx2.Response) -> AsyncGenerator[str, None]:
    """Lines as server-sent events have them: other signs that some take for line breaks are text."""
    rest = b""
    async for data in response.aiter_bytes():
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.decode()


async def take(events: AsyncGenerator[dict[str, Any], None], number: int) -> list[dict[str, Any]]:
    """So many events, comments left out."""
    found: list[dict[str, Any]] = []
    async with aclosing(events):
        async for event in events:
            if "comment" not in event:
                found.append(event)
            if len(found) == number:
                break
    return found


async def test_a_stream_goes_on_behind_the_last_id(backend: Backend) -> None:
    async with speaker(backend) as job:
        await job.say("a", "b", "c")
        first = await take(listen(job.web), 2)
        assert [one["data"]["said"] for one in first] == ["a", "b"]
        await job.say("d")  # while nobody listens
        rest = await take(listen(job.web, last=first[-1]["id"]), 2)
        assert [one["data"]["said"] for one in rest] == ["c", "d"]
        by_query = await take(listen(job.web, f"?after={first[0]['id']}"), 3)
        assert [one["data"]["said"] for one in by_query] == ["b", "c", "d"]


async def test_what_is_said_while_somebody_listens_is_heard_at_once(backend: Backend) -> None:
    async with speaker(backend) as job:
        events = listen(job.web)
        assert await anext(events) == {"comment": "still here"}
        await job.say("now")
        assert (await anext(events))["data"]["said"] == "now"
        await job.restart()
        superseded = await anext(events)
        assert (superseded["event"], superseded["data"]["attempt"]) == ("attempt_superseded", 2)
        await events.aclose()


async def test_a_stream_ends_with_its_job_and_says_how(backend: Backend) -> None:
    async with speaker(backend) as job:
        listening = asyncio.create_task(take(listen(job.web), 3))
        await job.say("a", "b")
        await job.driver.complete()
        *chunks, end = await listening
        assert (end["event"], end["data"]) == ("end", {"status": "completed"})
        again = await take(listen(job.web, last=chunks[-1]["id"]), 9)
        assert [one["event"] for one in again] == ["end"], "and the server has closed it"


async def test_one_stream_of_several(backend: Backend) -> None:
    async with speaker(backend) as job:
        await job.say("loud")
        await job.say("soft", stream="notes")
        (only,) = await take(listen(job.web, "?stream=notes"), 1)
        assert only["data"]["said"] == "soft"


async def test_text_of_any_kind_stays_within_its_event(backend: Backend) -> None:
    async with speaker(backend) as job:
        words = ["a\n\nevent: end\ndata: 1", "\ud800", "\r", "\u2028"]
        await job.say(*words)
        assert [one["data"]["said"] for one in await take(listen(job.web), 4)] == words


async def test_a_quiet_stream_is_kept_alive(backend: Backend) -> None:
    async with speaker(backend, Settings(heartbeat_s=0.01)) as job:
        events = listen(job.web)
        assert [await anext(events) for _ in range(3)] == [{"comment": "still here"}] * 3
        await events.aclose()


async def test_a_reader_that_hangs_up_is_let_go(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, let_go = asyncio.Event(), asyncio.Event()
    real = streams._Watcher.wait_for_more

    async def wait_for_more(self: Any) -> bool:
        waiting.set()
        try:
            return await real(self)
        except asyncio.CancelledError:
            let_go.set()
            raise

    monkeypatch.setattr(streams._Watcher, "wait_for_more", wait_for_more)
    async with speaker(backend) as job:
        events = listen(job.web)
        await anext(events)
        await waiting.wait()  # the greeting comes before anything is listened for
        await events.aclose()
        assert await asyncio.wait_for(let_go.wait(), 10), "whoever listened for it was ended"


async def test_there_are_only_so_many_streams(backend: Backend) -> None:
    async with speaker(backend, Settings(streams_max=2)) as job:
        open_ones = [listen(job.web), listen(job.web)]
        for events in open_ones:
            await anext(events)
        response = await job.web.ask("GET", "/api/jobs/j/stream")
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
        for events in open_ones:
            await events.aclose()
        while (await _status(job.web)) == 429:  # the server hears of it a moment later
            pass


async def _status(web: Api) -> int:
    async with web.http.stream("GET", "/api/jobs/j/stream") as response:
        return response.status_code


async def test_a_server_that_ends_lets_its_streams_go(backend: Backend) -> None:
    """Without an `end`: the reader asks again, with its last id, wherever the next server is."""
    said: list[dict[str, Any]] = []
    heard = asyncio.Event()

    async def collect(web: Api) -> None:
        async with httpx2.AsyncClient(base_url=web.url, trust_env=False) as http:
            async for event in listen(Api(http, web.one, web.url)):
                if "comment" not in event:
                    said.append(event)
                    heard.set()

    async with speaker(backend) as job:
        await job.say("a")
        listening = asyncio.create_task(collect(job.web))
        await heard.wait()
    await asyncio.wait_for(listening, 20)
    assert [one["event"] for one in said] == ["chunk"]


@pytest.mark.parametrize("cursor", ["x", "1", "1.2.3", "-1.0", "9" * 40 + ".1"])
async def test_a_cursor_that_is_none_is_refused(backend: Backend, cursor: str) -> None:
    async with speaker(backend) as job:
        problem = await job.web.refused(
            422, "invalid_payload", "GET", "/api/jobs/j/stream", last_event_id=cursor
        )
        assert problem["status"] == 422
