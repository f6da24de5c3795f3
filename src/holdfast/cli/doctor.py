"""`holdfast doctor`: checks this machine and the store, and names remedies."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator

import apsw
import click

from holdfast.cli.db import survives
from holdfast.cli.nats_checkup import nats_findings
from holdfast.cli.open_store import existing
from holdfast.cli.options import json_option, store_option
from holdfast.cli.output import table, wait_for
from holdfast.cli.store_checkup import Finding, examine_store
from holdfast.engine.crash_points import crash_points as every_crash_point
from holdfast.engine.recovery import LastSweep, find_last_sweep
from holdfast.errors import HoldfastError
from holdfast.model.time import to_iso
from holdfast.store import address
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Tier
from holdfast.store.sqlite.connection import check_library
from holdfast.store.sqlite.filesystem import check_place
from holdfast.store.sqlite.lock_holders import find_stopped_writers

FREE_WARNING_PERCENT = 15
FREE_CRITICAL_PERCENT = 5


@click.command()
@click.option("--crash-points", is_flag=True, help="List the crash points for tests, and stop.")
@click.option(
    "--sample",
    type=click.IntRange(0, 1000),
    default=20,
    show_default=True,
    help="Number of newest jobs whose journals are verified; `holdfast db verify` verifies all.",
)
@store_option
@json_option
def doctor(where: str, *, sample: int, crash_points: bool, as_json: bool) -> None:
    """Check this machine and the store.

    Exit status 1 if a check failed; warnings do not change it.

    Example: holdfast doctor --store postgresql://app@db/holdfast
    """
    if crash_points:
        points = list(every_crash_point().items())
        table(("crash point", "state at this point"), points, as_json=as_json)
        return
    findings = [*_machine(), *_place(where)]
    if not any(finding.verdict == "failed" for finding in findings):
        findings += wait_for(_store(where, sample))
    findings += wait_for(nats_findings())
    rows = [(finding.verdict, finding.check, finding.finding) for finding in findings]
    table(("verdict", "check", "finding"), rows, as_json=as_json)
    if any(finding.verdict == "failed" for finding in findings):
        raise click.exceptions.Exit(1)


def _machine() -> Iterator[Finding]:
    yield Finding("ok", "python", platform.python_version())
    try:
        check_library()
        yield Finding("ok", "sqlite library", apsw.sqlite_lib_version())
    except HoldfastError as error:
        yield _failed("sqlite library", error)


def _place(where: str) -> Iterator[Finding]:
    """Checks of a file before it is opened."""
    try:
        place = address.parse(where)
        if place.kind != "sqlite":
            return
        path = place.path.absolute()
        check_place(path)
    except HoldfastError as error:
        yield _failed("folder", error)
        return
    yield Finding("ok", "folder", f"{path.parent} is on a local disk and writable")
    usage = shutil.disk_usage(path.parent)
    free = usage.free * 100 // usage.total
    verdict = (
        "ok" if free >= FREE_WARNING_PERCENT else "warning" if free >= FREE_CRITICAL_PERCENT else "failed"
    )
    yield Finding(verdict, "free disk", f"{free} % free of {usage.total // 2**30} GiB")
    for pid, where_it_is in find_stopped_writers(path).items():
        remedy = f"continue it (kill -CONT {pid}) or end it (kill -9 {pid}): nothing is lost"
        yield Finding("failed", "writers", f"process {pid} is stopped {where_it_is}; {remedy}")


async def _store(where: str, sample: int) -> list[Finding]:
    try:
        store = await existing(where)
    except HoldfastError as error:
        return [_failed("store", error)]
    try:
        info = await store.info()
        findings = [Finding("ok", "store", f"{info.address}, epoch {info.epoch}")]
        readable = (
            f"version {info.schema_version}; readable by Holdfast with schema {info.min_reader} or newer"
        )
        findings.append(Finding("ok", "schema", readable))
        reduced = info.tier in {Tier.POSTGRES_REDUCED, Tier.SQLITE_RELAXED, Tier.MEMORY}
        findings.append(
            Finding("warning" if reduced else "ok", "tier", f"{info.tier}: survives {survives(store)}")
        )
        findings += [Finding("ok", name, value) for name, value in info.details.items()]
        last = await find_last_sweep(store)
        if last is not None:
            findings.append(_sweep(last))
        findings += await examine_store(store, SystemClock(), sample)
    finally:
        await store.close()
    return findings


def _sweep(last: LastSweep) -> Finding:
    stats = last.stats
    summary = f"{stats.recovered} jobs requeued, {stats.failed} moved to the dead-letter queue"
    return Finding("warning" if stats.failed else "ok", "last sweep", f"{to_iso(last.at)}: {summary}")


def _failed(check: str, error: HoldfastError) -> Finding:
    return Finding("failed", check, f"{error} — {error.hint} [{error.code}]")
