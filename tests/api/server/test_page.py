"""The page's files: public, never a path of the caller's making, kept for good where the name says the content."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast.server.page import POLICY, StaticPage
from holdfast.server.settings import Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import lives
from tests.api.server.api import Api, as_owner
from tests.api.server.served import served

INDEX = b"<!doctype html><title>Holdfast</title><script src=/static/page.1a2b.js></script>"
SCRIPT = b"document.title = 'it runs'"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A build, and a neighbour that nobody may read."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_bytes(INDEX)
    (folder / "page.1a2b.js").write_bytes(SCRIPT)
    (folder / "page.9f.css").write_bytes(b"body{}")
    (folder / "mark.svg").write_bytes(b"<svg/>")
    (folder / "deeper").mkdir()
    (tmp_path / "secret.txt").write_bytes(b"not for you")
    return folder


@asynccontextmanager
async def opened(backend: Backend, folder: Path, settings: Settings | None = None) -> AsyncIterator[Api]:
    """A server with the page, and somebody at it who has said nothing of themselves."""
    async with (
        lives(backend) as one,
        served(one.store, backend.clock, settings, page=StaticPage(folder)) as url,
        httpx2.AsyncClient(base_url=url, trust_env=False) as http,
    ):
        yield Api(http, one, url)


async def sent(web: Api, target: str, method: str = "GET", *headers: str) -> tuple[int, bytes, bytes]:
    """Status, head and body of what is answered to this very target: no client has tidied it up."""
    host, _, port = web.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}:{port}", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


@pytest.mark.parametrize(
    "target",
    ["/", "/jobs", "/jobs/abc%2Fdef", "/jobs/a/b/c?after=1", "/sessions/%E2%80%AE", "/apis", "/static", "/%"],
)
async def test_every_address_of_the_page_is_its_document(backend: Backend, built: Path, target: str) -> None:
    async with opened(backend, built) as web:
        status, head, body = await sent(web, target)
    assert (status, body) == (200, INDEX)
    assert b"content-type: text/html; charset=utf-8" in head
    assert f"content-security-policy: {POLICY}".lower().encode() in head
    assert head.count(b"content-security-policy") == 1
    for line in (
        b"x-content-type-options: nosniff",
        b"referrer-policy: no-referrer",
        b"cross-origin-opener-policy: same-origin",
        b"cache-control: no-cache",
        b"etag: ",
    ):
        assert line in head
    for name in (b"x-powered-by", b"set-cookie", b"access-control-allow-origin", b"\r\nserver:"):
        assert name not in head


@pytest.mark.parametrize(
    "name, media",
    [
        ("page.1a2b.js", "text/javascript; charset=utf-8"),
        ("page.9f.css", "text/css; charset=utf-8"),
        ("mark.svg", "image/svg+xml"),
    ],
)
async def test_a_file_is_kept_for_good(backend: Backend, built: Path, name: str, media: str) -> None:
    async with opened(backend, built) as web:
        got = await web.http.get(f"/static/{name}")
        known = await web.http.get(f"/static/{name}", headers={"if-none-match": got.headers["etag"]})
        part = await web.http.get(f"/static/{name}", headers={"range": "bytes=0-1"})
        head = await web.http.head(f"/static/{name}")
    assert (got.status_code, got.content) == (200, (built / name).read_bytes())
    assert got.headers["content-type"] == media
    assert got.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert got.headers["content-security-policy"] == POLICY, (
        "an image that is opened alone runs nothing either"
    )
    assert (known.status_code, known.content) == (304, b"")
    assert (part.status_code, part.content) == (200, got.content), "whole or not at all"
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    "target",
    [
        "/static/",
        "/static/../secret.txt",
        "/static/..%2fsecret.txt",
        "/static/%2e%2e/secret.txt",
        "/static/..%5csecret.txt",
        "/static/%2e%2e%2fsecret.txt",
        "/static/%252e%252e%252fsecret.txt",
        "/static/deeper",
        "/static/deeper/../page.1a2b.js",
        "/static//page.1a2b.js",
        "/static/page.1a2b.js%00",
        "/static/page%2e1a2b.js",
        "/static/PAGE.1A2B.JS",
        "/static/%c0%ae%c0%ae/secret.txt",
        "/static//etc/passwd",
        "/static/page.0000.js",
    ],
)
async def test_what_is_no_file_of_the_build_is_not_there(backend: Backend, built: Path, target: str) -> None:
    async with opened(backend, built) as web:
        status, head, body = await sent(web, target)
    assert (status, b"application/problem+json" in head) == (404, True)
    assert b"not for you" not in body
    assert b"no-store" in head, "that it is not there may change"


async def test_the_document_is_known_by_its_tag_until_it_is_another(backend: Backend, built: Path) -> None:
    async with opened(backend, built) as web:
        first = await web.http.get("/jobs")
        assert (await web.http.get("/", headers={"if-none-match": first.headers["etag"]})).status_code == 304
        (built / "page.77.js").write_bytes(b"1")
        (built / "index.html").write_bytes(INDEX + b"<p>new")
        os.utime(built / "index.html", ns=(1, 1))
        new = await web.http.get("/", headers={"if-none-match": first.headers["etag"]})
        assert (new.status_code, new.content) == (200, INDEX + b"<p>new")
        assert (await web.http.get("/static/page.77.js")).content == b"1"
        head = await web.http.head("/jobs/x")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", new.headers["etag"])


async def test_a_checkout_without_a_build_says_how(backend: Backend, tmp_path: Path) -> None:
    async with opened(backend, tmp_path / "static") as web:
        plain = await web.http.get("/jobs/1")
        assert (plain.status_code, plain.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "make page" in plain.text
        assert (await web.http.get("/static/page.js")).status_code == 404


async def test_the_page_is_public_and_data_is_not(backend: Backend, built: Path) -> None:
    async with opened(backend, built, Settings(require_key=True)) as web:
        assert (await web.http.get("/jobs")).content == INDEX
        assert (await web.http.get("/static/page.1a2b.js")).content == SCRIPT
        for path in ("/api", "/api/jobs", "/api/nothing", "/metrics", "/health/nothing"):
            assert (await web.http.get(path)).status_code == 401, path
        assert (await sent(web, "/%61pi/jobs"))[2] == INDEX, (
            "another spelling of it is an address of the page"
        )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_nothing_can_be_said_to_the_page(backend: Backend, built: Path, method: str) -> None:
    async with opened(backend, built) as web:
        answer = await web.http.request(method, "/jobs", headers=as_owner(web.url))
        assert answer.status_code == 404


async def test_another_sites_page_gets_none_of_it(backend: Backend, built: Path) -> None:
    async with opened(backend, built) as web:
        assert (await web.http.get("/", headers={"origin": "https://evil.example"})).status_code == 403
        assert (await web.http.get("/", headers={"host": "evil.example"})).status_code == 421


async def test_visits_are_counted_by_what_they_are(backend: Backend, built: Path) -> None:
    async with opened(backend, built) as web:
        await web.http.get("/jobs/abc")
        await web.http.get("/static/page.1a2b.js")
        await web.http.get("/static/nothing")
        text = (await web.http.get("/metrics", headers=as_owner(web.url))).text
    assert 'holdfast_http_requests_total{method="GET",route="/",status="200"} 1.0' in text
    assert 'route="/static/{file}",status="200"} 1.0' in text
    assert 'route="/static/{file}",status="404"} 1.0' in text
    assert "jobs/abc" not in text
