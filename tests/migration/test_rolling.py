"""An upgrade that rolls: yesterday's code and today's on one database, at the same time and in both directions.

Yesterday's code is not imitated: it is in `previous/`, as it was, and runs in processes of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.verify.verify import verify
from holdfast.model.states import Status
from holdfast.store.sql.migrate import MIN_READER, SCHEMA_VERSION
from holdfast.store.tables.store import SqlStore
from tests.migration.grounds import BOTH, Ground, PostgresGround, SqliteGround
from tests.tidy.source import ROOT

HERE = Path(__file__).parent
YESTERDAY = HERE / "previous" / "schema_21.zip"
OLD = 21

pytestmark = pytest.mark.parametrize("ground", BOTH, indirect=True)


@pytest.fixture
def ground(request: pytest.FixtureRequest, volatile_folder: Path) -> Ground:
    """A database of its own: whoever is told nothing else uses the schema `holdfast` in it."""
    if request.param == "postgres":
        return PostgresGround(request.getfixturevalue("postgres_database"))
    return SqliteGround(str(volatile_folder / "store.db"))


class Member:
    """A worker in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    async def hear(self) -> Any:
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line, self.process.communicate()[1]
        return json.loads(line)

    async def ask(self, **asked: Any) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return await self.hear()

    async def submit(self, name: str, numbers: range, behind: str) -> list[str]:
        ids = {f"{name}-{number}": number for number in numbers}
        assert await self.ask(submit=ids, behind=behind) == list(ids)
        return list(ids)

    async def wait(self, ids: list[str]) -> None:
        expected = {job_id: str(2 * int(job_id.rpartition("-")[2])) for job_id in ids}
        assert await self.ask(wait=ids) == expected

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def unpack(folder: Path) -> Path:
    """Yesterday's code as files: it reads its SQL from beside itself."""
    unpacked = folder / "yesterday"
    if not unpacked.exists():
        with zipfile.ZipFile(YESTERDAY) as packed:
            packed.extractall(unpacked)
    return unpacked


def started(ground: Ground, folder: Path, *, old: bool) -> subprocess.Popen[str]:
    where = f"sqlite:///{ground.address}" if isinstance(ground, SqliteGround) else ground.address
    path = str(unpack(folder) if old else ROOT / "src")
    return subprocess.Popen(
        [sys.executable, str(HERE / "member.py"), where, str(folder)],
        env=os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@asynccontextmanager
async def member(ground: Ground, folder: Path, *, old: bool) -> AsyncIterator[Member]:
    one = Member(started(ground, folder, old=old))
    try:
        said = await one.hear()
        assert said["schema"] == (OLD if old else SCHEMA_VERSION)
        assert (str(unpack(folder)) in said["from"]) is old, "it is the code that we mean"
        yield one
    finally:
        one.kill()


async def holders(store: SqlStore, ids: list[str]) -> set[str]:
    """Who drives these jobs, as soon as somebody drives each."""
    while True:
        heads = [await store.jobs.head(job_id) for job_id in ids]
        if all(head.status is Status.RUNNING for head in heads):
            return {head.lease_owner for head in heads}
        await store.wakeups.wait(frozenset({"queue:default"}), 0.05)


def receipts(folder: Path) -> dict[str, set[str]]:
    """Number → the keys under which it was sent."""
    found: dict[str, set[str]] = {}
    for line in (folder / "receiver").read_text(encoding="utf-8").splitlines():
        number, key = line.split()
        found.setdefault(number, set()).add(key)
    return found


@pytest.mark.timeout(110)
async def test_old_and_new_work_on_one_database(ground: Ground, tmp_path: Path) -> None:
    """Goal: nobody stops the world for an upgrade. Method: old code makes the store and works; new code migrates it
    under the old one's feet; both make jobs and drive each other's; each is killed once with jobs in its hands, and the
    other one finishes them. At the end every promise holds, and every effect happened under one key."""
    (tmp_path / "open").touch()
    async with member(ground, tmp_path, old=True) as old:
        await old.wait(await old.submit("before", range(3), "open"))
        assert [row.number for row in (await ground.seen()).applied][-1] == OLD
        async with member(ground, tmp_path, old=False) as new:
            assert [row.number for row in (await ground.seen()).applied][-1] == SCHEMA_VERSION
            made = await old.submit("old", range(10, 18), "open") + await new.submit(
                "new", range(20, 28), "open"
            )
            await asyncio.gather(old.wait(made), new.wait(made))

            store = await ground.open()
            try:
                held = await new.submit("held-by-new-and-old", range(30, 34), "first")
                assert len(await holders(store, held)) == 2, "two each"
                old.kill()
                (tmp_path / "first").touch()
                await new.wait(held)

                async with member(ground, tmp_path, old=True) as again:
                    held = await new.submit("back", range(40, 44), "second")
                    assert len(await holders(store, held)) == 2
                    new.kill()
                    (tmp_path / "second").touch()
                    await again.wait(held)
                report = await verify(store)
            finally:
                await store.close()
    assert report.clean, report.violations
    assert report.jobs == 3 + 16 + 8
    sent = receipts(tmp_path)
    assert len(sent) == 27
    assert {number: len(keys) for number, keys in sent.items() if len(keys) != 1} == {}


async def test_old_code_is_refused_where_it_may_not_read(ground: Ground, tmp_path: Path) -> None:
    """Goal: what cannot run together does not. Method: say that the store wants newer code, and start yesterday's."""
    await (await ground.open()).close()
    await ground.run(f"UPDATE schema_migrations SET number = {OLD + 1} WHERE number = {SCHEMA_VERSION}")
    await ground.run(f"UPDATE store_state SET min_reader = {OLD + 1}")
    process = started(ground, tmp_path, old=True)
    out, err = await asyncio.to_thread(process.communicate, "")
    assert (process.returncode != 0, out) == (True, "")
    assert f"wants code for {OLD + 1}; this Holdfast knows {OLD}" in err


async def test_the_code_that_we_keep_is_one_that_may_still_read(ground: Ground) -> None:
    await (await ground.open()).close()
    assert MIN_READER <= OLD <= SCHEMA_VERSION, "else record a newer one in previous/"
    assert (await ground.ask("SELECT min_reader FROM store_state"))[0][0] == MIN_READER
