"""What /metrics says is what happened: counted where it happened, read from the store when asked, with few labels."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast as hf
from holdfast.engine import stall_detector
from holdfast.engine.backups import LastBackup, remember_backup
from holdfast.engine.recovery import SweepStats
from holdfast.engine.telemetry import NOTHING, SILENT, Telemetry
from holdfast.errors import Fenced, JobHeld
from holdfast.model.jobs import JobDraft
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.time import HOUR, MINUTE, SECOND
from holdfast.runtime.process import open_process
from holdfast.server.metrics.meter import CONTENT_TYPE, NAMES_MAX, OTHER, Few, Metrics
from holdfast.server.metrics.table import METRICS
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api
from tests.support.project import ROOT

pytestmark = pytest.mark.store("sqlite")

PAGE = ROOT / "docs" / "operating" / "metrics.md"


class Read:
    """An exposition, as Prometheus reads it."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The value of this very series; nothing counts as zero."""
        return sum(
            one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items()
        )


async def cannot_tell(_key: str, _args: Any) -> hf.CannotTell:
    return hf.CannotTell()


async def scraped(web: Api) -> Read:
    response = await web.ask("GET", "/metrics")
    assert (response.status_code, response.headers["content-type"]) == (200, CONTENT_TYPE)
    return Read(response.text)


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def test_the_page_lists_every_metric_with_its_labels_and_meaning() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `holdfast_")]
    assert rows == [
        f"| `{one.name}` | {one.kind} | {' '.join(f'`{label}`' for label in one.labels)} | {one.meaning} |"
        for one in METRICS
    ]


async def test_every_metric_of_the_list_is_exposed_and_no_other(backend: Backend) -> None:
    async with api(backend) as web:
        await web.one.store.cache.put(b"x" * 32, b"answer", ttl_us=MINUTE)
        read = await scraped(web)
    listed = {one.name.removesuffix("_total"): one for one in METRICS}
    silent = {"holdfast_backup_age_seconds", "holdfast_nats_up"}  # nobody made one, and there is none
    assert set(read.families) | silent == set(listed)
    for name, family in read.families.items():
        assert (family.type, family.documentation) == (listed[name].kind, listed[name].meaning)


# ── what a process does ───────────────────────────────────────────────────────────────────────────


async def test_what_a_worker_did_is_counted(volatile_folder: Path) -> None:
    app = hf.App()

    @app.tool(effect="read_only")
    async def look(page: str) -> str:
        return page.upper()

    @app.tool(effect="verifiable", probe=cannot_tell)
    async def send(text: str) -> str:
        return text

    @app.agent
    async def report(page: str) -> str:
        return await send(await look(page))

    metrics = Metrics()
    process = await open_process(app.programs(), f"sqlite:///{volatile_folder / 'h.db'}", meter=metrics)
    try:
        for nth in range(3):
            draft = JobDraft(kind="report", input={"page": f"p{nth}"})
            assert await process.result(await process.start(draft)) == f"P{nth}"
    finally:
        await process.close()
    read = Read(metrics.text().decode())
    assert read("holdfast_calls_total", tool="look", effect="read_only", outcome="succeeded") == 3
    assert read("holdfast_calls_total", tool="send", effect="verifiable", outcome="succeeded") == 3
    assert read("holdfast_events_total", type="job_completed") == 3
    assert read("holdfast_events_total", type="tool_returned") == 3
    assert read("holdfast_attempts_total", outcome="completed") == 3
    assert read("holdfast_leases_acquired_total", how="free") == 3
    assert read("holdfast_claims_total", outcome="granted") > 0
    assert read("holdfast_lease_seconds_count") == 3
    commits = read("holdfast_commits_total", outcome="committed")
    assert commits == read("holdfast_commit_seconds_count")
    assert 6 <= commits <= read("holdfast_appends_total"), "an intent, then the rest; for each of three jobs"
    assert "job_" not in re.sub(r'type="\w+"|job_takeovers', "", metrics.text().decode()), (
        "no job has a series"
    )


async def test_replays_failures_and_models_are_counted(volatile_folder: Path) -> None:
    app = hf.App()
    looked: list[str] = []

    @app.tool(effect="read_only")
    async def look(page: str) -> str:
        looked.append(page)
        if len(looked) == 2:
            raise LookupError("once")
        return page

    @app.agent
    async def twice(page: str) -> str:
        await look("first")
        return await look(page)

    metrics = Metrics()
    process = await open_process(app.programs(), f"sqlite:///{volatile_folder / 'h.db'}", meter=metrics)
    try:
        assert await process.result(await process.start(JobDraft(kind="twice", input={"page": "p"}))) == "p"
    finally:
        await process.close()
    read = Read(metrics.text().decode())
    assert read("holdfast_replayed_total") == 1, "the first look, in the second attempt"
    assert read("holdfast_calls_total", tool="look", outcome="failed") == 1
    assert read("holdfast_calls_total", tool="look", outcome="succeeded") == 2
    assert read("holdfast_attempts_total", outcome="pending") == 1


async def test_a_job_that_is_held_because_it_stands_still_is_counted(
    volatile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a stalled job raises a counter once it is held. Method: an agent that awaits a future; short bounds."""
    for name in ("LOOK_EVERY_S", "REPORT_AFTER_S", "HOLD_AFTER_S"):
        monkeypatch.setattr(stall_detector, name, 0.02)
    app, metrics = hf.App(), Metrics()

    @app.agent
    async def forgetful() -> None:
        await asyncio.get_running_loop().create_future()

    process = await open_process(app.programs(), f"sqlite:///{volatile_folder / 'h.db'}", meter=metrics)
    try:
        with pytest.raises(JobHeld, match="in forgetful"):
            await process.result(await process.start(JobDraft(kind="forgetful", input={})))
    finally:
        await process.close()
    read = Read(metrics.text().decode())
    assert read("holdfast_jobs_stalled_total") == read("holdfast_events_total", type="job_stalled") == 1
    assert read("holdfast_attempts_total", outcome="waiting") == 1


async def test_jobs_that_stand_still_are_a_gauge(backend: Backend) -> None:
    async with api(backend) as web:
        await web.one.stalled()
        read = await scraped(web)
        assert read("holdfast_stalled_jobs") == 1
        assert read("holdfast_jobs", status="waiting", reason="stalled") == 1


def test_what_the_engine_says_is_counted_as_what_it_is() -> None:
    metrics = Metrics()
    metrics.record_sweep(SweepStats(expired_found=5, recovered=3, failed=2, errors=1, scan_duration_ms=40))
    metrics.record_refusal(Fenced("somebody else's"))
    metrics.record_unproven()
    metrics.record_cache_lookup(hit=True)
    metrics.record_cache_lookup(hit=False)
    usage = {"input": 30, "output": 12, "usd_micros": 1500}
    metrics.model(None, "anthropic:m", "0/m#1").over("answered", usage)  # type: ignore[arg-type]
    metrics.model(None, "anthropic:m", "0/m#2").over("again")  # type: ignore[arg-type]
    metrics.model(None, "anthropic:m", "0/m#3").over("answered", {"cached": True})  # type: ignore[arg-type]
    metrics.late(0.3)
    read = Read(metrics.text().decode())
    assert read("holdfast_sweeps_total") == read("holdfast_sweep_errors_total") == 1
    assert read("holdfast_leases_expired_total") == 5
    assert (read("holdfast_sweep_recovered_total"), read("holdfast_sweep_dead_letters_total")) == (3, 2)
    assert read("holdfast_sweep_seconds_sum") == pytest.approx(0.04)
    assert read("holdfast_last_sweep_timestamp_seconds") == 0, "a sweep that failed is not the last sweep"
    metrics.record_sweep(SweepStats())
    assert Read(metrics.text().decode())("holdfast_last_sweep_timestamp_seconds") > 1_700_000_000
    assert read("holdfast_store_refused_total", code="fenced") == 1
    assert read("holdfast_unproven_total") == 1
    assert read("holdfast_cache_requests_total", outcome="hit") == 1
    counts = {
        outcome: read("holdfast_model_calls_total", outcome=outcome)
        for outcome in ("answered", "again", "cached")
    }
    assert counts == {"answered": 1, "again": 1, "cached": 1}
    assert read("holdfast_model_tokens_total", model="anthropic:m", direction="input") == 30
    assert read("holdfast_model_usd_total", model="anthropic:m") == pytest.approx(0.0015)
    assert read("holdfast_event_loop_delay_seconds_bucket", le="0.25") == 0
    assert read("holdfast_event_loop_delay_seconds_count") == 1


def test_names_are_few() -> None:
    few = Few()
    names = [few(f"tool-{nth}") for nth in range(NAMES_MAX + 50)]
    assert (len(set(names)), names[-1], few("tool-0")) == (NAMES_MAX + 1, OTHER, "tool-0")


def test_nobody_who_watches_costs_nothing_but_a_call() -> None:
    """The default makes no object and looks at no clock; every hook of the port is there."""
    asked: Mapping[str, tuple[Any, ...]] = {
        "commit": ((),),
        "attempt": (None,),
        "call": (None, "t", "read_only", "k"),
        "record_isolation": ("started",),
        "model": (None, "m", "k"),
        "record_claims": ((),),
        "record_refusal": (None,),
        "record_replay": (),
        "record_unproven": (),
        "record_stall": (),
        "record_sweep": (None,),
    }
    hooks = {name for name in vars(Telemetry) if not name.startswith("_")}
    assert hooks == set(asked) | {"record_cache_lookup"}
    for name, args in asked.items():
        assert getattr(SILENT, name)(*args) in {NOTHING, None}, name
    assert hooks <= set(vars(Metrics)), "and whoever counts overrides all of them"


# ── the service ───────────────────────────────────────────────────────────────────────────────────


async def test_requests_are_counted_by_route_and_not_by_id(backend: Backend) -> None:
    async with api(backend) as web:
        job_id = await web.one.sleeping()
        await web.get(f"/api/jobs/{job_id}")
        await web.ask("GET", "/api/jobs/job_unknown")
        await web.ask("GET", "/nowhere/at/all")
        await web.one.store.queues.limit(QueueLimits(queue="full", depth_max=0))
        busy = await web.ask("POST", "/api/jobs", {"kind": "k", "queue": "full"})
        read = await scraped(web)
        text = (await web.ask("GET", "/metrics")).text
    route = {"method": "GET", "route": "/api/jobs/{job_id}"}
    assert read("holdfast_http_requests_total", **route, status="200") == 1
    assert read("holdfast_http_requests_total", **route, status="404") == 1
    assert read("holdfast_http_requests_total", route="none", status="404") == 1
    assert read("holdfast_http_refused_total", code="not_found") == 2
    assert (busy.status_code, read("holdfast_http_refused_total", code="busy")) == (429, 1)
    assert int(busy.headers["retry-after"]) > 0
    assert read("holdfast_admission_refused_total", code="busy") == 1
    assert read("holdfast_http_seconds_count", route="/api/jobs/{job_id}") == 2
    assert job_id not in text


async def test_the_store_is_told_as_it_is(backend: Backend) -> None:
    async with api(backend) as web:
        await web.one.uncertain()
        await web.one.dead()
        await web.one.sleeping()
        await web.one.submit(web.one.nap)
        web.one.clock.advance(90 * SECOND)
        read = await scraped(web)
        assert read("holdfast_jobs", queue="default", status="waiting", reason="reconcile") == 1
        assert read("holdfast_jobs", queue="default", status="waiting", reason="dead_letter") == 1
        assert read("holdfast_jobs", queue="default", status="pending", reason="") == 1
        assert read("holdfast_dead_letters") == read("holdfast_uncertain_calls") == 1
        assert read("holdfast_oldest_ready_seconds") == pytest.approx(90)
        assert read("holdfast_store_up") == read("holdfast_info", tier="sqlite") == 1
        assert read("holdfast_database_bytes") > 100_000
        assert 0 < read("holdfast_disk_free_ratio") < 1
        await web.one.sleeping()
        again = await scraped(web)
        assert again("holdfast_jobs", reason="timer") == 1, "what was seen a moment ago is told again"
        web.one.clock.advance(10 * SECOND)
        assert (await scraped(web))("holdfast_jobs", reason="timer") == 2
        await web.one.store.close()
        web.one.clock.advance(10 * SECOND)
        gone = await scraped(web)
    assert gone("holdfast_store_up") == 0
    assert "holdfast_jobs" not in gone.families


async def test_a_backup_has_an_age(backend: Backend) -> None:
    async with api(backend) as web:
        await remember_backup(web.one.store, LastBackup(web.one.clock.wall_us(), "digest"))
        web.one.clock.advance(26 * HOUR)
        assert (await scraped(web))("holdfast_backup_age_seconds") == 26 * 3600


async def test_many_ask_and_the_store_is_looked_at_once(backend: Backend) -> None:
    async with api(backend) as web:
        looks = 0
        look = web.one.store.vitals.read

        async def counted() -> Any:
            nonlocal looks
            looks += 1
            return await look()

        web.one.store.vitals.read = counted  # type: ignore[method-assign]
        answers: list[httpx2.Response] = await asyncio.gather(
            *(web.ask("GET", "/metrics") for _ in range(10))
        )
    assert (looks, {answer.status_code for answer in answers}) == (1, {200})
