"""Before the schema of a file changes, a copy of the file is made."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.errors import HoldfastError
from holdfast.store.sql.migrate import SCHEMA_VERSION
from tests.operations.migration.grounds import Seen, SqliteGround, advance, fill, held

pytestmark = pytest.mark.store("sqlite")


@pytest.fixture
def ground(tmp_path: Path) -> SqliteGround:
    return SqliteGround(str(tmp_path / "store.db"))


def _copies(ground: SqliteGround) -> list[str]:
    return sorted(path.name for path in ground.path.parent.glob("*before*"))


@pytest.mark.parametrize("begun", range(1, SCHEMA_VERSION))
async def test_an_old_store_is_copied_first(
    ground: SqliteGround, sqlite_stages: list[Seen], begun: int
) -> None:
    """Goal: there is a way back. Method: a store of an older schema with something in it; open it, and look at the
    copy: private, sound, of the old schema, with everything in it, and a store like any other."""
    await advance(ground, begun)
    await fill(ground, begun)
    before = await held(ground)
    await (await ground.open()).close()

    copy = SqliteGround(str(ground.backup(begun + 1)))
    assert _copies(ground) == [copy.path.name]
    assert stat.S_IMODE(copy.path.stat().st_mode) == 0o600
    assert await copy.ask("PRAGMA integrity_check") == [("ok",)]
    assert await copy.seen() == sqlite_stages[begun]
    assert await held(copy) == before
    await (await copy.open()).close()
    assert await copy.seen() == sqlite_stages[-1]


async def test_a_new_store_is_not_copied(ground: SqliteGround) -> None:
    await (await ground.open()).close()
    await (await ground.open()).close()
    assert _copies(ground) == []


@pytest.mark.parametrize("begun", range(1, SCHEMA_VERSION))
async def test_a_store_that_was_never_finished_is_not_copied(ground: SqliteGround, begun: int) -> None:
    """A process killed while it made the store left tables and no data: there is nothing to lose."""
    await advance(ground, begun)
    await (await ground.open()).close()
    assert _copies(ground) == []


async def test_the_copy_was_never_readable_by_others(
    ground: SqliteGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: no moment in which another user can open the copy. Method: look at its rights while it grows."""
    await advance(ground, SCHEMA_VERSION - 1)
    await fill(ground, SCHEMA_VERSION - 1)
    modes = []

    class Watching(apsw.Connection):
        def backup(self, *of: Any, **named: Any) -> apsw.Backup:
            modes.append(stat.S_IMODE(Path(self.filename).stat().st_mode))
            return super().backup(*of, **named)

    monkeypatch.setattr(apsw, "Connection", Watching)
    await (await ground.open()).close()
    assert modes == [0o600]


async def test_without_a_copy_there_is_no_migration(ground: SqliteGround, sqlite_stages: list[Seen]) -> None:
    """Goal: the copy is no courtesy. Method: put a folder where it should go."""
    await advance(ground, SCHEMA_VERSION - 1)
    await fill(ground, SCHEMA_VERSION - 1)
    ground.backup(SCHEMA_VERSION).mkdir()
    with pytest.raises(HoldfastError):
        await ground.open()
    assert await ground.seen() == sqlite_stages[SCHEMA_VERSION - 1]
