"""S4 and S25: keys are shown once, kept as a digest, over when they are over, and tell nobody why they do not open."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.client.http import RemoteClient
from holdfast.client.keys import create_key, new_key_id, revoke_key
from holdfast.errors import Forbidden, Unauthorized
from holdfast.model.access import ApiKey, Role, is_valid, key_digest, key_text, parse_key
from holdfast.model.time import MINUTE, SECOND
from holdfast.server.access import BELIEVED_US, Gate
from holdfast.server.settings import Settings
from holdfast.store.contract import Store
from holdfast.store.interceptor import InterceptedStore
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import lives
from tests.api.server.served import served
from tests.cli.conftest import CommandDesk
from tests.security.people import ELSEWHERE, town

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"
BOTH = pytest.mark.parametrize("desk", ["sqlite", "postgres"], indirect=True)


def id_of(said: dict[str, str]) -> str:
    parsed = parse_key(said["authorization"].removeprefix("Bearer "))
    assert parsed is not None
    return parsed[0]


def test_s04_a_key_is_an_id_and_256_bits() -> None:
    ids = {new_key_id() for _ in range(100)}
    assert len(ids) == 100
    text = key_text(new_key_id(), "s" * 43)
    assert parse_key(text) == (text[3:19], "s" * 43)
    for wrong in (
        "",
        "hf_",
        text[:-1],
        text + "x",
        text.upper(),
        text.replace(".", "_"),
        " " + text,
        text + "\n",
    ):
        assert parse_key(wrong) is None


def test_s04_a_digest_belongs_to_its_store_and_its_id() -> None:
    digest = key_digest("store-1", "k1", "secret")
    assert len(digest) == 32
    assert digest == key_digest("store-1", "k1", "secret")
    assert len({digest, key_digest("store-2", "k1", "secret"), key_digest("store-1", "k2", "secret")}) == 3
    key = ApiKey(key_id="k1", digest=digest, roles=(Role.VIEWER,), name="a", expires_at=10)
    assert is_valid(key, "store-1", "k1", "secret", now=9)
    assert not is_valid(key, "store-1", "k1", "secret", now=10)
    assert not is_valid(key, "store-1", "k1", "Secret", now=9)
    assert not is_valid(None, "store-1", "k1", "secret", now=9)
    assert not is_valid(msgspec.structs.replace(key, revoked_at=1), "store-1", "k1", "secret", now=9)


@BOTH
def test_s04_the_command_makes_lists_and_revokes(desk: CommandDesk) -> None:
    desk.live(lambda one: one.sleeping())
    why = ("--why", "nightly runs")
    made = desk.type("api-key", "create", "--role", "operator", "--role", "viewer", "--name", "ci", *why)
    key = made.out.strip()
    assert re.fullmatch(r"hf_[0-9a-z]{16}\.[\w-]{43}", key)
    told = desk.type(
        "api-key", "create", "--role", "viewer", "--name", "ada", "--expires-in", "90d", *why, "--json"
    ).json
    assert (told["roles"], told["namespace"], "digest" in told) == (["viewer"], "default", False)
    listed = desk.type("api-key", "list", "--json")
    assert {one["name"]: one["roles"] for one in listed.lines} == {
        "ci": ["operator", "viewer"],
        "ada": ["viewer"],
    }
    for shown in (listed.out, desk.type("api-key", "list").out, desk.type("audit", "--json").out):
        assert key.partition(".")[2] not in shown
        assert told["key"].partition(".")[2] not in shown
    assert desk.type("api-key", "revoke", told["key_id"], "--why", "left").status == 0
    assert desk.type("api-key", "revoke", "nobody", "--why", "x").status == 3
    assert [(one["what"], one["who"], one["reason"]) for one in desk.type("audit", "--json").lines] == [
        ("key.create", "ada", "nightly runs"),
        ("key.create", "ada", "nightly runs"),
        ("key.revoke", "ada", "left"),
    ]
    for wrong in (
        ("--role", "viewer", "--name", "a"),  # S26: no reason
        ("--role", "king", "--name", "a", *why),
        ("--role", "agent", "--name", "a", *why),
        ("--role", "viewer", "--name", "a", "--expires-in", "soon", *why),
    ):
        assert desk.type("api-key", "create", *wrong).status == 2, wrong
    nowhere = ("--role", "viewer", "--name", "a", "--namespace", "new", *why)
    assert desk.type("api-key", "create", *nowhere).status == 3
    assert desk.type("api-key", "create", *nowhere, "--make-namespace").status == 0


def test_s04_no_file_of_the_store_has_the_secret(desk: CommandDesk, tmp_path: Path) -> None:
    desk.live(lambda one: one.sleeping())
    key = desk.type("api-key", "create", "--role", "viewer", "--name", "ci", "--why", "x").out.strip()
    key_id, secret = key.removeprefix("hf_").split(".")
    folder = Path(desk.where.removeprefix("sqlite:///")).parent
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert any(key_id.encode() in data for data in files)
    assert not any(secret.encode() in data for data in files)


async def test_s04_a_key_comes_by_the_client_and_by_its_environment(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with town(backend) as web:
        said = await web.key(Role.OPERATOR)
        key = said["authorization"].removeprefix("Bearer ")
        async with RemoteClient(web.url, key=key) as client:
            assert (await client.submit("k", job_id="j1")).created
            with pytest.raises(Forbidden, match="decide"):
                await client.approve("j1", by="ada")
        monkeypatch.setenv("HOLDFAST_API_KEY", key)
        async with RemoteClient(web.url) as client:
            assert not (await client.submit("k", job_id="j1")).created
        monkeypatch.setenv("HOLDFAST_API_KEY", key[:-1] + ("a" if key[-1] != "a" else "b"))
        async with RemoteClient(web.url) as client:
            with pytest.raises(Unauthorized):
                await client.get("j1")


# ── over ──────────────────────────────────────────────────────────────────────────────────────────


async def test_s04_a_revoked_key_opens_nothing_within_five_seconds(backend: Backend) -> None:
    """Two servers, and the store changed under both."""
    async with town(backend) as web, served(web.one.store, backend.clock) as other:
        said = await web.key(Role.VIEWER)
        for _ in range(2):
            assert (await web.ask("GET", JOBS, **said)).status_code == 200
            assert (await web.http.get(other + JOBS, headers=said)).status_code == 200
        await revoke_key(web.one.store, id_of(said), who="ada", why="lost")
        backend.clock.advance(5 * SECOND - 1)
        await web.refused(401, "unauthorized", "GET", JOBS, **said)
        assert (await web.http.get(other + JOBS, headers=said)).status_code == 401
    assert BELIEVED_US < 5 * SECOND


async def test_s04_a_key_revoked_through_a_server_is_over_there_at_once(backend: Backend) -> None:
    async with town(backend) as web:
        admin, said = await web.key(Role.ADMIN), await web.key(Role.VIEWER)
        assert (await web.ask("GET", JOBS, **said)).status_code == 200
        await web.post(f"/api/keys/{id_of(said)}/revoke", {"why": "lost"}, **admin)
        await web.refused(401, "unauthorized", "GET", JOBS, **said)
        assert (await web.acts())[-1].what == "key.revoke"


async def test_s04_a_key_expires(backend: Backend) -> None:
    async with town(backend) as web:
        said = await web.key(Role.VIEWER, expires_at=backend.clock.wall_us() + SECOND)
        assert (await web.ask("GET", JOBS, **said)).status_code == 200
        backend.clock.advance(SECOND)
        await web.refused(401, "unauthorized", "GET", JOBS, **said)


async def test_s04_two_keys_overlap(backend: Backend) -> None:
    """Rotation: the new one opens before the old one is taken back."""
    async with town(backend) as web:
        old, new = await web.key(Role.VIEWER, name="ci"), await web.key(Role.VIEWER, name="ci")
        assert [(await web.ask("GET", JOBS, **said)).status_code for said in (old, new)] == [200, 200]
        await revoke_key(web.one.store, id_of(old), who="ada", why="rotated")
        backend.clock.advance(BELIEVED_US)
        assert [(await web.ask("GET", JOBS, **said)).status_code for said in (old, new)] == [401, 200]


async def test_s04_a_stream_ends_with_its_key(backend: Backend) -> None:
    async with town(backend, Settings(recheck_s=0.01)) as web:
        job_id = await web.one.sleeping()
        said = await web.key(Role.VIEWER)
        async with web.http.stream("GET", f"{JOBS}/{job_id}/stream", headers=said) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": still here"
            await revoke_key(web.one.store, id_of(said), who="ada", why="lost")
            backend.clock.advance(BELIEVED_US)
            assert not [line async for line in lines if line.startswith("event: end")], "it is cut off"


async def test_s04_an_answer_that_took_long_is_not_given_to_a_revoked_key(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that waits for a job to end; meanwhile its key is taken back."""
    async with town(backend) as web:
        job_id = await web.one.sleeping()
        said = await web.key(Role.VIEWER)
        waits, wait = asyncio.Event(), web.one.store.wakeups.wait

        async def noted(*asked: Any) -> Any:
            waits.set()
            return await wait(*asked)

        monkeypatch.setattr(web.one.store.wakeups, "wait", noted)
        answer = asyncio.create_task(web.ask("GET", f"{JOBS}/{job_id}?wait_ms=20000", **said))
        await waits.wait()
        await revoke_key(web.one.store, id_of(said), who="ada", why="lost")
        backend.clock.advance(BELIEVED_US)
        await web.one.client.cancel(job_id)
        assert (await answer).status_code == 401


async def test_s04_the_last_use_is_written_once_a_minute(backend: Backend) -> None:
    async with town(backend) as web:
        said = await web.key(Role.VIEWER)
        start = backend.clock.wall_us()
        for passed, used in ((0, 0), (MINUTE - 1, 0), (1, MINUTE)):
            backend.clock.advance(passed)
            await web.ask("GET", JOBS, **said)
            key = await web.one.store.keys.find(id_of(said))
            assert key is not None
            assert key.last_used_at == start + used


# ── what a stranger learns ────────────────────────────────────────────────────────────────────────


async def test_s25_no_key_says_why_it_does_not_open(backend: Backend) -> None:
    """Absent, malformed, unknown, wrong, expired, revoked: the same words, and nothing of where they were sent."""
    async with town(backend) as web:
        said = await web.key(Role.ADMIN)
        good = said["authorization"]
        over = await web.key(Role.ADMIN, expires_at=backend.clock.wall_us())
        gone = await web.key(Role.ADMIN)
        await revoke_key(web.one.store, id_of(gone), who="ada", why="lost")
        wrong = good[:-1] + ("a" if good[-1] != "a" else "b")
        tried = [
            None,
            "",
            "Bearer",
            "Bearer x",
            "Basic YTpi",
            wrong,
            over["authorization"],
            gone["authorization"],
        ]
        tried += [f"Bearer hf_{new_key_id()}.{'s' * 43}", good.replace("Bearer", "Token")]
        seen = set()
        for path in (JOBS, f"{JOBS}/nobody", "/api/nothing/here", "/api/keys"):
            for one in tried:
                headers = {} if one is None else {"authorization": one}
                answer = await web.ask("GET", path, x_request_id="r-1", **headers)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (
                    401,
                    'Bearer realm="holdfast"',
                )
                seen.add(answer.text)
        assert len(seen) == 1
        (text,) = seen
        assert not any(word in text for word in ("SELECT", "sqlite", "default", "Traceback"))


@pytest.mark.parametrize("known", [True, False], ids=["wrong", "unknown"])
async def test_s25_an_unknown_key_costs_what_a_wrong_one_does(
    backend: Backend, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the same work. Method: count what is asked of the store and how many digests are made."""
    calls: list[str] = []
    digests: list[str] = []

    async def around(name: str, call: Any, args: Any, options: Any) -> Any:
        calls.append(name)
        return await call(*args, **options)

    def counted(store_id: str, key_id: str, secret: str) -> bytes:
        digests.append(key_id)
        return key_digest(store_id, key_id, secret)

    async with lives(backend) as one:
        store: Store = InterceptedStore(one.store, around)
        _, text = await create_key(store, [Role.VIEWER], name="a", who="b", why="c")
        text = text[:-1] + ("a" if text[-1] != "a" else "b") if known else f"hf_{new_key_id()}.{'s' * 43}"
        gate = Gate(store, backend.clock, token="t" * 43, require_key=False)
        calls.clear()
        monkeypatch.setattr("holdfast.model.access.key_digest", counted)
        for _ in range(2):
            with pytest.raises(Exception, match="needs an API key"):
                await gate._named(f"Bearer {text}")
        assert (calls, len(digests)) == (["keys.find"], 2)


async def test_s05_a_key_is_made_over_http_and_shown_once(backend: Backend) -> None:
    async with town(backend) as web:
        admin = await web.key(Role.ADMIN, namespace=ELSEWHERE)
        new = {"name": "ci", "roles": ["operator"], "why": "nightly", "expires_in_s": 60}
        made = await web.ask("POST", "/api/keys", new, idempotency_key="r1", **admin)
        assert (made.status_code, made.json()["namespace"]) == (201, ELSEWHERE), "where its maker is"
        again = await web.ask("POST", "/api/keys", new, idempotency_key="r1", **admin)
        assert (again.status_code, again.json()) == (200, made.json() | {"key": None})
        await web.refused(
            409, "key_reused", "POST", "/api/keys", new | {"roles": ["admin"]}, idempotency_key="r1", **admin
        )
        await web.refused(422, "invalid_payload", "POST", "/api/keys", new | {"why": " "}, **admin)
        said = {"authorization": f"Bearer {made.json()['key']}"}
        assert (await web.ask("POST", JOBS, {"kind": "k"}, **said)).status_code == 201
        listed = await web.ask("GET", "/api/keys", **admin)
        assert made.json()["key"].partition(".")[2] not in listed.text
        backend.clock.advance(60 * SECOND)
        await web.refused(401, "unauthorized", "GET", JOBS, **said)


async def test_s06_what_is_said_with_a_key_is_said_by_it(backend: Backend) -> None:
    """Every word in a journal names the key that it came with, whoever the caller says to be."""
    async with town(backend) as web:
        said = await web.key(Role.OPERATOR, name="ci")
        for by, named in (("ada", f"ada (key {id_of(said)})"), ("", f"ci ({id_of(said)})")):
            job_id = await web.one.sleeping()
            await web.post(f"{JOBS}/{job_id}/stop", {"by": by, "why": "enough"}, **said)
            events = await web.one.client.events(job_id)
            assert [one.body["by"] for one in events if one.type == "cancel_requested"] == [named]


async def test_s05_an_id_of_another_namespace_tells_nothing(backend: Backend) -> None:
    async with town(backend) as web:
        mine, theirs = await web.key(Role.OPERATOR), await web.key(Role.OPERATOR, namespace=ELSEWHERE)
        await web.post(JOBS, {"kind": "k", "id": "j1", "input": "secret"}, **mine)
        taken = await web.refused(
            409, "key_reused", "POST", JOBS, {"kind": "k", "id": "j1", "input": "secret"}, **theirs
        )
        assert taken["details"]["stored"] == "", "not even a digest to compare a guess with"
        first = await web.ask("GET", f"{JOBS}?limit=1", **mine)
        await web.post(JOBS, {"kind": "k", "id": "j2"}, **mine)
        cursor = (await web.ask("GET", f"{JOBS}?limit=1", **mine)).json()["next"]
        assert first.json()["items"]
        assert cursor
        borrowed = await web.ask("GET", f"{JOBS}?limit=1&cursor={cursor}", **theirs)
        assert (borrowed.status_code, borrowed.json()["items"]) == (200, [])
