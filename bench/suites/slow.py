"""Serial steps and the queue with 2 ms added to each fsync: fast disks flatter everybody.

A library between the databases and the kernel makes every flush sleep as well, for Holdfast, raw SQLite, Postgres and
peers alike: see `slow_disk.c`. The benchmark runs itself once more under it. That takes Linux and a C compiler; without
them the report says so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bench.arena import QUICK, ROOT, Arena
from bench.report import Findings, Report, make_goal

ADDED_US = 2000
AT_LEAST = 0.5
TITLE = f"{ADDED_US // 1000} ms more per fsync"
SOURCE = Path(__file__).parents[1] / "slow_disk.c"


@contextmanager
def build_slow_disk() -> Iterator[dict[str, str] | str]:
    """The environment of processes with a slow disk, or why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        yield "needs Linux and a C compiler"
        return
    # Postgres runs under another account, which must be able to read it.
    with tempfile.TemporaryDirectory(prefix="hf-slow-") as folder:
        Path(folder).chmod(0o755)
        library = Path(folder) / "slow_disk.so"
        made = subprocess.run(
            [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            yield f"the compiler said: {made.stderr[-200:]}"
            return
        library.chmod(0o755)
        yield {**os.environ, "LD_PRELOAD": str(library), "SLOW_DISK_US": str(ADDED_US)}


async def run(arena: Arena, findings: Findings) -> None:
    with build_slow_disk() as environment:
        if isinstance(environment, str):
            findings.beside("slow", "all stores", f"left out: {environment}", [])
            return
        out = arena.folder / "slow" / "bench.json"
        command = [
            sys.executable,
            "-m",
            "bench",
            "step",
            "queue",
            "--out",
            str(out),
            "--folder",
            str(arena.folder),
        ]
        command += ["--rounds", str(max(1, arena.scale.rounds // 2)), "--jobs", str(arena.scale.jobs)]
        quick = arena.scale.singles == QUICK.singles
        command += ["--quick"] if quick else []
        command += [
            "--peers",
            "none" if quick else arena.peers,
            *(word for store in arena.stores for word in ("--store", store)),
        ]
        child = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            cwd=ROOT,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await child.communicate()
        assert child.returncode == 0, said.decode()[-2000:]
    report = msgspec.json.decode(out.read_bytes(), type=Report)
    assert report.machine["flush_ms"] >= ADDED_US / 1000, "the disk was not slow"
    for row in report.rows:
        if row.contestant.startswith("raw, 100 commits"):
            assert row.value >= ADDED_US / 1000, f"{row.store} did not feel it"
    findings.rows += [
        msgspec.structs.replace(row, suite="slow", contest=f"{row.suite} {row.contest}, {TITLE}")
        for row in report.rows
    ]
    for one in report.goals:
        if one.name in ("queue sqlite", "queue postgres"):
            findings.goals.append(
                make_goal(
                    f"slow {one.name}", one.value, "at least", AT_LEAST, f"of raw group commit, {TITLE}"
                )
            )
    for note in report.notes:
        findings.beside("slow", note.store, note.text, [])
