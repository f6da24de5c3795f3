"""Submissions over HTTP, to completion: the API and a worker as processes of their own, started by `holdfast up`.

Upstream of seed 000 publishes 76 submissions a second, of which none was completed when it counted. Here a submission
counts when its job, of one step, is durably completed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter

import httpx2

from bench.arena import Arena
from bench.contest import make_figure
from bench.report import Contest, Findings, Row, make_goal
from holdfast.client.local_token import find_token

UPSTREAM_PER_S = 76.0
CONNECTIONS = 16
APP = """
import holdfast as hf

app = hf.App()

@app.step(effect="read_only")
async def look(number: int) -> int:
    return number

@app.agent
async def small(number: int) -> int:
    return await look(number)
"""


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        contest = Contest("api", f"{arena.scale.jobs} jobs over HTTP to completion", store)
        async with _run_server(await arena.address(store)) as http:
            await _measure_submits(http, 20)
            rates = [await _measure_submits(http, arena.scale.jobs) for _ in range(3)]
        found = make_figure(rates)
        findings.rows.append(
            Row(
                suite=contest.suite,
                contest=contest.name,
                store=store,
                contestant="holdfast up",
                measure="completed",
                unit="a second",
                value=found.value,
                low=found.low,
                high=found.high,
            )
        )
        findings.goals.append(
            make_goal(f"api {store}", found, "at least", UPSTREAM_PER_S, "completed a second")
        )


async def _measure_submits(http: httpx2.AsyncClient, jobs: int) -> float:
    """So many jobs were submitted and completed; how many of them a second."""
    places = asyncio.Semaphore(CONNECTIONS)

    async def submit(number: int) -> None:
        async with places:
            answer = await http.post("/api/jobs", json={"kind": "small", "input": {"number": number}})
            assert answer.status_code == 201, answer.text

    before, began = await _count_completed(http), perf_counter()
    await asyncio.gather(*(submit(number) for number in range(jobs)))
    while await _count_completed(http) < before + jobs:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return jobs / (perf_counter() - began)


async def _count_completed(http: httpx2.AsyncClient) -> int:
    counts: dict[str, int] = (await http.get("/api/stats")).json()["totals"]
    return counts.get("completed", 0)


@contextlib.asynccontextmanager
async def _run_server(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        app = Path(folder) / "app.py"
        app.write_text(APP, encoding="utf-8")
        os.environ["XDG_STATE_HOME"] = folder  # where the server leaves its token
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "up", str(app), "--port", "0", "--store", address),
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
        )
        assert process.stderr is not None
        url = None
        while url is None:
            line = (await process.stderr.readline()).decode()
            assert line, "holdfast up did not get up"
            found = re.search(r"Holdfast is up at (\S+),", line)
            url = None if found is None else found[1]
        draining = asyncio.create_task(process.stderr.read())
        try:
            headers = {"Authorization": f"Bearer {find_token(url)}"}
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
                yield http
        finally:
            process.terminate()
            await draining
            await process.wait()
