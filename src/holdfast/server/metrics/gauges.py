"""Store gauges: read on a scrape, with one read for all scrapes within a few seconds."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from holdfast.engine.backups import find_last_backup
from holdfast.errors import HoldfastError
from holdfast.model.states import WaitReason
from holdfast.model.store_stats import StoreStats
from holdfast.model.time import SECOND
from holdfast.server.metrics import table
from holdfast.server.metrics.meter import OTHER, Metrics
from holdfast.server.metrics.table import Metric
from holdfast.store.address import parse
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

LOOK_EVERY_US: Final = 5 * SECOND
QUEUES_MAX: Final = 100
log = logging.getLogger("holdfast.metrics")


class Gauges(Collector):
    """Call `look` before the registry is read."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        version: str,
        nats: Callable[[], bool] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._version = version
        self._nats = nats
        self._file: Path | None = None
        self._looking = asyncio.Lock()
        self._looked_at: int | None = None
        self._found: StoreStats | None = None
        self._took_us = 0
        self._ahead_us = 0
        self._backup_at: int | None = None
        metrics.registry.register(self)

    async def look(self) -> None:
        """Refreshes the gauges if they are more than a few seconds old; if the store does not answer, `store_up` is
        0."""
        async with self._looking:
            began = self._clock.tick_us()
            if self._looked_at is not None and began - self._looked_at < LOOK_EVERY_US:
                return
            try:
                self._file = _file_of((await self._store.info()).address)
                asked_at = self._clock.wall_us()
                self._found = await self._store.vitals.read()
                last = await find_last_backup(self._store)
                self._backup_at = None if last is None else last.at
            except HoldfastError as error:
                log.warning("metrics of the store could not be read: %s", error)
                self._found = None
            else:
                # The store took its time between these two readings of our clock.
                self._ahead_us = _beyond(self._found.now, asked_at, self._clock.wall_us())
            self._looked_at = self._clock.tick_us()
            self._took_us = self._looked_at - began

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _gauge(table.INFO, 1, self._version, str(self._store.tier))
        yield _gauge(table.STORE_UP, int(self._found is not None))
        if self._nats is not None:
            yield _gauge(table.NATS_UP, int(self._nats()))
        yield _gauge(table.LOOK_SECONDS, self._took_us / SECOND)
        yield from self._place()
        if self._found is not None:
            yield from self._vitals(self._found)

    def _place(self) -> Iterator[GaugeMetricFamily]:
        if self._file is None or not self._file.exists():
            return
        usage = shutil.disk_usage(self._file.parent)
        log_file = self._file.with_name(self._file.name + "-wal")
        yield _gauge(table.DISK, usage.free / usage.total)
        yield _gauge(table.WAL, log_file.stat().st_size if log_file.exists() else 0)

    def _vitals(self, stats: StoreStats) -> Iterator[GaugeMetricFamily]:
        yield _jobs(stats)
        yield _gauge(table.OLDEST, stats.oldest_ready_us / SECOND)
        yield _gauge(table.DEAD, _count_waiting(stats, WaitReason.DEAD_LETTER))
        yield _gauge(table.STALLED, _count_waiting(stats, WaitReason.STALLED))
        yield _gauge(table.UNCERTAIN, stats.uncertain)
        yield _gauge(table.OVER, stats.expired)
        yield _gauge(table.TAKEOVERS, max((line.takeovers for line in stats.lines), default=0))
        yield _gauge(table.DATABASE, stats.bytes)
        yield _gauge(table.CLOCK, self._ahead_us / SECOND)
        cached = GaugeMetricFamily(table.CACHED.name, table.CACHED.meaning, labels=table.CACHED.labels)
        cached.add_metric(["kept"], stats.cached)
        cached.add_metric(["expired"], stats.cached_over)
        yield cached
        if self._backup_at is not None:
            yield _gauge(table.BACKUP, max(0, stats.now - self._backup_at) / SECOND)


def _count_waiting(stats: StoreStats, reason: WaitReason) -> int:
    return sum(line.jobs for line in stats.lines if line.wait_reason is reason)


def _jobs(stats: StoreStats) -> GaugeMetricFamily:
    """The job counts. Queues beyond the first hundred, by name, share a row."""
    queue_names = set(sorted({line.queue for line in stats.lines})[:QUEUES_MAX])
    counts: Counter[tuple[str, str, str]] = Counter()
    for line in stats.lines:
        queue = line.queue if line.queue in queue_names else OTHER
        counts[queue, line.status, line.wait_reason or ""] += line.jobs
    family = GaugeMetricFamily(table.JOBS.name, table.JOBS.meaning, labels=table.JOBS.labels)
    for labels, number in sorted(counts.items()):
        family.add_metric(labels, number)
    return family


def _gauge(metric: Metric, value: float, *labels: str) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    family.add_metric(labels, value)
    return family


def _beyond(instant: int, earliest: int, latest: int) -> int:
    """How far the instant lies outside the span; positive if it is ahead."""
    return instant - latest if instant > latest else min(0, instant - earliest)


def _file_of(address: str) -> Path | None:
    place = parse(address)
    return place.path if place.kind == "sqlite" else None
