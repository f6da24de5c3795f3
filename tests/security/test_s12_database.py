"""S12: SQL takes parameters only, files are their owner's, and a database file cannot bring code along."""

from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import apsw
import pytest

from holdfast.kit import get_db
from holdfast.model.jobs import JobDraft
from holdfast.runtime import open_store
from holdfast.store.sqlite.connection import connect
from tests.tidy.test_no_sql_fstrings import built_statements

pytestmark = pytest.mark.store("sqlite")


def test_sql_that_is_put_together_is_refused() -> None:
    """The lint runs over the whole package in tests/tidy."""
    assert list(built_statements(ast.parse('tx.execute(f"SELECT * FROM {name}")')))
    assert not list(built_statements(ast.parse('tx.run("find_job", job_id=name)')))


async def test_files_are_their_owners(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_store(f"sqlite:///{tmp_path / 'a.db'}")
        await store.jobs.submit(JobDraft(kind="x", input="y"))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        await store.close()
        database = get_db(tmp_path / "made" / "here" / "b.db")
        database.close()
    finally:
        os.umask(before)
    assert len(modes) >= 3
    open_to_others = {name: oct(mode) for name, mode in modes.items() if mode & 0o077}
    assert open_to_others == {}
    assert stat.S_IMODE((tmp_path / "made" / "here").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "made" / "here" / "b.db").stat().st_mode) == 0o600


async def test_a_database_brings_no_code_along(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'a.db'}")
    await store.close()
    connection = connect(tmp_path / "a.db")
    assert connection.pragma("trusted_schema") == 0
    assert connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1) == 1
    assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, -1) == 0
    with pytest.raises(apsw.Error):
        connection.execute("SELECT load_extension('x')").fetchall()
    with pytest.raises(apsw.Error):
        connection.execute("UPDATE sqlite_schema SET sql = ''")
    connection.close()
