"""What does not fit gets a problem that says where and what now, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.model.limits import BODY_BYTES_MAX
from holdfast.model.page import Key, encode_cursor
from holdfast.server.request import pointer_of
from holdfast.server.settings import Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api, as_owner

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"
BOTH = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)

BODIES: dict[str, tuple[bytes, int, str, str | None]] = {
    "not JSON": (b"{kind: 1}", 400, "invalid_payload", None),
    "cut": (b'{"kind": "k"', 400, "invalid_payload", None),
    "not UTF-8": (b'{"kind": "\xff"}', 400, "invalid_payload", None),
    "NaN": (b'{"kind": "k", "input": NaN}', 400, "invalid_payload", None),
    "Infinity": (b'{"kind": "k", "input": 1e999}', 400, "invalid_payload", None),
    "twice": (b'{"kind": "k", "input": {"a": 1, "a": 2}}', 400, "invalid_payload", None),
    "deep": (b'{"kind": "k", "input": ' + b"[" * 100 + b"]" * 100 + b"}", 400, "invalid_payload", None),
    "very deep": (b"[" * 500_000, 400, "invalid_payload", None),
    "large number": (b'{"kind": "k", "input": 99999999999999999999}', 400, "invalid_payload", None),
    "nothing": (b"", 422, "invalid_payload", ""),
    "a list": (b"[]", 422, "invalid_payload", ""),
    "wrong type": (b'{"kind": 1}', 422, "invalid_payload", "/kind"),
    "bool for number": (b'{"kind": "k", "priority": true}', 422, "invalid_payload", "/priority"),
    "beyond": (b'{"kind": "k", "priority": 11}', 422, "invalid_payload", "/priority"),
    "unknown field": (b'{"kind": "k", "imput": 1}', 422, "invalid_payload", ""),
    "control in id": (b'{"kind": "k", "id": "a\\u0000b"}', 422, "invalid_name", None),
    "surrogate in id": (b'{"kind": "k", "id": "a\\ud800"}', 422, "invalid_name", None),
    "empty id": (b'{"kind": "k", "id": ""}', 422, "invalid_name", None),
    "long id": (b'{"kind": "k", "id": "' + b"x" * 201 + b'"}', 422, "invalid_name", None),
    "control in kind": (b'{"kind": "\\n"}', 422, "invalid_name", None),
}


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_does_not_fit(backend: Backend, name: str) -> None:
    content, status, code, pointer = BODIES[name]
    async with api(backend) as web:
        before = await web.picture()
        problem = await web.refused(status, code, "POST", JOBS, content=content)
        assert problem.get("pointer") == pointer
        assert await web.picture() == before


REQUESTS: dict[str, tuple[str, str, int, str]] = {
    "unknown path": ("GET", "/api/nothing", 404, "not_found"),
    "the root": ("GET", "/", 404, "not_found"),
    "a slash too many": ("GET", "/api/jobs/", 422, "invalid_name"),
    "two slashes": ("GET", "//api/jobs", 404, "not_found"),
    "dots": ("GET", "/api/../api/jobs/x/../../stats/none", 404, "not_found"),
    "another method": ("PUT", "/api/jobs", 405, "not_allowed"),
    "preflight": ("OPTIONS", "/api/jobs", 405, "not_allowed"),
    "trace": ("TRACE", "/api/jobs", 405, "not_allowed"),
    "unknown query": ("GET", "/api/jobs?colour=red", 422, "invalid_payload"),
    "said twice": ("GET", "/api/jobs?limit=1&limit=2", 422, "invalid_payload"),
    "limit of words": ("GET", "/api/jobs?limit=many", 422, "invalid_payload"),
    "limit of nothing": ("GET", "/api/jobs?limit=0", 422, "invalid_payload"),
    "limit of all": ("GET", "/api/jobs?limit=1001", 422, "invalid_payload"),
    "a status that is none": ("GET", "/api/jobs?status=happy", 422, "invalid_payload"),
    "a reason that is none": ("GET", "/api/jobs?wait_reason=happy", 422, "invalid_payload"),
    "a cursor of ours, edited": ("GET", "/api/jobs?cursor=abc", 422, "invalid_payload"),
    "control in a filter": ("GET", "/api/jobs?kind=a%00b", 422, "invalid_name"),
    "control in a session": ("GET", "/api/jobs?session_id=%00", 422, "invalid_name"),
    "query not UTF-8": ("GET", "/api/jobs?kind=%ff", 422, "invalid_payload"),
    "control in a path": ("GET", "/api/jobs/a%00b", 422, "invalid_name"),
    "control in a session's path": ("GET", "/api/sessions/a%00b", 422, "invalid_name"),
    "control in a batch": ("DELETE", "/api/sessions/s1/inbox/%00", 422, "invalid_name"),
    "path not UTF-8": ("GET", "/api/jobs/%ff", 422, "invalid_name"),
    "long id": ("GET", "/api/jobs/" + "x" * 201, 422, "invalid_name"),
    "events before the first": ("GET", "/api/jobs/x/events?after=-1", 422, "invalid_payload"),
    "too many events": ("GET", "/api/jobs/x/events?limit=1001", 422, "invalid_payload"),
    "events beyond any": ("GET", "/api/jobs/x/events?after=99999999999999999999", 422, "invalid_payload"),
    "waiting too long": ("GET", "/api/jobs/x?wait_ms=30001", 422, "invalid_payload"),
}


@BOTH
async def test_requests_that_make_no_sense(backend: Backend) -> None:
    async with api(backend) as web:
        await web.post(JOBS, {"kind": "k", "id": "x"})
        before = await web.picture()
        for name, (method, path, status, code) in REQUESTS.items():
            response = await web.ask(method, path)
            assert (name, response.status_code, response.json()["code"]) == (name, status, code)
        assert await web.picture() == before
        allowed = (await web.ask("PUT", "/api/jobs")).headers["allow"]
        assert allowed == "GET, HEAD, POST"


FORGED: list[tuple[Key, ...]] = [
    ("\x00",),
    (1,),
    (None,),
    (),
    ("a", "b", "c"),
    ("\ud800",),
    (2**63 - 1, "x", "y", 1),
]


@BOTH
@pytest.mark.parametrize("where", ["jobs", "needs", "approvals", "dead-letters"])
async def test_a_cursor_that_somebody_made_up(backend: Backend, where: str) -> None:
    """It is no secret how they are made: one that was made up is refused, or leads somewhere harmless."""
    async with api(backend) as web:
        await web.one.asking()
        for kind in ("jobs", where):
            for keys in FORGED:
                response = await web.ask("GET", f"/api/{where}?cursor={encode_cursor(kind, *keys)}")
                assert response.status_code in {200, 422}, (kind, keys, response.text)


WORDS: dict[str, tuple[str, Any, int, str]] = {
    "no name": ("signal", {"body": 1}, 422, "invalid_payload"),
    "control in a name": ("signal", {"name": "a\x00"}, 422, "invalid_name"),
    "control in who": ("stop", {"by": "\x07"}, 422, "invalid_name"),
    "control in the key": ("stop", {"operation_id": "\x07"}, 422, "invalid_name"),
    "a choice that is none": ("resume", {"choice": "perhaps"}, 422, "invalid_payload"),
    "nobody": ("steps/x/reconcile", {"decision": "skip", "why": "w", "by": ""}, 404, "not_found"),
    "limits of nothing": ("raise", {"limits": {"usd_micros": -1}, "by": "a"}, 422, "invalid_payload"),
    "limits unknown": ("raise", {"limits": {"dollars": 1}, "by": "a"}, 422, "invalid_payload"),
    "at nothing": ("fork", {"at": None}, 422, "invalid_payload"),
    "at half": ("fork", {"at": 1.5}, 422, "invalid_payload"),
}


@BOTH
async def test_words_that_make_no_sense(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.sleeping()
        before = await web.picture()
        for name, (where, body, status, code) in WORDS.items():
            response = await web.ask("POST", f"{JOBS}/{job_id}/{where}", body)
            assert (name, response.status_code, response.json()["code"]) == (name, status, code)
        key = await web.ask("POST", f"{JOBS}/{job_id}/stop", {}, idempotency_key="x" * 201)
        assert (key.status_code, key.json()["code"]) == (422, "invalid_name")
        inbox = "/api/sessions/s1/inbox"
        bad: Any
        for bad in ({"items": []}, {"items": [{"kind": "\x00"}]}, {"items": 1}, NEW | {"merge_key": "maybe"}):
            assert (await web.ask("POST", inbox, bad)).status_code == 422
        assert await web.picture() == before


NEW = {"items": [{"kind": "turn_input", "payload": 1}]}


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(backend: Backend) -> None:
    """By its length alone: nothing of it was sent when the answer came."""
    async with api(backend) as web:
        await web.refused(413, "too_large", "POST", JOBS, content=b'"' + b"x" * BODY_BYTES_MAX + b'"')
        host, port = web.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {JOBS} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        head += f"Authorization: {as_owner(web.url)['authorization']}\r\n"
        writer.write(f"{head}Content-Length: {BODY_BYTES_MAX + 1}\r\n\r\n".encode())
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"connection: close" in answer.lower()
        writer.close()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        writer.write(chunk * (BODY_BYTES_MAX // 0x10000 + 1))
        assert (await reader.read()).startswith(b"HTTP/1.1 413")
        writer.close()
        assert (await web.get(JOBS))["items"] == []


async def test_a_body_that_does_not_come_is_given_up(backend: Backend) -> None:
    async with api(backend, Settings(body_timeout_s=0.05)) as web:
        host, port = web.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {JOBS} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        head += f"Authorization: {as_owner(web.url)['authorization']}\r\n"
        writer.write(f'{head}Content-Length: 100\r\n\r\n{{"kind'.encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 408")
        writer.close()


@pytest.mark.parametrize(
    "place, pointer", [("", ""), (".a", "/a"), (".items[0].kind", "/items/0/kind"), (".a~b", "/a~0b")]
)
def test_a_place_becomes_a_pointer(place: str, pointer: str) -> None:
    assert pointer_of(place) == pointer
