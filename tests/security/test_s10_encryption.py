"""S10: payloads are encrypted at rest, bound to their place, under keys of their namespace that can be changed."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

import holdfast as hf
from holdfast.agents.configured_agents import session_with
from holdfast.engine.replay_check import replay
from holdfast.engine.verify.verify import verify
from holdfast.errors import InvalidSetting, StoreCorrupt
from holdfast.model.configured_agents import Configuration, HostedAgent
from holdfast.model.envelope import is_sealed
from holdfast.model.hash_chain import unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft
from holdfast.runtime import open_store
from holdfast.runtime.process import Process
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.store.encryption import Codec, PayloadKey, read_keys
from holdfast.store.postgres.open import open_postgres
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance import ALL, Check, bench_on, name_of, run
from tests.agents.waiting import waits_for
from tests.cli.conftest import CommandDesk, desk
from tests.support.fixtures.stores import PostgresBackend, SqliteBackend

__all__ = ["desk"]

PLAIN = "the quick brown kelp"
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(range(1, 33))).decode()


class Encrypted(SqliteBackend):
    async def _open(self) -> Store:
        return await open_sqlite(
            self._path,
            clock=self.clock,
            ids=SequentialIds(next(self._seeds)),
            codec=Codec([PayloadKey("k1", KEY)]),
        )


class EncryptedPostgres(PostgresBackend):
    async def _open(self) -> Store:
        return await open_postgres(
            self._url,
            clock=self.clock,
            ids=SequentialIds(next(self._seeds)),
            codec=Codec([PayloadKey("k1", KEY)]),
        )


SIZES = {"an_expired_answer_is_replaced", "expired_answers_are_cleared_away"}
"""They count the bytes that are stored, and an envelope adds some."""

PARTS = frozenset(
    "claims concurrency journal mailbox payloads sessions short_holds streams submit sweeps turns".split()
)
"""Modules of the conformance kit whose checks store payloads."""


def part_of(check: Check) -> str:
    return check.__module__.rpartition(".")[2]


ON_POSTGRES = [check for check in ALL if part_of(check) in PARTS]
assert {part_of(check) for check in ON_POSTGRES} == PARTS, "a module of the conformance kit was renamed"


@pytest.mark.store("sqlite")
async def test_everything_a_store_promises_holds_on_an_encrypted_one(volatile_folder: Path) -> None:
    report = await run(Encrypted(volatile_folder))
    assert {one.check: one.fault for one in report.failed if one.check not in SIZES} == {}
    assert len(report.results) > 200


@pytest.mark.store("postgres")
@pytest.mark.parametrize("check", ON_POSTGRES, ids=name_of)
async def test_the_same_on_postgres(postgres_database: str, check: Check) -> None:
    async with bench_on(EncryptedPostgres(postgres_database)) as bench:
        await check(bench)


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=pytest.mark.store("sqlite")),
        pytest.param("postgres", marks=pytest.mark.store("postgres")),
    ]
)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_database")
        return url
    return f"sqlite:///{tmp_path / 'test.db'}"


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "keys.json"
    write_keys(file, [("k1", "*", KEY)])
    monkeypatch.setenv("HOLDFAST_PAYLOAD_KEYS", str(file))
    return file


def write_keys(file: Path, keys: list[tuple[str, str, str]]) -> None:
    listed = ",".join(f'{{"id":"{name}","namespace":"{space}","key":"{key}"}}' for name, space, key in keys)
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as opened:
        opened.write(f'{{"keys":[{listed}]}}')


def app_of(where: str, tmp_path: Path) -> hf.App:
    app = hf.App(store=where)

    @app.tool(effect="unsafe")
    async def act(text: str) -> str:
        await hf.emit(f"said {text}")
        return text

    @app.tool(effect="read_only")
    async def fail(text: str) -> None:
        raise ValueError(text)

    @app.agent
    async def worker(text: str) -> Any:
        await act(text)
        try:
            await fail(text)
        except ValueError as error:
            text = str(error)
        return [text * 1000, await hf.wait("word")]

    return app


async def lived(app: hf.App, process: Process) -> None:
    """Input, arguments, results, errors, streams, mail, blobs, sessions, configuration, schedules."""
    worker = app.callees["worker"]
    assert isinstance(worker, hf.Agent)
    job = await worker.start(PLAIN, id="worker")
    await waits_for(process, "worker", "signal")
    await job.signal("word", {"said": PLAIN})
    assert await job.result() == [PLAIN * 1000, {"said": PLAIN}]
    assert (await replay(process.store, "worker", worker.program, clock=SystemClock())).same
    agent = await process.store.agents.create(
        HostedAgent(agent_id="a", name="a", configuration=Configuration(instructions=PLAIN))
    )

    async def host() -> Process:
        return process

    session = session_with(agent, "talk", host)
    await session.attach(PLAIN.encode(), media_type="text/plain")
    await session.send(PLAIN)
    assert PLAIN in str(await session.messages())


async def raw_rows(where: str) -> list[tuple[str, Any]]:
    """Every value of every row, as the database has it."""
    if where.startswith("postgres"):
        db = await asyncpg.connect(where)
        tables = await db.fetch("SELECT schemaname, tablename FROM pg_tables WHERE schemaname = 'holdfast'")
        found = [
            (name, value)
            for schema, name in tables
            for row in await db.fetch(f'SELECT * FROM "{schema}"."{name}"')
            for value in row
        ]
        await db.close()
        return found
    plain = apsw.Connection(where.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)
    names = [name for (name,) in plain.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    found = [
        (name, value) for name in names for row in plain.execute(f'SELECT * FROM "{name}"') for value in row
    ]
    plain.close()
    return found


async def test_nothing_that_was_said_is_readable(where: str, tmp_path: Path, keys: Path) -> None:
    app = app_of(where, tmp_path)
    async with app.running() as process:
        await lived(app, process)
        assert isinstance(process.store, SqlStore)
        report = await verify(process.store)
        assert (report.clean, report.unread) == (True, 0)
    rows = await raw_rows(where)
    readable = {
        name for name, value in rows if isinstance(value, str | bytes) and PLAIN.encode() in _bytes(value)
    }
    assert readable == set()
    sealed = {name for name, value in rows if is_sealed(value)}
    assert sealed >= {"events", "mail", "blobs", "session_nodes", "sessions", "stream_passages", "agents"}
    if where.startswith("sqlite"):
        for file in tmp_path.glob("test.db*"):
            assert PLAIN.encode() not in file.read_bytes()


def _bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


async def test_without_the_key_it_is_said_what_cannot_be_read(
    where: str, tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(where, tmp_path)
    async with app.running() as process:
        await lived(app, process)
    monkeypatch.delenv("HOLDFAST_PAYLOAD_KEYS")
    store = await open_store(where)
    try:
        assert isinstance(store, SqlStore)
        report = await verify(store)
        assert report.clean, report
        assert report.unread > 10
        with pytest.raises(InvalidSetting, match="encrypted with key 'k1'"):
            unseal((await store.journal.read("worker"))[0])
    finally:
        await store.close()


async def test_keys_are_changed_by_adding_one(where: str, tmp_path: Path, keys: Path) -> None:
    for nth, listed in enumerate(([("k1", "*", KEY)], [("k1", "*", KEY), ("k2", "*", OTHER)])):
        write_keys(keys, listed)
        store = await open_store(where)
        await store.jobs.submit(JobDraft(kind="x", job_id=f"job-{nth}", input=PLAIN))
        await store.close()
    used = {value[5:7] for name, value in await raw_rows(where) if name == "events" and is_sealed(value)}
    assert used == {b"k1", b"k2"}
    store = await open_store(where)
    for nth in range(2):
        assert unseal((await store.journal.read(f"job-{nth}"))[0]).input == PLAIN  # type: ignore[attr-defined]
    await store.close()


@pytest.mark.store("sqlite")
async def test_a_payload_that_was_moved_or_changed_is_found(tmp_path: Path, keys: Path) -> None:
    where = f"sqlite:///{tmp_path / 'test.db'}"
    store = await open_store(where)
    for name in ("one", "two"):
        await store.jobs.submit(JobDraft(kind="x", job_id=name, input=PLAIN))
    await store.close()
    for change in (
        "UPDATE events SET body = (SELECT body FROM events WHERE job_id = 'two') WHERE job_id = 'one'",
        "UPDATE events SET body = CAST(substr(body, 1, length(body) - 1) || x'00' AS BLOB) WHERE job_id = 'one'",
    ):
        db = apsw.Connection(str(tmp_path / "test.db"))
        db.execute("INSERT INTO retention_gate VALUES ('test')")
        before = db.execute("SELECT body FROM events WHERE job_id = 'one'").fetchall()[0][0]
        db.execute(change)
        db.close()
        store = await open_store(where)
        with pytest.raises(StoreCorrupt):
            await store.journal.read("one")
        await store.close()
        db = apsw.Connection(str(tmp_path / "test.db"))
        db.execute("UPDATE events SET body = ? WHERE job_id = 'one'", (before,))
        db.execute("DELETE FROM retention_gate")
        db.close()


def test_each_namespace_has_a_key_of_its_own() -> None:
    codec = Codec([PayloadKey("k1", KEY), PayloadKey("k2", OTHER, "acme")])
    one, two = (codec.seal(name, "event/j/1", b"x") for name in ("default", "acme"))
    assert one[5:7] == b"k1"
    assert two[5:7] == b"k2"
    forged = one.replace(b"default\x1f", b"another\x1f")
    with pytest.raises(StoreCorrupt):
        codec.open(forged)
    assert codec.open(one, ("event/j/1",)) == codec.open(two) == b"x"
    with pytest.raises(StoreCorrupt, match="lies at"):
        codec.open(one, ("event/j/2",))
    assert codec.seal("default", "event/j/1", b"x") == one, "the same write again is the same bytes"
    assert codec.seal("default", "event/j/2", b"x")[-17:] != one[-17:]
    assert Codec([PayloadKey("k2", OTHER, "acme")]).seal("default", "p", b"x") == b"x", (
        "no key of its own: as it is"
    )


@pytest.mark.store("sqlite")
def test_at_a_terminal(desk: CommandDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "payload.json"
    assert desk.type("payload-key", str(file)).out == "k1\n"
    assert desk.type("payload-key", str(file), "--namespace", "acme").out == "k2\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert desk.type("db", "migrate").status == 0
    monkeypatch.setenv("HOLDFAST_PAYLOAD_KEYS", str(file))

    async def submit(one: Any) -> None:
        await one.store.jobs.submit(JobDraft(kind="x", job_id="one", input=PLAIN))

    desk.live(submit)
    assert "all hold" in desk.type("db", "verify").out
    monkeypatch.delenv("HOLDFAST_PAYLOAD_KEYS")
    without = desk.type("db", "verify")
    assert (without.status, "1 payloads were not checked" in without.err) == (0, True)
    file.chmod(0o640)
    with pytest.raises(InvalidSetting, match="others can read"):
        read_keys(file)
