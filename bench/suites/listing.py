"""Pages of a list of many jobs, as a person who looks gets them from the API: newest first, further back, rare ones.

What is rare is at the end of the walk: the oldest jobs are cancelled, and the last page is far. Texts that fit nothing
are looked for through all of it.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final
from urllib.parse import urlencode

import httpx2

from bench.arena import Arena
from bench.contest import Figure, make_figure
from bench.report import Findings, Row, make_goal
from bench.served import serving
from holdfast.client.local_token import find_token
from holdfast.model.jobs import JobDraft
from holdfast.runtime import open_store

AT_ONCE: Final = 1_000
RARE: Final = 60
PAGES: Final = 20
GOAL_MS: Final = 200.0


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        place = await arena.place(store)
        await _fill_store(place.address, arena.scale.listed)
        await place.analyze()  # one that has not sorts all of it for each page
        async with serving(place.address) as url:
            headers = {"Authorization": f"Bearer {find_token(url)}"}
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
                await _cancel_rare_jobs(http)
                found = {
                    "newest first": await _measure_pages(http),
                    "one kind": await _measure_pages(http, kind="kind-3"),
                    "rare, and the oldest": await _measure_pages(http, status="cancelled"),
                    "a text that nothing has": await _measure_pages(http, text="no such text"),
                    "how many": await _measure_counts(http),
                }
        contest = f"pages of 50 of {arena.scale.listed:,} jobs, from the API"
        findings.rows += [_make_row(contest, store, what, one) for what, one in found.items()]
        slowest = max(one.value for one in found.values())
        findings.goals.append(
            make_goal(f"listing {store}", slowest, "at most", GOAL_MS, "ms, slowest kind of page")
        )


def _make_row(contest: str, store: str, what: str, found: Figure) -> Row:
    return Row(
        suite="listing",
        contest=contest,
        store=store,
        contestant=what,
        measure="a page",
        unit="ms",
        value=found.value,
        low=found.low,
        high=found.high,
    )


async def _fill_store(where: str, jobs: int) -> None:
    store = await open_store(where)
    try:
        for first in range(0, jobs, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, jobs))
            drafts = [
                JobDraft(kind=f"kind-{nth % 7}", input={"n": nth}, job_id=f"job-{nth:07}") for nth in numbers
            ]
            await store.jobs.submit_many(drafts)
    finally:
        await store.close()


async def _cancel_rare_jobs(http: httpx2.AsyncClient) -> None:
    ids = [f"job-{nth:07}" for nth in range(RARE)]
    answer = await http.post("/api/bulk/cancel", json={"ids": ids, "why": "to be rare", "by": "bench"})
    assert answer.json()["accepted"] == RARE, answer.text


async def _measure_pages(http: httpx2.AsyncClient, **narrowed: str) -> Figure:
    """Page after page, again from the first when there is no next one."""
    took: list[float] = []
    cursor: str | None = None
    for _ in range(PAGES):
        which = narrowed | {"limit": "50"} | ({} if cursor is None else {"cursor": cursor})
        began = perf_counter()
        answer = await http.get(f"/api/jobs?{urlencode(which)}")
        took.append((perf_counter() - began) * 1000)
        cursor = answer.json()["next"]
    return make_figure(took)


async def _measure_counts(http: httpx2.AsyncClient) -> Figure:
    took: list[float] = []
    for _ in range(PAGES):
        began = perf_counter()
        answer = await http.get("/api/tally")
        took.append((perf_counter() - began) * 1000)
        assert answer.status_code == 200
    return make_figure(took)
