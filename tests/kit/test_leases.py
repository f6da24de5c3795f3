"""Leases on work items: one holder, and the one who lost it is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.errors import NotFound, StoreUnavailable
from holdfast.kit import (
    CheckpointManager,
    Database,
    HeartbeatThread,
    LeaseConflictError,
    LeaseError,
    LeaseExpiredError,
    LeaseManager,
    RecoverySweep,
)
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind
from holdfast.model.time import SECOND
from holdfast.model.worker_identity import Identity, worker_name
from holdfast.store.clock import VirtualClock
from tests.kit.conftest import Empty


def test_an_item_goes_to_one_worker(db: Database) -> None:
    one, two = LeaseManager(db, "one"), LeaseManager(db, "two", lease_duration_seconds=60)
    item = one.submit("t", "tool_execution", {"n": 1})
    held = one.acquire_lease()
    assert held is not None
    assert (held.work_item_id, held.task_id, held.input_data) == (item, "t", {"n": 1})
    assert (held.work_type, held.lease_holder, held.retry_count) == ("tool_execution", "one", 0)
    assert two.acquire_lease() is None
    assert [lease.work_item_id for lease in one.get_my_leases()] == [item]
    status = two.check_lease_status(item)
    assert (status.status, status.lease_holder, status.expired) == ("in_progress", "one", False)
    assert status.seconds_left == 300
    assert one.release_lease(item, output_data={"ok": True})
    assert one.get_my_leases() == []
    assert two.check_lease_status(item).status == "completed"
    assert issubclass(LeaseExpiredError, LeaseError)
    assert issubclass(LeaseConflictError, LeaseError)


def test_more_important_first_then_older(db: Database, clock: VirtualClock) -> None:
    manager = LeaseManager(db, "w")
    for priority in (5, 9, 1, 9):
        manager.submit(input_data=priority, priority=priority)
        clock.advance(1)
    given = [item.input_data for item in iter(manager.acquire_lease, None)]
    assert given == [9, 9, 5, 1]


def test_a_worker_may_want_one_kind_or_one_task(db: Database) -> None:
    manager = LeaseManager(db, "w")
    for task in ("a", "b", None):
        for kind in ("llm_call", "subtask"):
            manager.submit(task, kind, f"{task} {kind}")

    def take(**filters: Any) -> Any:
        item = manager.acquire_lease(**filters)
        return None if item is None else item.input_data

    assert take(task_id_filter="b", work_type_filter="subtask") == "b subtask"
    assert take(task_id_filter="b") == "b llm_call"
    assert take(task_id_filter="b") is None
    assert {take(work_type_filter="llm_call"), take(work_type_filter="llm_call")} == {
        "a llm_call",
        "None llm_call",
    }
    assert take(work_type_filter="llm_call") is None
    assert {take(), take()} == {"a subtask", "None subtask"}
    assert take() is None
    manager.submit("brand new", "subtask", "late")
    assert take() == "late", "a task that came up later is served too"


def test_an_expired_lease_is_not_renewed(db: Database, clock: VirtualClock) -> None:
    one, two = LeaseManager(db, "one", 10), LeaseManager(db, "two", 10)
    item = one.submit()
    one.acquire_lease()
    clock.advance(9 * SECOND)
    one.renew_lease(item)
    clock.advance(9 * SECOND)
    assert two.acquire_lease() is None, "renewed in time"
    clock.advance(SECOND)
    with pytest.raises(LeaseExpiredError):
        one.renew_lease(item)
    assert one.get_my_leases() == []
    taken = two.acquire_lease()
    assert taken is not None
    assert taken.retry_count == 1, "nobody had to sweep"


@pytest.mark.parametrize("how", ["taken", "swept"])
def test_who_lost_a_lease_is_told_and_writes_nothing(db: Database, clock: VirtualClock, how: str) -> None:
    """A paused worker comes back after its item was taken, or put back: it raises, and the item is as it was."""
    one, two = LeaseManager(db, "one", 10), LeaseManager(db, "two", 10)
    item = one.submit()
    one.acquire_lease()
    clock.advance(11 * SECOND)
    expected: type[LeaseError]
    if how == "taken":
        assert two.acquire_lease() is not None
        expected = LeaseConflictError
    else:
        assert RecoverySweep(db).scan_and_recover().recovered == 1
        expected = LeaseExpiredError
    before = db.look(db.store.jobs.head(item))
    with pytest.raises(expected):
        one.release_lease(item, success=True, output_data="too late")
    assert db.look(db.store.jobs.head(item)) == before
    with pytest.raises(expected):
        one.release_lease(item)
    if how == "taken":
        assert two.release_lease(item)
        with pytest.raises(LeaseConflictError):
            two.release_lease(item)


def test_a_slow_worker_whose_item_nobody_took_may_finish(db: Database, clock: VirtualClock) -> None:
    one = LeaseManager(db, "one", 10)
    item = one.submit()
    one.acquire_lease()
    clock.advance(100 * SECOND)
    assert one.release_lease(item, output_data=1)
    assert one.check_lease_status(item).status == "completed"


def test_failures(db: Database) -> None:
    manager = LeaseManager(db, "w")
    final = manager.submit(input_data="final")
    manager.acquire_lease()
    manager.release_lease(final, success=False, error="no paper")
    assert manager.check_lease_status(final).status == "failed"
    again = manager.submit(input_data="again")
    for attempt in (1, 2, 3):
        assert manager.acquire_lease() is not None, attempt
        manager.release_lease(again, success=False, error="no ink", retry=True)
    assert manager.acquire_lease() is None
    status = manager.check_lease_status(again)
    assert (status.status, status.dead_letter) == ("failed", True)
    with pytest.raises(NotFound):
        manager.check_lease_status("nobody's")


def test_an_item_that_kills_its_workers_is_set_aside(db: Database, clock: VirtualClock) -> None:
    """Two takeovers are given, the third is not: with or without sweeps between them."""
    manager = LeaseManager(db, "w", 1)
    item = manager.submit("t")
    for _ in range(3):
        assert manager.acquire_lease() is not None
        clock.advance(2 * SECOND)
    assert manager.acquire_lease() is None
    assert manager.check_lease_status(item).dead_letter
    swept = manager.submit("t")
    for _ in range(2):
        manager.acquire_lease()
        clock.advance(2 * SECOND)
        assert RecoverySweep(db).scan_and_recover().recovered == 1
    manager.acquire_lease()
    clock.advance(2 * SECOND)
    stats = RecoverySweep(db).scan_and_recover()
    assert (stats.expired_found, stats.recovered, stats.failed) == (1, 0, 1)
    assert manager.check_lease_status(swept).dead_letter


def test_a_cancelled_item_ends_cancelled(db: Database) -> None:
    manager = LeaseManager(db, "w")
    item = manager.submit()
    manager.acquire_lease()
    letter = MailDraft(job_id=item, kind=MailKind.CANCEL, operation_id="op-1", sender="me")
    db.run(db.store.post.send(letter))
    assert not manager.release_lease(item, output_data="done")
    assert manager.check_lease_status(item).status == "cancelled"
    signalled = manager.submit()
    manager.acquire_lease()
    db.run(
        db.store.post.send(MailDraft(job_id=signalled, kind=MailKind.SIGNAL, operation_id="op-2", name="hi"))
    )
    assert manager.release_lease(signalled)


# ── heartbeats ────────────────────────────────────────────────────────────────────────────────────


class Renewing:
    """Stands in for a manager: answers from a list, and tells when the list is used up."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.over = threading.Event()

    def renew_lease(self, work_item_id: str, lease_duration_seconds: float | None = None) -> int:
        answer = self.answers.pop(0) if self.answers else None
        if not self.answers:
            self.over.set()
        if answer is not None:
            raise answer
        return 0


def test_a_heartbeat_keeps_the_lease(file_db: Database) -> None:
    manager = LeaseManager(file_db, "w", 60)
    item = manager.submit()
    manager.acquire_lease()
    beating = Renewing(None, None, None)
    with HeartbeatThread(beating, item, 0.001) as thread:
        assert beating.over.wait(10)
    assert thread.beats >= 2
    assert thread.lost is None
    with manager.heartbeat(item, interval_seconds=60) as real:
        assert real.is_alive()
    assert not real.is_alive()


def test_a_heartbeat_tells_when_the_lease_is_lost() -> None:
    told: list[Any] = []
    lost = LeaseConflictError("taken")
    thread = HeartbeatThread(
        Renewing(None, lost), "item", 0.001, on_lease_lost=lambda *said: told.append(said)
    )
    thread.start()
    thread.join(10)
    assert told == [("item", lost)]
    assert thread.lost is lost


def test_three_failures_in_a_row_are_too_many() -> None:
    away = StoreUnavailable("away")
    thread = HeartbeatThread(Renewing(away, away, None, away, away, away), "item", 0.001)
    thread.start()
    thread.join(10)
    assert thread.lost is away
    assert thread.beats == 1


# ── the sweep ─────────────────────────────────────────────────────────────────────────────────────


def test_a_sweep_notes_who_lost_what(db: Database, clock: VirtualClock) -> None:
    """The task knows; and the note is never taken for a point to resume from."""
    manager, points = LeaseManager(db, "gone", 1), CheckpointManager(conn=db)
    good = points.commit_step(points.begin_step("t", "iteration_end", {"n": 1}))
    items = manager.submit_many(["a", "b"], "t")
    assert len(list(iter(manager.acquire_lease, None))) == 2
    clock.advance(2 * SECOND)
    sweep = RecoverySweep(db, scan_interval_seconds=60, create_checkpoints=True)
    stats = sweep.scan_and_recover()
    assert (stats.recovered, stats.checkpoints_created) == (2, 2)
    noted = [one for one in points.list_checkpoints("t") if one.checkpoint_type == "error_boundary"]
    assert {one.work_item_id for one in noted} == set(items)
    assert {one.snapshot["lease_holder"] for one in noted} == {"gone"}
    assert points.get_last_verified_checkpoint("t") == good
    sweep.scan_and_recover()
    totals = sweep.get_statistics()
    assert (totals["expired_found"], totals["recovered"], totals["scans"]) == (2, 2, 2)
    quiet = RecoverySweep(db, create_checkpoints=False)
    list(iter(manager.acquire_lease, None))
    clock.advance(2 * SECOND)
    assert quiet.scan_and_recover().checkpoints_created == 0


def test_a_sweep_keeps_the_latest_points(db: Database) -> None:
    points = CheckpointManager(conn=db)
    for n in range(12):
        points.commit_step(points.begin_step("t", "x", n))
    RecoverySweep(db, cleanup_old_checkpoints=False, checkpoint_retention_limit=5).scan_and_recover()
    assert len(points.list_checkpoints("t")) == 12
    sweep = RecoverySweep(db, checkpoint_retention_limit=5)
    sweep.scan_and_recover()
    assert [one.snapshot for one in points.list_checkpoints("t")] == [11, 10, 9, 8, 7]
    assert sweep.get_statistics()["checkpoints_dropped"] == 7


def test_a_sweep_scans_in_its_thread(file_db: Database, clock: VirtualClock) -> None:
    manager = LeaseManager(file_db, "gone", 1)
    item = manager.submit()
    manager.acquire_lease()
    clock.advance(2 * SECOND)
    with RecoverySweep(file_db, scan_interval_seconds=0.01) as sweep:
        sweep.start()  # once is enough
        while sweep.get_statistics()["recovered"] < 1:
            threading.Event().wait(0.01)
    assert not sweep.get_statistics()["running"]
    assert manager.check_lease_status(item).status == "pending"


def test_the_items_of_a_dead_process_are_free_at_once(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases under the process's own name: if that process is gone, nobody waits for them to run out."""
    here = db.processes.here()
    assert here is not None
    dead = worker_name("kit", Identity(here.boot, here.space, 2**22 + 1, 1))
    manager = LeaseManager(db, dead, 300)
    manager.submit()
    assert manager.acquire_lease() is not None
    monkeypatch.setattr(db, "processes", Empty(here))
    assert RecoverySweep(db).scan_and_recover().recovered == 1
    assert LeaseManager(db).acquire_lease() is not None
