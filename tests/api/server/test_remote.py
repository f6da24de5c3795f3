"""The client over HTTP where it differs from the other: the wire, and what stands at its far end."""

from __future__ import annotations

import asyncio
import builtins
import inspect
from typing import Any

import httpx2
import pytest

from holdfast import errors
from holdfast.client.client import Client
from holdfast.client.http import RemoteClient, error_of
from holdfast.client.in_process import EmbeddedClient
from holdfast.errors import (
    HeadMoved,
    HoldfastError,
    InvalidName,
    InvalidSetting,
    KeyReused,
    NotOver,
    StoreUnavailable,
    TooLarge,
    Unavailable,
)
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.states import Status, WaitReason
from holdfast.server import problems
from holdfast.server.responses import encode_json
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import lives
from tests.api.server.served import served

pytestmark = pytest.mark.store("sqlite")

TOLD = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, HoldfastError)]


def test_both_clients_have_the_same_words() -> None:
    words = {name for kind in Client.__mro__ for name in vars(kind) if not name.startswith("_")}
    assert {"submit", "message", "stats", "reply"} <= words
    for name in words:
        asked = inspect.signature(getattr(Client, name))
        for kind in (EmbeddedClient, RemoteClient):
            assert inspect.signature(getattr(kind, name)) == asked, f"{kind.__name__}.{name}"


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_as_itself(kind: type[HoldfastError]) -> None:
    error = kind.__new__(kind)
    HoldfastError.__init__(error, "what happened", hint="do this")
    told = problems.make_problem(error, problems.status_of(error), "r-1")
    back = error_of(told.status, encode_json(told))
    assert type(back) is kind
    if isinstance(error, errors.Misuse | errors.Conflict | errors.Busy | NotOver):
        assert (str(back), back.hint) == ("what happened", "do this")
    else:
        assert "what happened" not in str(back)


@pytest.mark.parametrize(
    "error",
    [
        KeyReused("k", stored="a", sent="b"),
        HeadMoved("h", expected=1, actual=2),
        errors.MailWaiting("m", mail_seq=3),
        errors.CallUncertain("c", step_key="0/pay#1"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_facts(error: HoldfastError) -> None:
    back = error_of(409, encode_json(problems.make_problem(error, 409, "r-1")))
    assert vars(back) == vars(error)


async def test_nobody_there_is_unavailable(backend: Backend) -> None:
    async with RemoteClient("http://127.0.0.1:1") as client:
        with pytest.raises(StoreUnavailable, match="does not answer") as caught:
            await client.get("j")
        assert "holdfast serve" in caught.value.hint


async def test_a_server_that_is_not_ours_is_told_apart(backend: Backend) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\n<html></>")
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    async with server, RemoteClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(Unavailable, match="not a response of Holdfast"):
            await client.get("j")


async def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(backend: Backend) -> None:
    """The first answer is thrown away between the server and us."""
    async with lives(backend) as one, served(one.store, backend.clock) as url:
        lost: list[str] = []

        class Losing(httpx2.AsyncHTTPTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                response = await super().handle_async_request(request)
                if not lost and request.method == "POST":
                    lost.append(str(request.url))
                    await response.aread()
                    raise httpx2.ReadError("the line went dead")
                return response

        job_id = await one.sleeping()
        async with RemoteClient(url) as client:
            await client._server._http.aclose()
            headers = client._server._http.headers
            client._server._http = httpx2.AsyncClient(base_url=url, transport=Losing(), headers=headers)
            submitted = await client.submit("refund", {"order": 1})
            assert (submitted.created, len(lost)) == (False, 1)
            lost.clear()
            assert (await client.signal(job_id, "paid")).repeated
        assert len(await one.store.post.read(job_id)) == 1
        assert len((await one.client.list()).items) == 2


async def test_text_and_names_of_any_kind(backend: Backend) -> None:
    async with lives(backend) as one, served(one.store, backend.clock) as url, RemoteClient(url) as client:
        given = {"lone": "\ud800", "nul": "\x00", "text": "ü\u2028"}
        made = await client.submit("k", given, job_id="a/ü ?#..", request_key="Schlüssel/1")
        assert (await client.get(made.job_id)).input == given
        assert await client.get(made.job_id) == await one.client.get(made.job_id)
        assert await client.trace(made.job_id) == await one.client.trace(made.job_id)
        assert await client.events(made.job_id) == await one.client.events(made.job_id)
        for job_id in ("", "\x00", "x" * 201, ".."):
            with pytest.raises(HoldfastError) as caught:
                await client.get(job_id)
            assert isinstance(caught.value, InvalidName) == (job_id != ".."), job_id
        with pytest.raises(TooLarge):
            await client.submit("k", "x" * (1 << 20))


async def test_every_filter_of_a_listing_goes_along(backend: Backend) -> None:
    async with lives(backend) as one, served(one.store, backend.clock) as url, RemoteClient(url) as client:
        parent = await one.sleeping()
        await one.dead()
        await client.submit("chat", session_id="s1")
        await one.store.jobs.submit(JobDraft(kind="chat", parent_job_id=parent, parent_step_key="0/spawn#1"))
        found = []
        for which in (
            JobFilter(kind="nap"),
            JobFilter(kind="chat"),
            JobFilter(status=Status.WAITING),
            JobFilter(wait_reason=WaitReason.DEAD_LETTER),
            JobFilter(session_id="s1"),
            JobFilter(parent_job_id=parent),
        ):
            page = await client.list(which)
            assert page == await one.client.list(which)
            found.append(len(page))
        assert found == [1, 2, 2, 1, 1, 1]


async def test_many_events_are_read_in_pages(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.client.EVENTS_PER_PAGE_MAX", 2)
    async with lives(backend) as one, served(one.store, backend.clock) as url, RemoteClient(url) as client:
        job_id = await one.finished()
        events = await one.client.events(job_id)
        assert len(events) > 6
        assert await client.events(job_id) == events
        assert await client.events(job_id, after=2, limit=3) == events[2:5]


async def test_a_result_is_waited_for_in_pieces(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.client.WAIT_MS", 5)
    async with (
        lives(backend) as one,
        served(one.store, backend.clock) as url,
        RemoteClient(url) as client,
        one.running() as (job_id, run),
    ):
        with pytest.raises(NotOver):
            await client.result(job_id, timeout_s=0.02)
        waiting = asyncio.create_task(client.result(job_id))
        await client.cancel(job_id)
        run.poke()
        assert (await waiting).status == "cancelled"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "ftp://127.0.0.1", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting, match="address of a server"):
        RemoteClient(url)


def test_without_the_library_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "httpx2":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InvalidSetting) as caught:
        RemoteClient("http://127.0.0.1:8080")
    assert "holdfast[remote]" in caught.value.hint
