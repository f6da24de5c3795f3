"""What a start costs, counted instead of timed: what is imported, and how often the disk is waited for.

The figures may fall, and are then lowered; they do not rise. Whoever adds an import that everybody pays for finds it
here, and moves it to where it is used.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model.ids import SequentialIds
from holdfast.store.clock import VirtualClock
from holdfast.store.sqlite.open import open_sqlite
from tests.store.power_cut.recording_disk import Flush, PowerCutDisk, Tape

HEAVY = {
    # of others
    *(
        "anthropic",
        "anyio",
        "asyncpg",
        "click",
        "cronsim",
        "cryptography",
        "httpx2",
        "jsonschema_rs",
        "mcp",
        "nats",
    ),
    *("openai", "opentelemetry", "prometheus_client", "rich", "starlette", "uvicorn", "uvloop", "zstandard"),
    # of Python
    *("ctypes", "difflib", "email", "http", "importlib.metadata", "importlib.resources", "multiprocessing"),
    *("shutil", "sqlite3", "tempfile", "zipfile", "zoneinfo"),
    # of ours
    *(
        "holdfast.cli",
        "holdfast.client",
        "holdfast.kit",
        "holdfast.registry",
        "holdfast.server",
        "holdfast.testing",
    ),
    *("holdfast.agents.mcp", "holdfast.agents.models", "holdfast.agents.sessions", "holdfast.agents.toolbox"),
    *(
        "holdfast.engine.evidence",
        "holdfast.store.encryption",
        "holdfast.store.memory",
        "holdfast.store.postgres",
    ),
}
"""What takes long to import, or is the beginning of much."""

OURS_MAX = 193
"""Modules of Holdfast that a process with one agent and one step has loaded."""

HELP_MAX = 15
"""Modules of Holdfast that `holdfast --help` loads."""

FIRST_STEP = """
import asyncio
import holdfast as hf

app = hf.App(durability="strict")

@app.step(effect="read_only")
async def look(number: int) -> int:
    return number

@app.agent
async def first(number: int) -> int:
    return await look(number)

async def main() -> None:
    async with app.running():
        assert await first(7) == 7

asyncio.run(main())
"""
HELP = """
import contextlib, sys
from holdfast.cli import main

sys.argv = ["holdfast", "--help"]
with contextlib.suppress(SystemExit):
    main()
"""

NEW_FILE_FLUSHES = 7
"""Three for the switch to WAL, two for the transaction that makes all tables and the log with it, one for the first
rows, one for the store's clock."""


def loaded(script: str, folder: Path) -> set[str]:
    """What a fresh interpreter has imported by the end of the script."""
    told = "import json, sys; before = {*sys.modules}\n" + script
    told += "\nprint(json.dumps([*({*sys.modules} - before)]))"
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def ours(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] == "holdfast")


def test_the_package_alone_is_one_module(tmp_path: Path) -> None:
    modules = loaded("import holdfast", tmp_path)
    assert ours(modules) == ["holdfast"]
    assert not modules & (HEAVY | {"asyncio", "msgspec", "logging"})


def test_a_first_step_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    modules = loaded(FIRST_STEP, tmp_path)
    assert (tmp_path / "holdfast.db").exists(), "nothing was stored"
    assert sorted(modules & HEAVY) == []
    assert len(ours(modules)) <= OURS_MAX, ours(modules)


def test_help_loads_nothing_that_commands_need(tmp_path: Path) -> None:
    modules = loaded(HELP, tmp_path)
    assert "holdfast.cli.entry_point" in modules, "that was not the command line"
    assert sorted(modules & (HEAVY - {"click", "holdfast.cli", "shutil"} | {"asyncio", "msgspec"})) == []
    assert len(ours(modules)) <= HELP_MAX, ours(modules)


def _flushes(tape: Tape) -> int:
    return sum(isinstance(step, Flush) for step in tape)


@pytest.mark.store("sqlite")
async def test_a_new_file_waits_for_the_disk_a_few_times_and_an_old_one_never(tmp_path: Path) -> None:
    """Goal: opening is quick on slow disks. Method: a disk that records; open a new file, close it, open it again."""
    path, clock = tmp_path / "store.db", VirtualClock()
    with PowerCutDisk("start") as disk:
        store = await open_sqlite(path, clock=clock, ids=SequentialIds(), vfs=disk.name)
        made = _flushes(disk.tape)
        await store.close()
        before = _flushes(disk.tape)
        store = await open_sqlite(path, clock=clock, ids=SequentialIds(), vfs=disk.name)
        opened = _flushes(disk.tape) - before
        await store.close()
    assert made <= NEW_FILE_FLUSHES
    assert opened == 0
