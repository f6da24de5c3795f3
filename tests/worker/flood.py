"""A worker in a process of its own that a flood of jobs is poured over.

    python -m tests.worker.flood STORE WARM-UP JOBS CONCURRENCY

It says `{"warm": true}` when it has done the first jobs and is as large as a worker gets. What it claims then stands
still until it is told `go`, so that the whole flood is there. At the end it says how much memory it took at most beyond
that of the beginning, and how many jobs were ever running in it at once.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import sys
from pathlib import Path
from typing import Any

from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.execution import Execution
from holdfast.model.jobs import JobFilter
from holdfast.model.states import Status
from holdfast.runtime.process import open_process


class Tally:
    def __init__(self) -> None:
        self.running = self.most = self.done = 0
        self.changed = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def tiny(self, drive: Execution, given: Any) -> Any:
        async def look(_key: str) -> Any:
            await asyncio.sleep(0)
            return given

        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            seen = await drive.call(DurableCall("look", [given], look, READS))
            self.done += 1
            self.changed.set()
            return seen
        finally:
            self.running -= 1

    async def until(self, done: int) -> None:
        while self.done < done:
            self.changed.clear()
            await self.changed.wait()


def memory(what: str) -> int:
    """VmRSS (now) or VmHWM (at most, since it was last forgotten), in kilobytes."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


async def main(store_address: str, warm_up: int, jobs: int, concurrency: int) -> None:
    tally = Tally()
    process = await open_process({"tiny": tally.tiny}, store_address, concurrency=concurrency)
    await tally.until(warm_up)
    tally.gate.clear()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # what was the most so far is forgotten
    before = memory("VmRSS")
    print(json.dumps({"warm": True}), flush=True)
    assert await asyncio.to_thread(sys.stdin.readline) == "go\n"
    tally.gate.set()
    await tally.until(warm_up + jobs)
    while (await process.store.jobs.list(JobFilter(status=Status.RUNNING), limit=1)).items:
        await process.store.wakeups.wait(frozenset({"queue:default"}), 0.02)
    process.drain()
    await process.wait_until_done()
    peak = memory("VmHWM")
    await process.close()
    print(
        json.dumps({"before_kb": before, "peak_kb": peak, "most": tally.most, "done": tally.done}), flush=True
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:])))
