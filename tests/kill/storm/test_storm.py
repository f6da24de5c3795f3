"""Goal: a storm of kills loses nothing, repeats nothing, parks nothing and buries no healthy job. Method: real workers,
a receiver with a log of its own, a person who answers truthfully from it; the verdict comes from that log, from the
client and from `holdfast db verify`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.kill.storm.report import save
from tests.kill.storm.storm import Plan, run_storm


@pytest.mark.timeout(420)
async def test_short_storm(store: str, where: str, volatile_folder: Path) -> None:
    """25 kills, two at once among them, under a supervisor and without one; stops beyond the lease, blocking jobs."""
    plan = Plan(
        kills=25,
        store=store,
        seed=1,
        direct=3,
        open_jobs=12,
        kills_per_s=5.0,
        lease_s=5.0,
        stop_every=10,
        drops=0.0,
    )
    async with asyncio.timeout(400):  # unlike pytest's own limit it ends the workers, too
        report = await run_storm(plan, volatile_folder, where)
    assert report.verdict.is_clean, report
    assert report.kills >= 25
    assert report.stops >= 1


@pytest.mark.chaos
@pytest.mark.timeout(3600)
async def test_storm(store: str, where: str, tmp_path: Path) -> None:
    """500 kills."""
    async with asyncio.timeout(3500):
        report = await run_storm(Plan(kills=500, store=store, seed=1), tmp_path, where)
    print(report)
    save(report)
    assert report.verdict.is_clean, report
