"""Many processes on one SQLite file, and how they fared.

    python -m tests.store.concurrency.crowd '{"address": "/tmp/store.db", "processes": 100, "commits": 5}'

Starting a hundred interpreters would take longer than what is to be measured. So one process imports everything, opens
nothing, and forks the rest: no handle, no thread and no lock is shared. Each child opens the store, waits at a barrier
until all have, and then commits one job after the other. A report is one line of JSON per process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
import traceback
from contextlib import ExitStack
from typing import Any

import holdfast.store.sqlite.open  # noqa: F401 - so that no child has to
from holdfast.errors import HoldfastError
from holdfast.model.jobs import JobDraft
from tests.store.concurrency.stores import Place, opened

READY = b"."


async def commit(place: Place, name: str, commits: int, ready: int, barrier: int) -> dict[str, Any]:
    """Commit so many jobs; says when each was wanted and when it was durable, on the clock of the machine."""
    spans: list[tuple[int, int]] = []
    errors: list[str] = []
    async with opened(place) as store:
        os.write(ready, READY)
        os.read(barrier, 1)
        for number in range(commits):
            began = time.monotonic_ns()
            try:
                await store.jobs.submit(JobDraft(kind="work", request_key=f"{name}-{number}"))
            except HoldfastError as error:
                errors.append(f"{error.code}: {error}")
            spans.append((began, time.monotonic_ns()))
    return {"name": name, "spans": spans, "errors": errors}


def fork(place: Place, number: int, commits: int, barrier: tuple[int, int]) -> int:
    """A child that reports into the pipe that is returned, first that it is ready, then how it went."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        status = 1
        try:
            # Only the parent may hold the barrier, or nobody would ever see it open.
            os.close(barrier[1])
            report = asyncio.run(commit(place, f"p{number}", commits, writing, barrier[0]))
            os.write(writing, json.dumps(report).encode())
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    return reading


def main(arguments: str) -> None:
    told = json.loads(arguments)
    place = Place("sqlite", told["address"])
    barrier = os.pipe()
    gc.freeze()  # a collector that touches every object would copy every page into every child
    pipes = [fork(place, number, told["commits"], barrier) for number in range(told["processes"])]
    with ExitStack() as stack:
        reports = [stack.enter_context(os.fdopen(pipe, "rb")) for pipe in pipes]
        ready = [report.read(1) for report in reports]
        os.close(barrier[1])
        for beginning, report in zip(ready, reports, strict=True):
            sys.stdout.write(report.read().decode() if beginning == READY else json.dumps(None))
            sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
