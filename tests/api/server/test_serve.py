"""`holdfast serve` as people start it: a process, its address, the commands through it, a restart, its end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import nats
import pytest

from holdfast.store.clock import pause
from tests.api.server.api import as_owner
from tests.cli.conftest import CommandDesk, desk
from tests.support.servers import NatsServer

__all__ = ["desk"]

pytestmark = pytest.mark.store("sqlite")
BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)


def holdfast(*arguments: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.Popen(
        command, env=os.environ | env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@contextmanager
def serving(where: str, *more: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of its own process, and its address as it says it."""
    process = holdfast("serve", "--store", where, "--port", str(port), *more)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        while "NATS" in line:  # it is looked for before anybody is told that the server is up
            line = process.stderr.readline()
        found = re.match(r"listening on (http://127\.0\.0\.1:\d+);", line)
        assert found, line + process.stderr.read()
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


@BOTH
def test_commands_go_through_the_server(desk: CommandDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment names no store that exists: what is seen and said came over HTTP."""
    asking = desk.live(lambda one: one.asking())
    dead = desk.live(lambda one: one.dead())
    with serving(desk.where) as (_, url):
        monkeypatch.setenv("HOLDFAST_API_URL", url)
        monkeypatch.setenv("HOLDFAST_STORE", "sqlite:////nowhere/at/all.db")
        assert {one["job_id"] for one in desk.type("jobs", "--json").lines} == {asking, dead}
        assert desk.type("job", asking, "--json").json["wait_reason"] == "approval"
        assert desk.type("approve", asking, "--why", "fine", "--json").json["job_id"] == asking
        again = desk.type("deny", asking, "--why", "no")
        assert (again.status, "[conflict]" in again.err) == (4, True)
        assert desk.type("dead", "requeue", dead, "--json").json["at_once"] is True
        assert desk.type("verify", dead).status == 0
        assert desk.type("trace", dead).status == 0
        missing = desk.type("job", "nobody")
        assert (missing.status, "[not_found]" in missing.err) == (3, True)
        typed = desk.type("jobs", "--store", "sqlite:////nowhere/at/all.db")
        assert typed.status == 3, "a store that is typed is meant"
    gone = desk.type("jobs")
    assert (gone.status, "holdfast serve" in gone.err) == (5, True)


@BOTH
def test_what_was_answered_outlives_the_server(desk: CommandDesk) -> None:
    desk.live(lambda one: one.sleeping())
    with serving(desk.where) as (process, url):
        made = httpx2.post(
            f"{url}/api/jobs", json={"kind": "k"}, headers=as_owner(url) | {"Idempotency-Key": "k1"}
        )
        assert made.status_code == 201
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        with serving(desk.where, port=int(url.rpartition(":")[2])) as (_, same):
            assert same == url
            again = httpx2.post(
                f"{url}/api/jobs", json={"kind": "k"}, headers=as_owner(url) | {"Idempotency-Key": "k1"}
            )
            assert again.json() == made.json() | {"created": False}
            assert len(httpx2.get(f"{url}/api/jobs").json()["items"]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_told_to_stop_finishes_what_it_began(desk: CommandDesk, number: int) -> None:
    """A stream is cut without an end, a request that waits is answered, and nobody else is let in."""
    job_id = desk.live(lambda one: one.sleeping())

    async def people(process: subprocess.Popen[str], url: str) -> tuple[list[str], bytes]:
        host, port = url.removeprefix("http://").split(":")
        async with (
            httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30) as http,
            http.stream("GET", f"/api/jobs/{job_id}/stream") as stream,
        ):
            lines = stream.aiter_lines()
            assert await anext(lines) == ": still here"
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                f"GET /api/jobs/{job_id}?wait_ms=1500 HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
            )
            # What came before this was answered has been taken by the server.
            assert (await http.get("/health/live")).status_code == 200
            process.send_signal(number)
            rest, waited = [line async for line in lines], await reader.read()
            writer.close()
            return rest, waited

    with serving(desk.where) as (process, url):
        rest, waited = asyncio.run(people(process, url))
        assert not any(line.startswith("event: end") for line in rest)
        assert waited.startswith(b"HTTP/1.1 200")
        assert json.loads(waited.partition(b"\r\n\r\n")[2])["status"] == "waiting"
        _, err = process.communicate(timeout=20)
        assert "Traceback" not in err
        assert process.returncode in {-signal.SIGTERM, 130}


def test_it_does_not_listen_elsewhere_unasked(tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path / 'h.db'}"
    process = holdfast("serve", "--host", "0.0.0.0", "--port", "0", "--store", where)  # noqa: S104
    _, err = process.communicate(timeout=60)
    assert (process.returncode, "holdfast api-key create" in err) == (2, True)
    assert not (tmp_path / "h.db").exists()


def test_a_store_that_does_not_open_is_said_plainly(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_bytes(b"not a database, but long enough to look at" * 100)
    process = holdfast("serve", "--port", "0", "--store", f"sqlite:///{tmp_path / 'h.db'}")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert "[foreign_file]" in err
    assert "Traceback" not in err


def test_a_new_store_is_made_for_a_new_server(tmp_path: Path) -> None:
    with serving(f"sqlite:///{tmp_path / 'h.db'}") as (_, url):
        assert json.loads(httpx2.get(f"{url}/health").text)["status"] == "ok"


def test_nats_is_joined_when_the_environment_names_it(
    desk: CommandDesk, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`holdfast serve` answers over NATS, is degraded while there is none, and refuses an address that is none."""
    monkeypatch.setenv("HOLDFAST_NATS_URL", nats_server.url)
    with serving(desk.where) as (process, url):
        told = asyncio.run(_over_nats(nats_server.url))
        assert (told["status"], told["body"]) == (200, httpx2.get(f"{url}/api/stats").json())
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
    monkeypatch.setenv("HOLDFAST_NATS_URL", "nats://u:hush-hush-17@127.0.0.1:1")
    with serving(desk.where) as (process, url):
        assert httpx2.get(f"{url}/health").json()["degraded"] == ["nats"]
        assert httpx2.get(f"{url}/health/ready").status_code == 200
        process.terminate()
        _, said = process.communicate(timeout=30)
        assert "no NATS server listens at 127.0.0.1:1" in said
        assert "hush" not in said
    monkeypatch.setenv("HOLDFAST_NATS_URL", "http://u:hush-hush-17@host")
    refused = holdfast("serve", "--store", desk.where, "--port", "0")
    _, said = refused.communicate(timeout=30)
    assert refused.returncode == 2
    assert "HOLDFAST_NATS_URL" in said
    assert "hush" not in said


async def _over_nats(url: str) -> dict[str, Any]:
    """What the first server to answer says."""
    async with await nats.connect(url) as client, asyncio.timeout(30):
        while True:
            try:
                answer = await client.request("holdfast.api", b'{"method":"GET","path":"/api/stats"}')
            except nats.errors.Error:
                await pause(0.05)
            else:
                told: dict[str, Any] = json.loads(answer.data)
                return told
