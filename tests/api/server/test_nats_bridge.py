"""The API over NATS is the API over HTTP: the same answers, the same refusals; and no message brings it down.

How: a real nats-server and a real HTTP server in front of one store, asked the same by both ways.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from holdfast.model.access import Role
from holdfast.registry.addresses import NatsSettings, parse_servers
from holdfast.server import nats_bridge as bridging
from holdfast.server.settings import Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.registry.worlds import until
from tests.api.server.api import Api, api
from tests.security.people import town
from tests.support.servers import NatsServer

pytestmark = pytest.mark.store("sqlite")

SUBJECT = "holdfast.api"


def settings(server: NatsServer, **more: Any) -> Settings:
    return Settings(nats=NatsSettings(servers=parse_servers(server.url)), **more)


class Caller:
    """Somebody with a client of NATS and nothing of ours."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def send(self, data: bytes) -> dict[str, Any]:
        answer = await self.client.request(SUBJECT, data, timeout=20)
        told: dict[str, Any] = json.loads(answer.data)
        assert set(told) == {"status", "headers", "body"}
        return told

    async def ask(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        return await self.send(json.dumps({"method": method, "path": path, **more}).encode())

    async def refused(self, status: int, code: str, data: bytes) -> dict[str, Any]:
        """The problem that these bytes get."""
        told = await self.send(data)
        problem: dict[str, Any] = told["body"]
        assert (told["status"], problem["status"], problem["code"]) == (status, status, code), problem
        assert told["headers"]["content-type"] == "application/problem+json"
        assert problem["hint"]
        assert problem["request_id"] == told["headers"]["x-request-id"]
        return problem

    async def heard(self) -> bool:
        """Whether somebody answers."""
        try:
            return (await self.ask("GET", "/api/stats"))["status"] in {200, 401}
        except nats.errors.Error:
            return False


@asynccontextmanager
async def calling(server: NatsServer) -> AsyncIterator[Caller]:
    async with await nats.connect(server.url) as client:
        caller = Caller(client)
        await until(caller.heard)
        yield caller


@pytest.fixture
def own_server() -> Iterator[NatsServer]:
    with NatsServer() as running:
        yield running


def owner(web: Api) -> dict[str, str]:
    return {"Authorization": web.http.headers["authorization"]}


async def _is_well(web: Api) -> bool:
    """Whether what is listed is what is there; until then two answers may differ in that."""
    return bool((await web.get("/api/agents"))["registry"]["connected"])


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("GET", "/api/stats", None),
        ("GET", "/api/agents", None),
        ("GET", "/api/agents?limit=1", None),
        ("GET", "/api/agents?limit=none", None),
        ("GET", "/api/agents?nothing=1&nothing=2", None),
        ("GET", "/api/agents/nobody", None),
        ("GET", "/api/agents/a%2Fb", None),
        ("GET", "/api/dead-letters", None),
        ("DELETE", "/api/stats", None),
        ("POST", "/api/agents", {"name": 7}),
        ("POST", "/api/agents", {}),
        ("POST", "/api/agents", "text"),
    ],
)
async def test_an_answer_is_the_one_over_http(
    backend: Backend, nats_server: NatsServer, method: str, path: str, body: Any
) -> None:
    async with api(backend, settings(nats_server)) as web, calling(nats_server) as caller:
        await until(lambda: _is_well(web))
        said = {} if body is None else {"body": body}
        over_nats = await caller.ask(method, path, headers=owner(web), **said)
        target = web.http.base_url.copy_with(raw_path=path.encode())
        over_http = await web.http.request(
            method,
            target,
            content=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        theirs, ours = over_http.json(), over_nats["body"]
        for problem in (theirs, ours):
            problem.pop("request_id", None)
        assert (over_nats["status"], ours) == (over_http.status_code, theirs)
        for name in ("content-type", "etag", "allow"):
            assert over_nats["headers"].get(name) == over_http.headers.get(name)


async def test_what_is_made_over_nats_is_there_over_http_and_made_once(
    backend: Backend, nats_server: NatsServer
) -> None:
    async with api(backend, settings(nats_server)) as web, calling(nats_server) as caller:
        headers = owner(web) | {"Idempotency-Key": "once"}
        body = {"name": "helper", "model": "scripted:hello"}
        first = await caller.ask("POST", "/api/agents", headers=headers, body=body)
        assert first["status"] == 201, first
        again = await caller.ask("POST", "/api/agents", headers=headers, body=body)
        assert again["body"]["agent_id"] == first["body"]["agent_id"]
        listed = await web.get("/api/agents")
        assert [one["agent_id"] for one in listed["items"]] == [first["body"]["agent_id"]]


async def test_who_asks_is_asked_for_a_key_as_over_http(backend: Backend, nats_server: NatsServer) -> None:
    async with api(backend, settings(nats_server)) as web, calling(nats_server) as caller:
        assert (await caller.ask("GET", "/api/stats"))["status"] == 200, "loopback, and nobody made keys"
        said = b'{"method":"POST","path":"/api/agents","body":{"name":"x"}}'
        await caller.refused(401, "unauthorized", said)
        wrong = {"method": "GET", "path": "/api/stats", "headers": {"authorization": "Bearer wrong"}}
        await caller.refused(401, "unauthorized", json.dumps(wrong).encode())
        assert (await web.ask("GET", "/api/stats")).status_code == 200


async def test_keys_and_scopes_are_those_of_http(backend: Backend, nats_server: NatsServer) -> None:
    async with town(backend, settings(nats_server, require_key=True)) as web, calling(nats_server) as caller:
        await caller.refused(401, "unauthorized", b'{"method":"GET","path":"/api/stats"}')
        viewer = await web.key(Role.VIEWER)
        assert (await caller.ask("GET", "/api/stats", headers=viewer))["status"] == 200
        said = {"method": "POST", "path": "/api/agents", "headers": viewer, "body": {"name": "x"}}
        await caller.refused(403, "forbidden", json.dumps(said).encode())


async def test_where_others_reach_nats_nothing_is_answered_without_a_key(
    backend: Backend, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NatsSettings, "is_local", False)
    async with api(backend, settings(nats_server)) as web, calling(nats_server) as caller:
        await caller.refused(401, "unauthorized", b'{"method":"GET","path":"/api/stats"}')
        assert (await caller.ask("GET", "/api/stats", headers=owner(web)))["status"] == 200


def _garbage() -> list[tuple[int, str, bytes]]:
    chance = random.Random(3)
    request = {"method": "GET", "path": "/api/stats"}

    def but(**more: Any) -> bytes:
        return json.dumps({**request, **more}).encode()

    return [
        (400, "invalid_payload", b""),
        (400, "invalid_payload", b"hello"),
        (400, "invalid_payload", b"null"),
        (400, "invalid_payload", b"[]"),
        (400, "invalid_payload", b"{}"),
        (400, "invalid_payload", b"[" * 100_000),
        (400, "invalid_payload", b'{"method":"GET","method":"GET","path":"/api/stats"}'),
        (400, "invalid_payload", json.dumps(request).encode()[:-1]),
        (400, "invalid_payload", b"\xff\xfe" + chance.randbytes(500)),
        (400, "invalid_payload", but(method=7)),
        (400, "invalid_payload", but(path=None)),
        (400, "invalid_payload", but(headers=[])),
        (400, "invalid_payload", but(headers={"a": 1})),
        (400, "invalid_payload", but(more="?")),
        (400, "invalid_payload", but(headers={"authorization": "Bearer a\r\nb: c"})),
        (400, "invalid_payload", but(method="GET /x HTTP/1.1\r\n")),
        (400, "invalid_payload", but(path="/api/agents/ü")),
        (400, "invalid_payload", but(path="/api/agents/a b\n")),
        (404, "not_allowed", but(path="")),
        (404, "not_allowed", but(path="/api/jobs")),
        (404, "not_allowed", but(path="/api/feed")),
        (404, "not_allowed", but(path="/api/workers")),
        (404, "not_allowed", but(path="/api/keys")),
        (404, "not_allowed", but(path="/health")),
        (404, "not_allowed", but(path="http://elsewhere/api/work")),
        (404, "not_allowed", but(path="/api/statsx")),
        (401, "unauthorized", but(method="BREW")),
        (404, "not_found", but(path="/api/agents/../jobs")),
        (404, "not_found", but(path="/api/agents/x/y/z")),
        (431, "not_allowed", but(path="/api/agents/" + "x" * 20_000)),
        (422, "invalid_payload", but(path="/api/agents?limit=no")),
    ]


async def test_garbage_gets_a_problem_and_the_bridge_stands(
    backend: Backend, nats_server: NatsServer
) -> None:
    async with api(backend, settings(nats_server)), calling(nats_server) as caller:
        for status, code, data in _garbage():
            await caller.refused(status, code, data)
        # A host or origin of somebody's choice is not taken; nor is where an answer goes, but an inbox.
        odd = {"host": "elsewhere", "origin": "http://elsewhere", "x-forwarded-for": "1.2.3.4"}
        assert (await caller.ask("GET", "/api/stats", headers=odd))["status"] == 200
        spied: list[Any] = []

        async def spy(message: Any) -> None:
            spied.append(message)

        await caller.client.subscribe("$KV.>", cb=spy)
        ask = b'{"method":"GET","path":"/api/stats"}'
        for reply in ("$KV.agent-registry.x", SUBJECT, "somewhere", ""):
            await caller.client.publish(SUBJECT, ask, reply=reply)
        assert await caller.heard()
        await caller.client.flush()
        assert not spied


async def test_what_is_too_large_is_refused(
    backend: Backend, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = settings(nats_server, body_bytes_max=1_000)
    async with api(backend, small) as web, calling(nats_server) as caller:
        said = {"method": "POST", "path": "/api/agents", "headers": owner(web)}
        await caller.refused(413, "too_large", json.dumps({**said, "body": "x" * 2_000}).encode())
        await caller.refused(413, "too_large", json.dumps({**said, "body": "x" * 100_000}).encode())
        monkeypatch.setattr(Client, "max_payload", 100)
        problem = await caller.refused(413, "too_large", b'{"method":"GET","path":"/api/stats"}')
        assert "100" in problem["detail"]


async def test_more_at_once_than_fit_are_told_to_wait(
    backend: Backend, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridging, "AT_ONCE_MAX", 2)
    async with api(backend, settings(nats_server)) as web, calling(nats_server) as caller:
        inside, go_on = asyncio.Semaphore(0), asyncio.Event()
        stats = web.one.store.jobs.counts

        async def held(*args: Any, **options: Any) -> Any:
            inside.release()
            await go_on.wait()
            return await stats(*args, **options)

        monkeypatch.setattr(web.one.store.jobs, "counts", held)
        waiting = [asyncio.create_task(caller.ask("GET", "/api/stats")) for _ in range(2)]
        for _ in waiting:
            await inside.acquire()
        problem = await caller.refused(429, "busy", b'{"method":"GET","path":"/api/stats"}')
        assert problem["retry"]
        go_on.set()
        assert [one["status"] for one in await asyncio.gather(*waiting)] == [200, 200]


async def test_it_answers_again_after_each_restart_of_nats(backend: Backend, own_server: NatsServer) -> None:
    async with api(backend, settings(own_server)) as web:

        async def well() -> bool:
            return bool((await web.get("/health"))["status"] == "ok")

        async def degraded() -> bool:
            return bool((await web.get("/health"))["degraded"] == ["nats"])

        for _ in range(3):
            async with calling(own_server) as caller:
                await until(well)
                assert await caller.heard()
                assert "holdfast_nats_up 1.0" in (await web.ask("GET", "/metrics")).text
            own_server.kill()
            await until(degraded)
            assert "holdfast_nats_up 0.0" in (await web.ask("GET", "/metrics")).text
            ready = await web.get("/health/ready")
            assert (ready["status"], ready["degraded"]) == ("degraded", ["nats"]), "ready all the same"
            await asyncio.to_thread(own_server.start)


async def test_two_servers_share_the_messages(
    backend: Backend, nats_server: NatsServer, volatile_folder: Any
) -> None:
    from tests.support.fixtures.stores import SqliteBackend

    other = SqliteBackend(volatile_folder / "other")
    (volatile_folder / "other").mkdir()
    async with (
        api(backend, settings(nats_server)) as one,
        api(other, settings(nats_server)) as two,
        calling(nats_server) as caller,
    ):
        await asyncio.gather(*(caller.ask("GET", "/api/stats") for _ in range(60)))
        answered = [await _answered(web) for web in (one, two)]
        assert sum(answered) >= 60
        assert min(answered) > 0, "both have answered, and each message once"
        assert sum(answered) <= 60 + 5


async def _answered(web: Api) -> int:
    text = (await web.ask("GET", "/metrics")).text
    found = [line for line in text.splitlines() if 'route="/api/stats"' in line and "_count" in line]
    assert len(found) <= 1, found
    return int(float(found[0].rsplit(" ", 1)[1])) if found else 0


async def test_what_was_begun_is_answered_when_the_server_ends(
    backend: Backend, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await nats.connect(nats_server.url) as client:
        caller = Caller(client)
        inside, go_on = asyncio.Event(), asyncio.Event()
        async with api(backend, settings(nats_server)) as web:
            await until(caller.heard)
            stats = web.one.store.jobs.counts

            async def held(*args: Any, **options: Any) -> Any:
                inside.set()
                await go_on.wait()
                return await stats(*args, **options)

            monkeypatch.setattr(web.one.store.jobs, "counts", held)
            waiting = asyncio.create_task(caller.ask("GET", "/api/stats"))
            await inside.wait()
            asyncio.get_running_loop().call_later(0.3, go_on.set)
        assert (await waiting)["status"] == 200
        with pytest.raises(nats.errors.NoRespondersError):
            await caller.ask("GET", "/api/stats")
