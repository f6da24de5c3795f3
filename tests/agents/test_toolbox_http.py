"""HTTP tools: only to hosts that are named, never into an inner network, and honest about what was sent."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.agents.toolbox import http_tools
from holdfast.agents.toolbox.hosts import is_public
from holdfast.errors import InvalidSetting, Refused
from tests.agents.waiting import waits_for
from tests.agents.web import Web, secured, serving

PUBLIC = "93.184.216.34"


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def getting(web: Web, *more: str, **bounds: Any) -> Any:
    """http_get, with this server allowed by host and port."""
    return http_tools(allow=[f"localhost:{web.port}", *more], **bounds)[0]


def sending(web: Web, **bounds: Any) -> Any:
    return http_tools(allow=[f"localhost:{web.port}"], methods=["post", "PUT"], **bounds)[1]


async def test_a_page_is_fetched(web: Web) -> None:
    get = getting(web, headers={"X-Team": "kelp"})
    fetched = await get(url=f"http://localhost:{web.port}/page of é?q=a b#part")
    assert (fetched.status, fetched.body) == (200, "GET /page%20of%20%C3%A9?q=a%20b ")
    assert fetched.headers == {"content-type": "text/plain"}
    ((_method, _path, headers, _body),) = web.asked
    assert headers["host"] == f"localhost:{web.port}"
    assert headers["x-team"] == "kelp"
    assert (await get(url=f"http://localhost:{web.port}/latin")).body == "é"
    assert get.terms.effect == "read_only"


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://localhost:1/",
        "http://127.0.0.1:{port}/",
        "http://LOCALHOST.evil.com:{port}/",
        "http://localhost:{port}@evil.com/",
        "http://user:word@localhost:{port}/",
        "ftp://localhost:{port}/",
        "file:///etc/passwd",
        "//localhost:{port}/",
        "localhost:{port}",
        "http://[::1]:{port}/",
        "http://localhost:99999/",
        "http://[/",
        "http://\ud800/",
        "http://" + "x" * 10_000_000,
        "",
    ],
)
async def test_what_is_not_named_is_not_asked(web: Web, url: str) -> None:
    with pytest.raises(Refused) as caught:
        await getting(web)(url=url.replace("{port}", str(web.port)))
    assert len(str(caught.value)) < 500
    assert not web.asked


async def test_a_bad_line_is_never_sent(web: Web) -> None:
    """Whatever the model writes into the URL and the type, there is one request, and it is the one it seems to be."""
    hostile = f"http://localhost:{web.port}/a\r\nHost: evil\r\n\r\nGET /b \x00\x1b"
    await getting(web)(url=hostile)
    assert len(web.asked) == 1
    with pytest.raises(Refused, match="cannot be sent"):
        await sending(web)(method="POST", url=f"http://localhost:{web.port}/", content_type="a\r\nX-Evil: 1")
    with pytest.raises(Refused, match="cannot be sent"):
        await getting(web)(url=f"http://localhost:{web.port}/\ud800")
    assert len(web.asked) == 1
    assert web.asked[0][2]["host"] == f"localhost:{web.port}"


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "address, public",
    [
        (PUBLIC, True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - it is refused
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::", False),
    ],
)
def test_addresses_are_judged_by_what_they_are(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) == public


class Names:
    """A name server that gives its answers in turn, and a network in which every connection ends at our server."""

    def __init__(self, web: Web, monkeypatch: pytest.MonkeyPatch, *turns: list[str]) -> None:
        self.turns = list(turns)
        self.connected: list[str] = []
        connect = socket.create_connection

        def resolve(host: str, port: int, **options: Any) -> list[Any]:
            assert not host[0].isdigit(), "an address is not resolved again"
            addresses = self.turns.pop(0)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

        def connecting(at: tuple[str, int], **options: Any) -> socket.socket:
            self.connected.append(at[0])
            monkeypatch.undo()  # the real connection needs the real resolver
            try:
                return connect(("127.0.0.1", web.port), **options)
            finally:
                self.install(monkeypatch)

        self._resolve, self._connecting = resolve, connecting
        self.install(monkeypatch)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)
        monkeypatch.setattr(socket, "create_connection", self._connecting)


async def test_a_name_that_points_inside_is_refused(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(web, monkeypatch, ["127.0.0.1", "169.254.169.254"])
    with pytest.raises(Refused, match="no public address"):
        await getting(web, "inner.example.com")(url="http://inner.example.com/")
    assert not names.connected
    assert not web.asked


async def test_the_address_that_was_judged_is_the_one_that_is_asked(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a name that changes under our hands gets nobody inside. Method: a resolver whose second answer is loopback;
    it is never asked twice, and the connection goes to the first answer."""
    names = Names(web, monkeypatch, ["10.0.0.1", PUBLIC], ["127.0.0.1"])
    fetched = await getting(web, "*.example.com")(url="http://a.example.com./page")
    assert fetched.body == "GET /page "
    assert names.connected == [PUBLIC]
    assert names.turns == [["127.0.0.1"]]


async def test_each_hop_is_judged_again(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(web, monkeypatch, [PUBLIC], ["127.0.0.1"])
    get = http_tools(allow=["a.example.com", "b.example.com"])[0]
    with pytest.raises(Refused, match=r"b.example.com:80 has no public address"):
        await get(url="http://a.example.com/moved?to=http://b.example.com/")
    names.turns = [[PUBLIC]]
    with pytest.raises(Refused, match="not an allowed host"):
        await get(url=f"http://a.example.com/moved?to=http://127.0.0.1:{web.port}/")
    assert names.connected == [PUBLIC, PUBLIC]
    assert [path.partition("?")[0] for path in web.paths()] == ["/moved", "/moved"]


async def test_redirects_are_followed_so_far_and_without_secrets(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    Names(web, monkeypatch, [PUBLIC], [PUBLIC], [PUBLIC])
    get = http_tools(allow=["a.example.com", "b.example.com"], headers={"Authorization": "secret"})[0]
    fetched = await get(url="http://a.example.com/moved?to=/moved?to=http://b.example.com/page")
    assert (fetched.body, fetched.url) == ("GET /page ", "http://b.example.com/page")
    assert ["authorization" in headers for _method, _path, headers, _body in web.asked] == [True, True, False]
    Names(web, monkeypatch, *[[PUBLIC]] * 9)
    with pytest.raises(Refused, match="more than 5 redirects"):
        await get(url="http://a.example.com/moved?to=" + "/moved?to=" * 8)


async def test_a_host_without_a_port_is_allowed_at_the_usual_one_only(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(web, monkeypatch)
    get = http_tools(allow=["example.com"])[0]
    for url in (f"http://example.com:{web.port}/", "https://example.com:80/", "http://a.example.com/"):
        with pytest.raises(Refused, match="not an allowed host"):
            await get(url=url)
    assert not names.connected


@pytest.mark.parametrize("name", ["", "a/b", "http://a", "*.a:80", "*", "a:b", "a b", "*.*.a"])
def test_hosts_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(InvalidSetting):
        http_tools(allow=[name])
    with pytest.raises(InvalidSetting, match="no host is allowed"):
        http_tools(allow=[])
    with pytest.raises(InvalidSetting, match="key_lifetime without a key_header"):
        http_tools(allow=["a"], methods=["POST"], key_lifetime="1h")
    with pytest.raises(InvalidSetting, match="cannot send TRACE"):
        http_tools(allow=["a"], methods=["TRACE"])


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


async def test_size_and_time_are_bounded(web: Web) -> None:
    fetched = await getting(web, body_max=1_000)(url=f"http://localhost:{web.port}/long")
    assert (fetched.body, fetched.left_out) == ("x" * 1_000, "999,000")
    with pytest.raises(TimeoutError):
        await getting(web, timeout="200ms")(url=f"http://localhost:{web.port}/hangs")


async def test_a_cancelled_call_hangs_up_at_once(web: Web) -> None:
    calling = asyncio.create_task(getting(web)(url=f"http://localhost:{web.port}/hangs"))
    await asyncio.to_thread(web.hanging.wait)
    calling.cancel()
    await asyncio.wait([calling], timeout=5)  # without hanging up, the thread is given ten seconds
    assert calling.done()
    assert calling.cancelled()


async def test_over_tls_the_name_is_what_is_proven(tmp_path: Path) -> None:
    server, client = secured(tmp_path)
    with serving(server) as web:
        url = f"https://localhost:{web.port}/page"
        assert (await getting(web, trust=client)(url=url)).body == "GET /page "
        with pytest.raises(Refused, match="no secure connection"):
            await getting(web)(url=url)  # nobody vouches for it
        get = http_tools(allow=[f"127.0.0.1:{web.port}"], trust=client)[0]
        with pytest.raises(Refused, match="no secure connection"):
            await get(url=f"https://127.0.0.1:{web.port}/page")  # another name than it has
        assert web.paths() == ["/page"]


# ── sending ───────────────────────────────────────────────────────────────────────────────────────


async def test_sending(web: Web) -> None:
    send = sending(web)
    url = f"http://localhost:{web.port}/orders"
    fetched = await send(method="post", url=url, body='{"é":1}')
    assert fetched.body == 'POST /orders {"é":1}'
    moved = await send(method="PUT", url=f"http://localhost:{web.port}/moved?to=/elsewhere")
    assert (moved.status, moved.headers["location"]) == (302, "/elsewhere")
    with pytest.raises(Refused, match="not a method that may be sent"):
        await send(method="DELETE", url=url)
    with pytest.raises(Refused, match="lone surrogate"):
        await send(method="POST", url=url, body="\ud800")
    with pytest.raises(Refused, match="more than the limit"):
        await send(method="POST", url=url, body="x" * 600_000)
    assert web.paths() == ["/orders", "/moved?to=/elsewhere"]
    assert send.terms.effect == "unsafe"
    assert [tool.name for tool in http_tools(allow=["a"])] == ["http_get"]


@pytest.mark.store("sqlite")
@pytest.mark.parametrize("path, held", [("/dies", True), ("/fine", False)])
async def test_a_request_without_an_answer_is_held_for_a_person(
    web: Web, tmp_path: Path, path: str, held: bool
) -> None:
    """The server took it and hung up: nobody knows. A server that is not there took nothing, and the code may go on."""
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    send = sending(web)
    (nowhere,) = http_tools(allow=["localhost:1"], methods=["POST"])[1:]

    @app.agent
    async def program() -> Any:
        try:
            await nowhere(method="POST", url="http://localhost:1/")
        except Refused:
            return (await send(method="POST", url=f"http://localhost:{web.port}{path}")).status

    async with app.running() as process:
        job = await program.start()
        if held:
            await waits_for(process, job.id, "reconcile")
        else:
            assert await job.result() == 200
    assert web.paths() == [path]


@pytest.mark.store("sqlite")
async def test_with_a_header_for_the_key_it_is_sent_again(web: Web, tmp_path: Path) -> None:
    """Two attempts, one key: the receiver can tell."""
    app = hf.App(store=f"sqlite:///{tmp_path / 'test.db'}")
    send = sending(web, key_header="Idempotency-Key", key_lifetime="24h")
    assert send.terms.effect == "idempotent"

    @app.agent
    async def program() -> Any:
        return (await send(method="POST", url=f"http://localhost:{web.port}/flaky")).status

    async with app.running():
        assert await program() == 200
    keys = [headers["idempotency-key"] for _method, _path, headers, _body in web.asked]
    assert len(keys) == 2
    assert len(set(keys)) == 1
