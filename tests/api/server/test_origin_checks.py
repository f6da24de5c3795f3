"""Who may come in: no other site's page, under no borrowed name, with nothing endless; and what is told to nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from holdfast.errors import InvalidSetting, NotFound, StoreCorrupt, StoreUnavailable
from holdfast.model import redaction
from holdfast.model.redaction import redact
from holdfast.runtime.log_redaction import install_redaction
from holdfast.server.app import Service
from holdfast.server.header_limits import Bounded
from holdfast.server.origin_checks import Principal, check_bind
from holdfast.server.problems import Refusal
from holdfast.server.serving import bind_socket
from holdfast.server.settings import Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import lives
from tests.api.server.api import Api, api, must_fit
from tests.api.server.served import served

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused


@asynccontextmanager
async def line_to(web: Api) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = web.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


async def raw(web: Api, request: str) -> bytes:
    """All that the server says to this text."""
    async with line_to(web) as (reader, writer):
        writer.write(request.replace("\n", "\r\n").encode())
        return await reader.read()


@pytest.mark.parametrize(
    "host, status",
    [
        ("127.0.0.1:{}", 200),
        ("localhost:{}", 200),
        ("LOCALHOST:{}", 200),
        ("[::1]:{}", 200),
        ("api.example.org", 200),
        ("evil.example", 421),
        ("evil.example:{}", 421),
        ("127.0.0.1", 421),
        ("127.0.0.1:1", 421),
        ("127.0.0.1.evil.example:{}", 421),
        ("10.0.0.1:{}", 421),
        ("0.0.0.0:{}", 421),
        ("", 421),
    ],
)
async def test_only_our_names_are_answered(backend: Backend, host: str, status: int) -> None:
    """A page that makes its own name lead to 127.0.0.1 is refused before it is routed."""
    async with api(backend, Settings(hosts=("api.example.org",))) as web:
        said = host.format(web.url.rpartition(":")[2])
        response = await web.ask("GET", JOBS, host=said)
        assert response.status_code == status


async def test_a_request_with_no_host_or_two_is_refused(backend: Backend) -> None:
    async with api(backend) as web:
        port = web.url.rpartition(":")[2]
        for hosts in ("", f"Host: 127.0.0.1:{port}\nHost: evil.example\n"):
            answer = await raw(web, f"GET {JOBS} HTTP/1.1\n{hosts}Connection: close\n\n")
            assert answer.startswith((b"HTTP/1.1 421", b"HTTP/1.1 400"))


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:1"])
async def test_a_page_of_another_site_may_not_speak(backend: Backend, origin: str) -> None:
    async with api(backend) as web:
        before = await web.picture()
        for method in ("GET", "POST"):
            await web.refused(403, "not_allowed", method, JOBS, {"kind": "k"}, origin=origin)
        assert await web.picture() == before
        assert (await web.ask("POST", JOBS, {"kind": "k"}, origin=web.url)).status_code == 201


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "application/jsonp"],
)
async def test_what_a_form_can_send_is_not_taken(backend: Backend, kind: str) -> None:
    async with api(backend) as web:
        job_id = await web.one.sleeping()
        before = await web.picture()
        await web.refused(415, "not_allowed", "POST", JOBS, {"kind": "k"}, content_type=kind)
        await web.refused(415, "not_allowed", "POST", f"{JOBS}/{job_id}/stop", content_type=kind)
        assert await web.picture() == before
        said = await web.ask("POST", JOBS, {"kind": "k"}, content_type="Application/JSON; charset=utf-8")
        assert said.status_code == 201


async def test_heads_have_a_size(backend: Backend) -> None:
    async with api(backend) as web:
        await web.refused(431, "not_allowed", "GET", JOBS, x_large="x" * 16_500)
        await web.refused(431, "not_allowed", "GET", JOBS + "?kind=" + "x" * 16_500)
        port = web.url.rpartition(":")[2]
        endless = f"GET {JOBS} HTTP/1.1\nHost: 127.0.0.1:{port}\nX-Endless: {'x' * 70_000}"
        assert (await raw(web, endless)).startswith(b"HTTP/1.1 431")
        large = {"kind": "k", "input": "x" * 500_000}
        for _ in range(3):  # a body is no head, on a connection that is used again either
            assert (await web.ask("POST", JOBS, large)).status_code == 201


async def test_heads_have_a_time(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bounded, "head_timeout_s", 0.05)
    async with api(backend) as web:
        assert await raw(web, "") == b"", "somebody who says nothing is not waited for"
        assert await raw(web, f"GET {JOBS} HTTP/1.1\nHost: ") == b""
        assert (await web.ask("GET", JOBS)).status_code == 200


@pytest.mark.parametrize(
    "host, has_keys, has_tls, insecure, fine",
    [
        ("127.0.0.1", False, False, False, True),
        ("::1", False, False, False, True),
        ("localhost", False, False, False, True),
        (EVERYWHERE, False, False, False, False),
        ("::", False, True, True, False),
        ("192.168.1.5", False, False, True, False),
        ("api.example.org", False, True, False, False),
        ("", False, False, False, False),
        (EVERYWHERE, True, False, False, False),
        (EVERYWHERE, True, False, True, True),
        (EVERYWHERE, True, True, False, True),
    ],
)
def test_s01_elsewhere_it_listens_only_with_keys_that_nobody_can_read(
    host: str, *, has_keys: bool, has_tls: bool, insecure: bool, fine: bool
) -> None:
    if fine:
        check_bind(host, has_keys=has_keys, has_tls=has_tls, insecure=insecure)
        return
    with pytest.raises(InvalidSetting, match="other machines"):
        bind_socket(host, 0, has_keys=has_keys, has_tls=has_tls, insecure=insecure)


def test_a_port_that_is_taken_is_named() -> None:
    with bind_socket(port=0) as listening:
        listening.listen()
        with pytest.raises(InvalidSetting, match=str(listening.getsockname()[1])):
            bind_socket(port=listening.getsockname()[1])


async def test_a_request_has_an_id(backend: Backend) -> None:
    async with api(backend) as web:
        mine = await web.ask("GET", "/api/nothing", x_request_id="mine-1")
        assert mine.headers["x-request-id"] == mine.json()["request_id"] == "mine-1"
        made = await web.ask("GET", "/api/nothing", x_request_id="a b\tc")
        assert made.headers["x-request-id"].startswith("req_")


@pytest.fixture
def guarded() -> Iterator[None]:
    """Log lines are looked through, as in every process that opens a store by its address."""
    before, records = redaction.set_redactor(redaction.Redactor()), logging.getLogRecordFactory()
    install_redaction()
    yield
    logging.setLogRecordFactory(records)
    redaction.set_redactor(before)


@pytest.mark.parametrize(
    "raised, status, code",
    [
        (RuntimeError("SELECT secret FROM /srv/secret.db"), 500, "error"),
        (StoreCorrupt("page 7 of /srv/secret.db"), 500, "store_corrupt"),
        (StoreUnavailable("postgresql://ada:secret@db does not answer"), 503, "store_unavailable"),
    ],
)
async def test_what_is_wrong_with_us_is_told_to_the_log_alone(
    guarded: None,
    backend: Backend,
    raised: Exception,
    status: int,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def breaks(*_: Any, **__: Any) -> Any:
        raise raised

    async with api(backend) as web:
        monkeypatch.setattr(web.one.store.jobs, "counts", breaks)
        with caplog.at_level(logging.WARNING, logger="holdfast.server"):
            response = await web.ask("GET", "/api/stats", x_request_id="r-1")
        assert (response.status_code, response.json()["code"]) == (status, code)
        assert "secret" not in response.text
        assert "Traceback" not in response.text
        assert ("retry-after" in response.headers) == (status == 503)
        assert "r-1" in caplog.text
        assert redact(str(raised)) in caplog.text, "all of it but a password"
        assert "ada:secret" not in caplog.text


async def test_the_hook_says_who_asks_and_sees_only_its_own(backend: Backend) -> None:
    async def authorise(request: Any) -> Principal:
        match request.headers.get("authorization"):
            case "Bearer ada":
                return Principal("ada", "hers")
            case "Bearer bob":
                return Principal("bob", "his")
            case _:
                raise Refusal(401, NotFound("no such key"))

    async with lives(backend) as one:
        for namespace in ("hers", "his"):
            await one.store.namespaces.create(namespace)
        async with (
            served(one.store, backend.clock, authorise=authorise) as url,
            httpx2.AsyncClient(base_url=url, trust_env=False) as http,
        ):
            ada, bob = ({"authorization": f"Bearer {name}"} for name in ("ada", "bob"))
            made = await http.post(JOBS, json={"kind": "k", "id": "j"}, headers=ada)
            assert made.status_code == 201
            assert (await http.get(f"{JOBS}/j", headers=ada)).status_code == 200
            foreign = await http.get(f"{JOBS}/j", headers=bob)
            must_fit(foreign)
            assert foreign.status_code == 404
            nobody = await http.get(f"{JOBS}/j")
            must_fit(nobody)
            assert nobody.status_code == 401


async def test_a_server_that_drains_is_not_ready_and_still_answers(backend: Backend) -> None:
    apps: list[Service] = []
    async with (
        lives(backend) as one,
        served(one.store, backend.clock, made=apps.append) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False) as http,
    ):
        assert (await http.get("/health/ready")).status_code == 200
        apps[0].drain()
        ready = await http.get("/health/ready")
        must_fit(ready)
        assert (ready.status_code, ready.json()["status"]) == (503, "draining")
        assert (await http.get(JOBS)).status_code == 200
