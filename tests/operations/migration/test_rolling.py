"""Rolling upgrade: today's code and tomorrow's on one database, at the same time and in both directions.

No version has been published yet, so the old code is today's and the new code is a copy of the package with the
synthetic migrations in its folder. Each runs in processes of its own. Once a version is published, the old code is that
one, as it was.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.verify.verify import verify
from holdfast.model.states import Status
from holdfast.store.sql.migrate import SCHEMA_VERSION
from holdfast.store.tables.store import SqlStore
from tests.operations.migration.grounds import BOTH, Ground, PostgresGround, SqliteGround
from tests.operations.migration.next_migrations import LAST, SOURCES
from tests.support.project import ROOT

HERE = Path(__file__).parent
TODAY = ROOT / "src"
NOT_NEEDED = shutil.ignore_patterns("__pycache__", "static", "testing", "integrations")

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


def make_tomorrow(folder: Path) -> Path:
    """Tomorrow's code as files: today's with more migrations."""
    tomorrow = folder / "tomorrow"
    if not tomorrow.exists():
        shutil.copytree(TODAY / "holdfast", tomorrow / "holdfast", ignore=NOT_NEEDED)
        sql = tomorrow / "holdfast" / "store" / "sql"
        for number, (name, source) in enumerate(SOURCES.items(), SCHEMA_VERSION + 1):
            (sql / "migrations" / f"{number:04}_{name}.sql").write_text(source, encoding="utf-8")
        code = (sql / "migrate.py").read_text(encoding="utf-8")
        changed, count = re.subn(
            r"^SCHEMA_VERSION: Final = \d+$", f"SCHEMA_VERSION: Final = {LAST}", code, flags=re.MULTILINE
        )
        assert count == 1
        (sql / "migrate.py").write_text(changed, encoding="utf-8")
    return tomorrow


def started(ground: Ground, folder: Path, *, old: bool) -> subprocess.Popen[str]:
    where = f"sqlite:///{ground.address}" if isinstance(ground, SqliteGround) else ground.address
    path = str(TODAY if old else make_tomorrow(folder))
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
        assert said["schema"] == (SCHEMA_VERSION if old else LAST)
        assert (str(make_tomorrow(folder)) in said["from"]) is not old, "it is the code that we mean"
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
        assert [row.number for row in (await ground.seen()).applied][-1] == SCHEMA_VERSION
        async with member(ground, tmp_path, old=False) as new:
            assert [row.number for row in (await ground.seen()).applied][-1] == LAST
            made = await old.submit("old", range(10, 18), "open") + await new.submit(
                "new", range(20, 28), "open"
            )
            await asyncio.gather(old.wait(made), new.wait(made))

            store = await ground.open(of_today=True)
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
    """Goal: what cannot run together does not. Method: new code makes the store; say that it wants that code, and start
    the old one."""
    async with member(ground, tmp_path, old=False):
        pass
    await ground.run(f"UPDATE store_state SET min_reader = {LAST}")
    process = started(ground, tmp_path, old=True)
    out, err = await asyncio.to_thread(process.communicate, "")
    assert (process.returncode != 0, out) == (True, "")
    assert f"needs Holdfast with schema {LAST}; this has {SCHEMA_VERSION}" in err
