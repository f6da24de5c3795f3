"""`holdfast db` and `holdfast doctor` as a person runs them: a real process, its output, its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import PostgresServer


def holdfast(*arguments: str, cwd: Path, store: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command, run to its end in a folder of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_STORE"}
    if store is not None:
        environment["HOLDFAST_STORE"] = store
    return subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.store("sqlite")
def test_a_life_on_sqlite(tmp_path: Path) -> None:
    """Migrate, status, backup, restore, verify, doctor in an empty folder: each says what it did and exits 0."""
    assert "schema is up to date" in holdfast("db", "migrate", cwd=tmp_path).stdout
    status = json.loads(holdfast("db", "status", "--json", cwd=tmp_path).stdout)
    assert (status["tier"], status["epoch"], status["synchronous"]) == ("sqlite", 1, "2")
    backup = json.loads(holdfast("db", "backup", "b.db", "--json", cwd=tmp_path).stdout)
    assert len(backup["sha256"]) == 64
    restored = json.loads(holdfast("db", "restore", "b.db", "--yes", "--json", cwd=tmp_path).stdout)
    assert restored["epoch"] == 2
    verified = holdfast("db", "verify", cwd=tmp_path)
    assert (verified.returncode, "all hold" in verified.stdout) == (0, True)
    doctor = holdfast("doctor", cwd=tmp_path)
    assert (doctor.returncode, "survives kill -9 and a power cut" in doctor.stdout) == (0, True)


@pytest.mark.store("postgres")
def test_a_life_on_postgres(
    tmp_path: Path, durable_postgres_server: PostgresServer, durable_postgres_database: str
) -> None:
    """The same commands against a real server, named by the environment; its tier is the full one."""
    assert durable_postgres_server.durable
    where = durable_postgres_database
    assert holdfast("db", "migrate", cwd=tmp_path, store=where).returncode == 0
    status = json.loads(holdfast("db", "status", "--json", cwd=tmp_path, store=where).stdout)
    assert (status["tier"], status["synchronous_commit"]) == ("postgres", "on")
    assert holdfast("db", "backup", "b.db", cwd=tmp_path, store=where).returncode == 0
    assert holdfast("db", "restore", "b.db", "--yes", cwd=tmp_path, store=where).returncode == 0
    assert "all hold" in holdfast("db", "verify", cwd=tmp_path, store=where).stdout


@pytest.mark.store("sqlite")
@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (("db", "status"), 3, "there is no store at sqlite:///holdfast.db"),
        (("db", "status", "--store", "redis://x"), 2, "is not the address of a store"),
        (
            ("db", "status", "--store", "postgresql://nobody@127.0.0.1:1/none"),
            5,
            "the server does not answer",
        ),
        (("db", "restore", "missing.db", "--yes"), 3, "there is no file missing.db"),
        (("db", "backup"), 2, "Missing argument"),
        (("frobnicate",), 2, "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistakes_end_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """What a person gets wrong: the sentence, the exit status, nothing on stdout, and never a traceback."""
    done = holdfast(*arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.store("sqlite")
def test_looking_at_a_missing_store_makes_none(tmp_path: Path) -> None:
    """Status, verify, backup and doctor without a store: refused, and the folder stays empty."""
    for arguments in (("db", "status"), ("db", "verify"), ("db", "backup", "b.db"), ("doctor",)):
        assert holdfast(*arguments, cwd=tmp_path).returncode in {1, 3}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.store("sqlite")
def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    """Point the command at somebody else's file: refused by name, and not one byte of it changes."""
    (tmp_path / "notes.txt").write_text("my notes\n" * 1000)
    before = (tmp_path / "notes.txt").read_bytes()
    done = holdfast("db", "migrate", "--store", "sqlite:///notes.txt", cwd=tmp_path)
    assert (done.returncode, "[foreign_file]" in done.stderr) == (1, True)
    assert (tmp_path / "notes.txt").read_bytes() == before


@pytest.mark.store("sqlite")
def test_verify_names_the_violation(tmp_path: Path) -> None:
    """A journal changed by hand: exit status 1, and the table says which promise is broken where."""
    import apsw

    holdfast("db", "migrate", cwd=tmp_path)
    hand = apsw.Connection(str(tmp_path / "holdfast.db"))
    hand.execute(
        "INSERT INTO events VALUES ('ghost', 1, 'job_created', 1, 0, 0, x'7b7d', x'00', x'00')"
    ).fetchall()
    hand.close()
    done = holdfast("db", "verify", cwd=tmp_path)
    assert done.returncode == 1
    assert "I5" in done.stdout
    assert "ghost" in done.stdout


def test_every_command_has_a_working_example() -> None:
    """Walk the command tree: each help text names an example that starts with the command itself."""
    import click

    from holdfast.cli.root import holdfast as root

    def walk(command: click.Command, path: str) -> list[tuple[str, str]]:
        found = [(path, command.help or "")]
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                found += walk(inner, f"{path} {name}")
        return found

    for path, text in walk(root, "holdfast"):
        assert f"Example: {path}" in text, path
