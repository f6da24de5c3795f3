"""Meter: counts and times what a process does. The number of labels is bounded: names beyond the first hundreds share
one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family

from holdfast.engine.durable_call import Owner
from holdfast.engine.recovery import SweepStats
from holdfast.engine.telemetry import Telemetry, TimedOperation
from holdfast.errors import HoldfastError
from holdfast.model.append import Append
from holdfast.model.events import BudgetReached, JobDeadLettered, JobParked
from holdfast.model.lease import Grant
from holdfast.server.metrics import table
from holdfast.server.metrics.table import Metric

NAMES_MAX: Final = 200
OTHER: Final = "other"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_now: Final = time.perf_counter
_Done: TypeAlias = Callable[[float, str, Any], None]


class Few:
    """Bounds the label values: the first names are used as they are, all further ones become `other`."""

    def __init__(self, most: int = NAMES_MAX) -> None:
        self._known: set[str] = set()
        self._most = most

    def __call__(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(name)
        return name


class _Since(TimedOperation):
    __slots__ = ("_began", "_done")

    def __init__(self, done: _Done) -> None:
        self._done = done
        self._began = _now()

    def over(self, how: str, result: Any = None) -> None:
        self._done(_now() - self._began, how, result)


class _Plain:
    """A registry without the creation times of its counters, which would double the number of lines."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class Metrics(Telemetry):
    """The counters of one process, and their registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._counters = {metric.name: self._made(Counter, metric) for metric in _of("counter")}
        self._histograms = {
            metric.name: Histogram(
                metric.name, metric.meaning, metric.labels, buckets=metric.buckets, registry=self.registry
            )
            for metric in _of("histogram")
        }
        self._last_sweep = self._made(Gauge, table.LAST_SWEEP)
        self._tools, self._models = Few(), Few()
        self._children: dict[tuple[str, ...], Any] = {}
        # These exist from the start: `increase()` of a series that appears with its first event is 0, and an alert on
        # a rare event would miss it.
        self._child(table.COMMITS, "committed")
        for code in ("fenced", "store_busy", "broken", "store_corrupt"):
            self._child(table.REFUSED, code)
        for event in (JobParked, JobDeadLettered, BudgetReached):
            self._child(table.EVENTS, event.type)
        self._child(table.SUSPECTS, "convicted")

    def _made(self, kind: Any, metric: Metric) -> Any:
        return kind(metric.name, metric.meaning, metric.labels, registry=self.registry)

    def _child(self, metric: Metric, *labels: str) -> Any:
        """The counter or histogram with these labels, cached."""
        place = (metric.name, *labels)
        child = self._children.get(place)
        if child is None:
            family = (
                self._histograms[metric.name] if metric.kind == "histogram" else self._counters[metric.name]
            )
            child = self._children[place] = family.labels(*labels) if labels else family
        return child

    def text(self) -> bytes:
        """The whole registry in the Prometheus text format."""
        return generate_latest(_Plain(self.registry))

    # ── the engine ────────────────────────────────────────────────────────────────────────────────

    def commit(self, appends: Sequence[Append]) -> TimedOperation:
        def done(took: float, how: str, _result: Any) -> None:
            self._child(table.COMMIT_SECONDS).observe(took)
            self._child(table.COMMITS, how).inc()
            if how == "committed":
                self._child(table.APPENDS).inc(len(appends))
                for append in appends:
                    for event in append.events:
                        self._child(table.EVENTS, event.type).inc()

        return _Since(done)

    def attempt(self, grant: Grant) -> TimedOperation:
        def done(took: float, how: str, _result: Any) -> None:
            self._child(table.LEASE_SECONDS).observe(took)
            self._child(table.ATTEMPTS, how).inc()

        return _Since(done)

    def call(self, owner: Owner, name: str, effect: str, step_key: str) -> TimedOperation:
        def done(took: float, how: str, _result: Any) -> None:
            self._child(table.CALL_SECONDS, str(effect)).observe(took)
            self._child(table.CALLS, self._tools(name), str(effect), how).inc()

        return _Since(done)

    def model(self, owner: Owner, model: str, step_key: str) -> TimedOperation:
        model_label = self._models(model)

        def done(took: float, how: str, result: Any) -> None:
            used = result if how == "answered" and isinstance(result, dict) else {}
            if used.get("cached"):
                self._child(table.MODEL_CALLS, model_label, "cached").inc()
                return
            self._child(table.MODEL_CALLS, model_label, how).inc()
            self._child(table.MODEL_SECONDS, model_label).observe(took)
            for direction in ("input", "output", "cache_read", "cache_write"):
                if tokens := used.get(direction):
                    self._child(table.MODEL_TOKENS, model_label, direction).inc(tokens)
            if micros := used.get("usd_micros"):
                self._child(table.MODEL_USD, model_label).inc(micros / 1_000_000)

        return _Since(done)

    def record_claims(self, grants: Sequence[Grant]) -> None:
        self._child(table.CLAIMS, "granted" if grants else "empty").inc()
        for grant in grants:
            self._child(table.ACQUIRED, "takeover" if grant.takeover else "free").inc()
            if grant.takeover:
                self._child(table.EXPIRED).inc()

    def record_refusal(self, error: HoldfastError) -> None:
        self._child(table.REFUSED, error.code).inc()

    def record_replay(self) -> None:
        self._child(table.REPLAYED).inc()

    def record_cache_lookup(self, *, hit: bool) -> None:
        self._child(table.CACHE, "hit" if hit else "miss").inc()

    def record_unproven(self) -> None:
        self._child(table.UNPROVEN).inc()

    def record_stall(self) -> None:
        self._child(table.JOBS_STALLED).inc()

    def record_isolation(self, how: str) -> None:
        self._child(table.SUSPECTS, how).inc()

    def record_sweep(self, stats: SweepStats) -> None:
        self._child(table.SWEEPS).inc()
        self._child(table.SWEEP_SECONDS).observe(stats.scan_duration_ms / 1000)
        self._child(table.SWEEP_ERRORS).inc(stats.errors)
        self._child(table.EXPIRED).inc(stats.expired_found)
        self._child(table.RECOVERED).inc(stats.recovered)
        self._child(table.BURIED).inc(stats.failed)
        if not stats.errors:
            self._last_sweep.set_to_current_time()

    # ── the server ────────────────────────────────────────────────────────────────────────────────

    def record_response(self, method: str, route: str, status: int, took: float, code: str | None) -> None:
        """Counts a response; `route` is a path of the table of endpoints, `code` that of a problem."""
        self._child(table.HTTP, method, route, str(status)).inc()
        self._child(table.HTTP_SECONDS, route).observe(took)
        if code is not None:
            self._child(table.HTTP_REFUSED, code).inc()
            if status == 429:
                self._child(table.ADMISSION, code).inc()

    def late(self, seconds: float) -> None:
        """Records how late the event loop ran a timer."""
        self._child(table.LOOP_DELAY).observe(seconds)


def _of(kind: str) -> list[Metric]:
    return [metric for metric in table.METRICS if metric.kind == kind]
