"""S1 to S3: where it listens, whose pages may speak to it, and the token that lets its owner write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from holdfast.client import local_token
from holdfast.client.http import RemoteClient
from holdfast.errors import Unauthorized
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import lives
from tests.api.server.api import Api, api, as_owner, must_fit
from tests.api.server.served import served
from tests.api.server.test_serve import serving
from tests.cli.conftest import CommandDesk

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused


def holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "more", [[], ["--insecure"], ["--tls-cert", "/etc/hostname", "--tls-key", "/etc/hostname"]]
)
def test_s01_elsewhere_it_starts_with_keys_only(tmp_path: Path, more: list[str]) -> None:
    where = f"sqlite:///{tmp_path / 'h.db'}"
    for _ in range(2):
        refused = holdfast("serve", "--host", EVERYWHERE, "--port", "0", "--store", where, *more)
        assert (refused.returncode, "holdfast api-key create" in refused.stderr) == (2, True), refused.stderr
        assert holdfast("db", "migrate", "--store", where).returncode == 0  # also with a store that has none


def test_s01_with_keys_it_starts_elsewhere_and_asks(desk: CommandDesk) -> None:
    desk.live(lambda one: one.sleeping())
    key = desk.type("api-key", "create", "--role", "viewer", "--name", "ada", "--why", "to look").out.strip()
    plain = holdfast("serve", "--host", EVERYWHERE, "--port", "0", "--store", desk.where)
    assert (plain.returncode, "--insecure" in plain.stderr) == (2, True), "not in plain text unasked"
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--host", EVERYWHERE, "--port", "0", "--insecure"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        port = line.rpartition(":")[2].partition(";")[0]
        assert "token" not in process.stderr.readline(), "there is none where others could use it"
        url = f"http://127.0.0.1:{port}"
        assert local_token.find_token(url) is None
        assert httpx2.get(url + JOBS).status_code == 401
        assert httpx2.get(url + JOBS, headers={"authorization": f"Bearer {key}"}).status_code == 200
        assert httpx2.get(url + "/health/live").status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


# ── the token of a start ──────────────────────────────────────────────────────────────────────────


def nobody(web: Api) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=web.url, trust_env=False)


async def test_s02_without_the_token_one_may_look_and_not_touch(backend: Backend) -> None:
    async with api(backend) as web, nobody(web) as http:
        job_id = await web.one.sleeping()
        before = await web.picture()
        for path in (JOBS, f"{JOBS}/{job_id}", "/api/needs", "/health"):
            assert (await http.get(path)).status_code == 200
        for said in (
            {},
            {"authorization": "Bearer guess"},
            {"authorization": "Basic x"},
            {"authorization": ""},
        ):
            for method, path in (
                ("POST", JOBS),
                ("POST", f"{JOBS}/{job_id}/stop"),
                ("DELETE", "/api/sessions/s/inbox/b"),
            ):
                answer = await http.request(method, path, json={"kind": "k"}, headers=said)
                must_fit(answer)
                assert answer.status_code == 401, (method, path)
        for admins in ("/api/keys", "/api/audit"):
            assert (await http.get(admins)).status_code == 403, "these are not for whoever passes by"
        assert await web.picture() == before
        assert (await web.ask("POST", JOBS, {"kind": "k"})).status_code == 201


async def test_s02_a_page_gets_nowhere_even_with_the_token(backend: Backend) -> None:
    async with api(backend) as web:
        for origin in ("https://evil.example", "null"):
            await web.refused(403, "not_allowed", "POST", JOBS, {"kind": "k"}, origin=origin)
        await web.refused(421, "not_allowed", "POST", JOBS, {"kind": "k"}, host="evil.example")
        assert (await web.get(JOBS))["items"] == []


async def test_s02_every_start_has_its_own_and_takes_it_away(backend: Backend) -> None:
    async with lives(backend) as one:
        seen = set()
        for _ in range(2):
            async with served(one.store, backend.clock) as url:
                token = local_token.find_token(url)
                assert token is not None
                assert len(token) == 43
                seen.add(token)
                (path,) = [path for path in local_token.folder().iterdir() if path.read_text() == token]
                assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
                assert local_token.find_token(url.replace("127.0.0.1", "localhost")) == token
            assert local_token.find_token(url) is None
        assert len(seen) == 2


async def test_s02_the_client_finds_it_and_finds_it_again(backend: Backend) -> None:
    async with lives(backend) as one, served(one.store, backend.clock) as url, RemoteClient(url) as client:
        assert (await client.submit("k", job_id="j1")).created
        token = str(local_token.find_token(url))
        local_token.write_token(url, "of an earlier start")
        late = RemoteClient(url)
        with pytest.raises(Unauthorized):
            await late.submit("k", job_id="j2")
        local_token.write_token(url, token)  # the server was started anew
        assert (await late.submit("k", job_id="j2")).created
        await late.close()


def test_s02_a_file_that_others_can_read_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = local_token.write_token("http://[::1]:8080", "t")
    assert (
        local_token.find_token("http://[::1]:8080") == local_token.find_token("http://localhost:8080") == "t"
    )
    path.chmod(0o644)
    assert local_token.find_token("http://[::1]:8080") is None
    assert local_token.find_token("http://api.example.org:8080") is None, "a token stays on its machine"
    local_token.remove_token("http://[::1]:8080", "another's")
    assert path.exists()


def test_s02_the_address_is_printed_with_it(desk: CommandDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.live(lambda one: one.sleeping())
    with serving(desk.where) as (process, url):
        assert process.stderr is not None
        assert process.stderr.readline().strip() == f"{url}/#token={local_token.find_token(url)}"
        monkeypatch.setenv("HOLDFAST_API_URL", url)
        job_id = desk.type("jobs", "--json").json["job_id"]
        assert desk.type("cancel", job_id, "--why", "enough").status == 0, (
            "commands find the token by themselves"
        )
        monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
        refused = desk.type("cancel", job_id, "--why", "enough")
        assert (refused.status, "[unauthorized]" in refused.err) == (2, True)


def test_s02_a_server_without_a_home_starts_and_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", os.devnull)
    with serving(f"sqlite:///{tmp_path / 'h.db'}") as (process, url):
        assert process.stderr is not None
        said = process.stderr.readline()
        token = said.strip().partition("/#token=")[2]
        assert len(token) == 43, said
        headers = {"authorization": f"Bearer {token}"}
        assert httpx2.post(url + JOBS, json={"kind": "k"}, headers=headers).status_code == 201


async def test_s03_no_cookie_is_set_or_heard(backend: Backend) -> None:
    async with api(backend) as web, nobody(web) as http:
        token = as_owner(web.url)["authorization"].removeprefix("Bearer ")
        said = {"cookie": f"token={token}; authorization=Bearer {token}"}
        answer = await http.post(f"{JOBS}?token={token}", json={"kind": "k"}, headers=said)
        assert answer.status_code == 401, "a token is said in a header that no page can set"
        assert "set-cookie" not in (await web.ask("POST", JOBS, {"kind": "k"})).headers
