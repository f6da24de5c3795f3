"""Recovery sweep of the kit: one scan now, or one every minute in a thread."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from holdfast.engine.recovery import (
    LEASE_RAN_OUT,
    RecoveryRules,
    SweepResult,
    SweepStats,
    prove_dead,
    sweep_jobs,
)
from holdfast.errors import HoldfastError, InvalidMove, Unavailable
from holdfast.kit.blocking_portal import Database, need_db
from holdfast.kit.checkpoints import KEPT_MAX, CheckpointManager, make_error_boundary, new_step_id
from holdfast.kit.tasks import TASK_KIND, task_of_queue
from holdfast.model.events import Event
from holdfast.model.jobs import JobFilter
from holdfast.model.lease import TAKEOVERS_MAX
from holdfast.model.limits import EVENTS_PER_APPEND_MAX
from holdfast.model.states import Status

RecoveryStats = SweepStats
EVERY_S: Final = 60


class RecoverySweep:
    """Requeues items whose worker is gone, and counts them.

    `create_checkpoints` records in the item's task which worker lost it: an `error_boundary`, which is for information
    and never resumed from. `cleanup_old_checkpoints` keeps the latest of each task.
    """

    def __init__(
        self,
        conn: Database | None = None,
        scan_interval_seconds: float = EVERY_S,
        create_checkpoints: bool = True,
        cleanup_old_checkpoints: bool = True,
        checkpoint_retention_limit: int = KEPT_MAX,
        *,
        db_path: str | Path | None = None,
        max_retries: int = TAKEOVERS_MAX,
    ) -> None:
        self.db = need_db(conn, db_path)
        self.scan_interval_seconds = scan_interval_seconds
        self.create_checkpoints = create_checkpoints
        self.cleanup_old_checkpoints = cleanup_old_checkpoints
        self.checkpoint_retention_limit = checkpoint_retention_limit
        self._rules = RecoveryRules(takeovers_max=max_retries, by="sweep")
        self._manager = CheckpointManager(conn=self.db)
        self._lock = threading.Lock()
        self._total = SweepStats()
        self._scans = 0
        self._dropped = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def scan_and_recover(self) -> SweepStats:
        """Scan once: recover every expired lease; returns what was done."""
        began = self.db.clock.tick_us()
        with contextlib.suppress(
            Unavailable
        ):  # leases expire without this proof; the sweep below reports an unavailable store
            self.db.run(prove_dead(self.db.store, self.db.processes))
        stats, swept = self.db.run(sweep_jobs(self.db.store, self.db.clock, self._rules))
        if self.create_checkpoints:
            self._note(swept, stats)
        dropped = self._clean_up(stats) if self.cleanup_old_checkpoints else 0
        stats.scan_duration_ms = (self.db.clock.tick_us() - began) / 1000
        with self._lock:
            self._scans += 1
            self._dropped += dropped
            for name in SweepStats.__struct_fields__:
                setattr(self._total, name, getattr(self._total, name) + getattr(stats, name))
        return stats

    def get_statistics(self) -> dict[str, Any]:
        """Totals of all scans of this sweep."""
        with self._lock:
            totals: dict[str, Any] = msgspec.structs.asdict(self._total)
            running = self._thread is not None and self._thread.is_alive()
            return totals | {"scans": self._scans, "checkpoints_dropped": self._dropped, "running": running}

    def start(self) -> None:
        """Start a thread that scans every `scan_interval_seconds`, beginning now."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stopping.clear()
            self._thread = threading.Thread(target=self._scan_on, name="holdfast-sweep", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread; returns when it has ended, after the scan in progress."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _scan_on(self) -> None:
        while True:
            try:
                self.scan_and_recover()
            except HoldfastError:
                with self._lock:
                    self._total.errors += 1
            if self._stopping.wait(self.scan_interval_seconds):
                return

    def _note(self, swept: list[SweepResult], stats: SweepStats) -> None:
        """Record in each task which of its items lost a worker, and which worker that was."""
        by_task: dict[str, list[SweepResult]] = defaultdict(list)
        for result in swept:
            task_id = task_of_queue(result.head.queue)
            if task_id is not None:
                by_task[task_id].append(result)
        for task_id, items in by_task.items():
            for start in range(0, len(items), EVENTS_PER_APPEND_MAX // 2):
                some = items[start : start + EVENTS_PER_APPEND_MAX // 2]
                events: list[Event] = []
                for result in some:
                    state = {
                        "reason": LEASE_RAN_OUT,
                        "lease_holder": result.head.lease_owner,
                        "retry_count": result.head.takeovers + 1,
                        "status": "failed" if result.dead else "pending",
                    }
                    events += make_error_boundary(new_step_id(self.db, task_id), state, result.head.job_id)
                try:
                    self._manager.tasks.write(self._manager.tasks.ensure(task_id), tuple(events))
                except InvalidMove:
                    continue  # the task has ended; no process resumes it
                except Unavailable:
                    stats.errors += 1
                    continue
                stats.checkpoints_created += len(some)

    def _clean_up(self, stats: SweepStats) -> int:
        """Drop checkpoints beyond the limit of each task. A checkpoint is two events: shorter journals are skipped."""
        dropped, cursor = 0, None
        while True:
            filter_ = JobFilter(kind=TASK_KIND, status=Status.PENDING)
            page = self.db.run(self.db.store.jobs.list(filter_, limit=1000, cursor=cursor))
            for record in page.items:
                long = record.head_seq > 2 * self.checkpoint_retention_limit
                if not long or not record.job_id.startswith("kit-task:"):
                    continue
                try:
                    task_id = record.job_id.removeprefix("kit-task:")
                    dropped += self._manager.trim(task_id, self.checkpoint_retention_limit)
                except HoldfastError:
                    stats.errors += 1
            cursor = page.next
            if cursor is None:
                return dropped
