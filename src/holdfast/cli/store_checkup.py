"""Checks of an open store for `doctor`: clock, leases, jobs that need a person, backups, a sample of journals."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from holdfast.client.in_process import EmbeddedClient
from holdfast.engine.backups import find_last_backup
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobFilter
from holdfast.model.states import WaitReason
from holdfast.model.store_stats import StoreStats
from holdfast.model.time import HOUR, SECOND, to_iso
from holdfast.store.clock import Clock
from holdfast.store.contract import Store, Tier

CLOCK_WARNING_US = SECOND // 2
READY_WARNING_US = 60 * SECOND
BACKUP_WARNING_US = 26 * HOUR
BACKUP_CRITICAL_US = 72 * HOUR


class Finding(msgspec.Struct, frozen=True):
    """`verdict` is ok, warning or failed."""

    verdict: str
    check: str
    finding: str


async def examine_store(store: Store, clock: Clock, sample: int) -> list[Finding]:
    """All findings about an open store."""
    asked_at = clock.wall_us()
    vitals = await store.vitals.read()
    answered_at, store_clock = clock.wall_us(), store.clock
    set_by_us = store_clock.calendar_us() - store_clock.wall_us()
    on_server = store.tier in {Tier.POSTGRES, Tier.POSTGRES_REDUCED}
    findings = [_clock(vitals, asked_at, answered_at, set_by_us, on_server=on_server), *_jobs(vitals)]
    findings.append(await _backup(store, vitals.now))
    return [*findings, *[finding async for finding in _journals(store, sample)]]


def _clock(vitals: StoreStats, earliest: int, latest: int, set_by_us: int, *, on_server: bool) -> Finding:
    """`set_by_us`: by how much the clock behind store time was set since."""
    ahead_us = max(vitals.now - latest, 0) - max(earliest - vitals.now, 0)
    if abs(ahead_us) < CLOCK_WARNING_US:
        return Finding("ok", "clock", "store time and this host's clock agree")
    finding = (
        f"store time is {abs(ahead_us) / SECOND:.1f} s {'ahead of' if ahead_us > 0 else 'behind'} this host's clock. "
        "Displayed times are off by as much; durations are right, and no job is delayed"
    )
    if abs(set_by_us) < CLOCK_WARNING_US:
        return Finding("warning", "clock", f"{finding}. Repair this host's time service")
    where = "the server's" if on_server else "this host's"
    remedy = f"{where} clock was set by {set_by_us / SECOND:+.1f} s while jobs ran; if it is wrong now, set it right"
    return Finding("warning", "clock", f"{finding}. {remedy[0].upper()}{remedy[1:]}")


def _jobs(vitals: StoreStats) -> list[Finding]:
    dead = sum(line.jobs for line in vitals.lines if line.wait_reason is WaitReason.DEAD_LETTER)
    parked = sum(line.jobs for line in vitals.lines if line.wait_reason is WaitReason.DRIFT)
    stalled = sum(line.jobs for line in vitals.lines if line.wait_reason is WaitReason.STALLED)
    late = vitals.oldest_ready_us >= READY_WARNING_US
    waited = f"oldest ready job has waited {vitals.oldest_ready_us / SECOND:.0f} s"
    return [
        _none(vitals.expired, "orphaned leases", "job", "of dead workers; the next worker takes over"),
        _none(vitals.uncertain, "uncertain calls", "call", "with an unknown outcome: holdfast jobs --person"),
        _none(dead, "dead letters", "job", "after the last failed attempt: holdfast dead list"),
        _none(
            parked,
            "parked jobs",
            "job",
            "with code that no longer matches the journal: holdfast jobs --person",
        ),
        _none(stalled, "stalled jobs", "job", "without progress: holdfast jobs --reason stalled"),
        _none(
            vitals.suspects,
            "suspects",
            "job",
            "waiting for a worker that runs suspects isolated: holdfast jobs --person",
        ),
        Finding(
            "warning" if late else "ok",
            "queues",
            waited + (". Are workers running? holdfast worker list" if late else ""),
        ),
    ]


def _none(number: int, check: str, noun: str, rest: str) -> Finding:
    finding = f"{number} {noun}{'' if number == 1 else 's'} {rest}"
    return Finding("warning" if number else "ok", check, finding if number else "none")


async def _backup(store: Store, now: int) -> Finding:
    last = await find_last_backup(store)
    if last is None:
        return Finding("warning", "backup", "no backup recorded. Make one: holdfast db backup FILE")
    age_us = now - last.at
    verdict = "ok" if age_us < BACKUP_WARNING_US else "warning" if age_us < BACKUP_CRITICAL_US else "failed"
    return Finding(verdict, "backup", f"{to_iso(last.at)}, {age_us / HOUR:.0f} h ago")


async def _journals(store: Store, sample: int) -> AsyncIterator[Finding]:
    """Verifies a sample of journals, from the first event to the head."""
    if not sample:
        return
    client = EmbeddedClient(store, store.clock, RandomIds())
    jobs = (await store.jobs.list(JobFilter(), limit=sample)).items
    events = 0
    for job in jobs:
        checked = await client.verify(job.job_id)
        events += checked.events
        for violation in checked.violations:
            yield Finding("failed", "journals", f"{job.job_id}: {violation}")
    plural = "" if len(jobs) == 1 else "s"
    yield Finding("ok", "journals", f"{events} events of {len(jobs)} job{plural} verified")
