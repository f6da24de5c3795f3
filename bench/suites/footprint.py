"""What a worker weighs with thousands of waiting jobs, and how long a newcomer waits for the first durable step."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.arena import Arena
from bench.contest import Figure, make_figure
from bench.crew import Crew, waiting
from bench.places import Place
from bench.report import Contest, Findings, Row, make_goal
from holdfast.model.states import Status

KIB_AT_MOST = 100.0
FIRST_AT_MOST_MS = 300.0
FIRST = """
import time
began = time.perf_counter()
import asyncio, json
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
        print(json.dumps({"took_ms": (time.perf_counter() - began) * 1000}))

asyncio.run(main())
"""


class Waiting(Crew):
    """A worker whose jobs all wait, for an hour."""

    name = "holdfast worker"
    workers = 1

    def __init__(self, place: Place) -> None:
        super().__init__(place, 0)

    async def park_jobs(self, jobs: int) -> None:
        """So many more jobs wait."""
        self.rows_per_operation += jobs
        for first in range(0, jobs, 1000):
            drafts = [waiting.draft({"nth": nth}) for nth in range(first, min(jobs, first + 1000))]
            await self.store.jobs.submit_many(drafts)
        while (await self.store.jobs.counts()).get(Status.WAITING, 0) < self.rows_per_operation:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    def memory_kib(self) -> float:
        """Resident memory of the worker."""
        status = Path(f"/proc/{self.processes[0].pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return float(line.split()[1])


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        if sys.platform == "linux":
            grown = await _measure_memory(arena, store)
            findings.rows.append(
                _make_row("memory", "a worker's growth", store, "KiB for each 1,000 waiting jobs", grown)
            )
            findings.goals.append(
                make_goal(f"memory {store}", grown, "at most", KIB_AT_MOST, "KiB for each 1,000 waiting jobs")
            )
        else:
            findings.beside("footprint", store, "memory is left out: it is read from /proc, on Linux", [])
    took = await _measure_first(arena)
    findings.rows.append(
        _make_row("start", "import and first durable step, empty folder", "sqlite", "ms", took)
    )
    findings.goals.append(make_goal("first step", took, "at most", FIRST_AT_MOST_MS, "ms, import included"))


def _make_row(contest: str, measure: str, store: str, unit: str, found: Figure) -> Row:
    where = Contest("footprint", contest, store)
    return Row(
        suite=where.suite,
        contest=where.name,
        store=where.store,
        contestant="holdfast",
        measure=measure,
        unit=unit,
        value=found.value,
        low=found.low,
        high=found.high,
    )


async def _measure_memory(arena: Arena, store: str) -> Figure:
    """The first jobs bring the worker to its working size; what the next ones add is theirs."""
    (one,) = await arena.enter(store, Waiting)
    assert isinstance(one, Waiting)
    await one.open()
    try:
        await one.park_jobs(arena.scale.waiting)
        before = one.memory_kib()
        await one.park_jobs(arena.scale.waiting)
        grown = (one.memory_kib() - before) / arena.scale.waiting * 1000
    finally:
        await one.end_workers()
    return make_figure([grown])


async def _measure_first(arena: Arena) -> Figure:
    """As it is once installed: with bytecode, which pip writes, or the first start, and that one does not count."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHONDONT"))
    }
    times = []
    for _ in range(arena.scale.rounds + 1):
        with tempfile.TemporaryDirectory(dir=arena.folder) as folder:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", FIRST),
                cwd=folder,
                stdout=asyncio.subprocess.PIPE,
                env={**kept, "PYTHONPYCACHEPREFIX": str(Path(arena.folder) / "bytecode")},
            )
            said, _ = await process.communicate()
            assert process.returncode == 0
            assert any(Path(folder).rglob("*.db")), "nothing was kept"
            times.append(json.loads(said)["took_ms"])
    return make_figure(times[1:])
