"""Much of it: ten thousand events in one job, thousands of jobs in the list. What is drawn does not grow with it, and
neither does what is asked of the server.

Times are written down and are no verdict, since machines are busy: `build/page-*.json`, and beside them the browser's
own trace of the scrolling, to be opened in its developer tools.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.model import events as e
from holdfast.model.append import Move
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.driver import Driver
from tests.page.browser_page import Watched
from tests.page.conftest import Elsewhere
from tests.page.processes import Town

pytestmark = pytest.mark.timeout(300)

BUILD = Path(__file__).resolve().parents[2] / "build"
FEW, MANY = 100, 10_000
JOBS = 5_000
AT_ONCE = 500
ELEMENTS_MAX = 2_500
"""A page of these may have so many elements; ten thousand rows would be fifty thousand."""

DRAWN = """
new MutationObserver(() => {
  if (window.drawnAt === undefined && document.querySelector("[role=treeitem], main tbody tr"))
    requestAnimationFrame(() => { window.drawnAt ??= performance.now(); });
}).observe(document, { childList: true, subtree: true });
"""
"""Keeps when the first row was to be seen, from the beginning of the load."""

SCROLL = """async () => {
  const body = document.querySelector("[role=tree]");
  const far = body.scrollHeight - body.clientHeight;
  const frame = () => new Promise(requestAnimationFrame);
  const took = [];
  let before = await frame();
  for (let nth = 1; nth <= 120; nth++) {
    body.scrollTop = far * nth / 120;
    const now = await frame();
    took.push(now - before);
    before = now;
  }
  return took.sort((one, other) => one - other);
}"""
"""From the first row to the last in 120 frames; how long each took."""


async def lived(where: str, job_id: str, events: int) -> None:
    """A job with so many events is over: reads in scopes, as an agent makes them."""
    store = await open_store(where)
    try:
        await store.jobs.submit(JobDraft(kind="long", job_id=job_id, queue=job_id))
        ask = ClaimRequest(worker="test", token=job_id, queues=(job_id,), limit=1, ttl_us=10**12)
        (grant,) = await store.leases.claim(ask)
        driver = Driver(store, SystemClock(), grant)
        reads = [
            e.StepFinished(f"0/page#{nth // 50}/read#{nth % 50 + 1}", "", result=f"page {nth}")
            for nth in range(events - 3)
        ]
        for first in range(0, len(reads), AT_ONCE):
            await driver.write(*reads[first : first + AT_ONCE])
        await driver.write(e.JobCompleted("done"), move=Move(status=Status.COMPLETED), mail_seen=0)
    finally:
        await store.close()


async def submitted(where: str, jobs: int) -> None:
    store = await open_store(where)
    try:
        for first in range(0, jobs, AT_ONCE):
            drafts = [JobDraft(kind=f"kind-{nth % 7}", input=nth) for nth in range(first, first + AT_ONCE)]
            await store.jobs.submit_many(drafts)
    finally:
        await store.close()


def opened(page: Any, address: str) -> dict[str, Any]:
    """What it took to show the first rows at this address, and how much there is on the page then."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_function("() => window.drawnAt !== undefined")
    (paint,) = page.evaluate(
        "() => performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)"
    )
    return {
        "first_paint_ms": round(paint),
        "first_rows_ms": round(page.evaluate("window.drawnAt")),
        "elements": page.evaluate("document.querySelectorAll('*').length"),
        "asked": len([url for url in asked if "/api/jobs/" in url]),
    }


def keep(name: str, figures: dict[str, Any]) -> None:
    BUILD.mkdir(exist_ok=True)
    told = {"processors": os.cpu_count(), "load": round(os.getloadavg()[0], 2)} | figures
    (BUILD / f"page-{name}.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def test_ten_thousand_events(town: Town, watched: Watched, browser: Any, elsewhere: Elsewhere) -> None:
    page = watched.page
    page.add_init_script(DRAWN)
    found: dict[str, Any] = {}
    for events in (FEW, MANY):
        elsewhere(lived(town.where, f"job-{events}", events))
        figures = opened(page, f"{town.url}/jobs/job-{events}")
        assert town.get(f"/api/jobs/job-{events}")["events"] == events
        if events == MANY:
            browser.start_tracing(page=page, path=BUILD / "page-scroll-trace.json")
        took = page.evaluate(SCROLL)
        page.get_by_role("treeitem").filter(has_text="completed").wait_for()  # the last row is there
        if events == MANY:
            browser.stop_tracing()
        figures["frame_ms"] = {
            "median": round(took[60], 1),
            "p95": round(took[114], 1),
            "worst": round(took[-1], 1),
        }
        found[str(events)] = figures
    keep("events", found)
    few, many = found[str(FEW)], found[str(MANY)]
    assert many["elements"] <= ELEMENTS_MAX
    assert many["elements"] <= few["elements"] + 100, "what is drawn does not grow with the journal"
    assert many["asked"] <= few["asked"] + 4, "and neither does how often the server is asked"
    assert many["frame_ms"]["median"] <= 3 * few["frame_ms"]["median"] + 16, "a frame costs what is seen"


def test_many_jobs(town: Town, watched: Watched, elsewhere: Elsewhere) -> None:
    elsewhere(submitted(town.where, JOBS))
    page = watched.page
    page.add_init_script(DRAWN)
    first = opened(page, f"{town.url}/jobs")
    page.get_by_role("button", name="Older").click()
    page.wait_for_url("**cursor=**")
    page.get_by_role("button", name="Newest").wait_for()
    rows = page.locator("main tbody tr").count()
    keep("jobs", {"jobs": JOBS} | first)
    assert rows == 50
    assert first["elements"] <= ELEMENTS_MAX
