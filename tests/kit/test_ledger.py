"""Tool calls that happen once, answers that are paid for once, and the door between blocking code and the store."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.verify.verify import verify
from holdfast.errors import (
    CallUncertain,
    InvalidPayload,
    InvalidSetting,
    Misuse,
    Refused,
    StoreUnavailable,
)
from holdfast.kit import CheckpointManager, Database, LeaseManager, LLMOutputCache, ToolLedger, get_db
from holdfast.model.time import DAY, HOUR
from holdfast.store.clock import VirtualClock
from holdfast.store.tables.store import SqlStore
from tests.kit.conftest import Empty


class World:
    """A receiver that counts."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def send(self, what: str = "mail") -> dict[str, Any]:
        self.calls[what] += 1
        return {"sent": what}


class Dies(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


def die() -> Any:
    raise Dies


def test_a_call_is_made_once(db: Database) -> None:
    world = World()
    ledger = ToolLedger(db)
    first = ledger.execute_or_replay("mail", "send 1", world.send, "t")
    again = ToolLedger(db).execute_or_replay("mail", "send 1", world.send, "t")
    assert (first, again) == ({"sent": "mail", "replayed": False}, {"sent": "mail", "replayed": True})
    ledger.execute_or_replay("mail", "send 1", world.send, "other task")
    ledger.execute_or_replay("mail", "send 1", world.send, "t", "item-1")
    ledger.execute_or_replay("mail", "send 1", world.send)
    ledger.execute_or_replay("mail", "send 1", world.send)
    assert world.calls["mail"] == 4, "another task, another item, and none are other calls"
    assert ledger.get_stats() == {"executions": 4, "replays": 1, "replay_rate": 0.2, "total_requests": 5}
    forced = ledger.execute_or_replay("mail", "send 1", lambda: world.send("again"), "t", force_execute=True)
    assert (forced["sent"], forced["replayed"]) == ("again", False)
    assert ledger.execute_or_replay("mail", "send 1", world.send, "t")["sent"] == "again", "the newest counts"
    history = ledger.get_execution_history("t")
    assert [(one["status"], one["generation"]) for one in history].count(("succeeded", 1)) == 1
    assert len(ledger.get_execution_history()) == 1


@pytest.mark.parametrize("task", ["t", None])
def test_a_call_cut_off_is_never_made_again_by_itself(db: Database, task: str | None) -> None:
    """Die between intent and outcome: the next one is told what to type, and only after a person's word goes on."""
    world, ledger = World(), ToolLedger(db)
    with pytest.raises(Dies):
        ledger.execute_or_replay("mail", "send", die, task)
    for _ in range(2):
        with pytest.raises(CallUncertain) as caught:
            ToolLedger(db).execute_or_replay("mail", "send", world.send, task)
        assert "ledger.reconcile(" in caught.value.hint
    assert world.calls == Counter()
    assert ledger.get_execution_history(task)[0]["status"] == "uncertain"
    ledger.reconcile("mail", "send", "not_happened", why="the log is empty", task_id=task)
    assert ledger.execute_or_replay("mail", "send", world.send, task) == {"sent": "mail", "replayed": False}
    with pytest.raises(Misuse):
        ledger.reconcile("mail", "send", "happened", why="it is settled", task_id=task)


def test_a_persons_word_can_carry_the_result(db: Database) -> None:
    world, ledger = World(), ToolLedger(db)
    with pytest.raises(Dies):
        ledger.execute_or_replay("mail", "send", die, "t")
    with pytest.raises(InvalidPayload):
        ledger.reconcile("mail", "send", "perhaps", why="?", task_id="t")
    ledger.reconcile("mail", "send", "happened", why="seen in the log", result={"sent": "x"}, task_id="t")
    assert ledger.execute_or_replay("mail", "send", world.send, "t") == {"sent": "x", "replayed": True}
    with pytest.raises(Dies):
        ledger.execute_or_replay("mail", "skip me", die, "t")
    ledger.reconcile("mail", "skip me", "skip", why="not needed", task_id="t")
    assert ledger.execute_or_replay("mail", "skip me", world.send, "t") == {"result": None, "replayed": True}
    assert world.calls == Counter()


@pytest.mark.parametrize("effect", ["read_only", "idempotent"])
def test_a_harmless_call_is_made_again(db: Database, effect: str) -> None:
    world, ledger = World(), ToolLedger(db, effect=effect)
    with pytest.raises(Dies):
        ledger.execute_or_replay("look", "page", die, "t")
    assert not ledger.execute_or_replay("look", "page", world.send, "t")["replayed"]
    row = ledger.get_execution_history("t")[0]
    assert (row["status"], row["attempt"], row["generation"]) == ("succeeded", 2, 0), (
        "the same call, the same key"
    )


@pytest.mark.parametrize("answer, sends", [(True, 0), (False, 1), ("cannot_tell", 0)])
def test_a_verifiable_call_is_looked_up(db: Database, answer: bool | str, sends: int) -> None:
    world, ledger = World(), ToolLedger(db, effect="verifiable")
    asked: list[str] = []

    def probe(key: str) -> bool | str:
        asked.append(key)
        return answer

    with pytest.raises(Dies):
        ledger.execute_or_replay("mail", "send", die, "t")
    if answer == "cannot_tell":
        with pytest.raises(CallUncertain):
            ledger.execute_or_replay("mail", "send", world.send, "t", probe=probe)
    else:
        result = ledger.execute_or_replay("mail", "send", world.send, "t", probe=probe)
        assert result["replayed"] is (answer is True)
    assert world.calls["mail"] == sends
    assert len(asked) == 1
    assert asked[0].startswith("hf_")


def test_an_error_leaves_an_unsafe_call_uncertain(db: Database) -> None:
    world, ledger = World(), ToolLedger(db)

    def fails() -> None:
        raise TimeoutError("no answer")

    def refuses() -> None:
        raise Refused("no such address")

    with pytest.raises(TimeoutError):
        ledger.execute_or_replay("mail", "send", fails, "t")
    with pytest.raises(CallUncertain):
        ledger.execute_or_replay("mail", "send", world.send, "t")
    with pytest.raises(Refused):
        ledger.execute_or_replay("mail", "bounce", refuses, "t")
    assert not ledger.execute_or_replay("mail", "bounce", world.send, "t")["replayed"], (
        "certainly nothing happened"
    )
    reads = ToolLedger(db, effect="read_only")
    with pytest.raises(TimeoutError):
        reads.execute_or_replay("look", "page", fails, "t")
    assert reads.execute_or_replay("look", "page", world.send, "t")["sent"] == "mail"


def test_somebody_elses_call_is_left_to_them(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """An intent of another process: while that lives, or nobody can tell, it is not called dead."""
    ledger, here = ToolLedger(db), db.processes.here()
    assert here is not None
    with pytest.raises(Dies):
        ledger.execute_or_replay("mail", "send", die, "t")
    monkeypatch.setattr(db, "_me", "somebody else")
    with pytest.raises(CallUncertain, match="elsewhere"):
        ledger.execute_or_replay("mail", "send", die, "t")
    assert ledger.get_execution_history("t")[0]["status"] == "prepared", "nothing is put on record"
    monkeypatch.setattr(db, "processes", Empty(here))
    with pytest.raises(CallUncertain, match="may have happened"):
        ledger.execute_or_replay("mail", "send", die, "t")
    assert ledger.get_execution_history("t")[0]["status"] == "uncertain"


def test_of_many_threads_one_executes(db: Database) -> None:
    world, ledgers = World(), [ToolLedger(db) for _ in range(4)]
    results: list[dict[str, Any]] = []

    def call(ledger: ToolLedger) -> None:
        results.append(ledger.execute_or_replay("mail", "send", world.send, "t"))

    threads = [threading.Thread(target=call, args=(ledger,)) for ledger in ledgers * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.calls["mail"] == 1
    assert Counter(one["replayed"] for one in results) == {True: 11, False: 1}


@pytest.mark.parametrize(
    "result",
    [
        {"stdout": "x" * 50_000},
        {"stdout": "日本\0\ud800" * 400_000},
        b"\x00\xff" * 1_000_000,
        b"small",
        "just text",
        None,
        [1, 2.5, {"deep": [None, True]}],
    ],
    ids=["50 kB", "5 MB of text", "2 MB of bytes", "bytes", "text", "nothing", "list"],
)
def test_results_come_back_byte_for_byte(db: Database, result: Any) -> None:
    first = ToolLedger(db).execute_or_replay("run", "it", lambda: result, "t")
    again = ToolLedger(db).execute_or_replay("run", "it", die, "t")
    assert first == again | {"replayed": False}
    told = result if isinstance(result, dict) else {"result": result}
    assert first == {**told, "replayed": False}
    db.run(db.store.sessions.gc(older_than_us=0))
    assert ToolLedger(db).execute_or_replay("run", "it", die, "t") == again, "nothing collects what is needed"


def test_a_result_that_cannot_be_kept_does_not_repeat_the_call(db: Database) -> None:
    world = World()

    def odd() -> Any:
        world.send()
        return {"file": object()}

    for _ in range(2):
        with pytest.raises(InvalidPayload, match="was called"):
            ToolLedger(db).execute_or_replay("mail", "send", odd, "t")
    assert world.calls["mail"] == 1


def test_only_calls_without_a_task_expire(db: Database, clock: VirtualClock) -> None:
    world, ledger = World(), ToolLedger(db, expires_in_seconds=3600)
    for task in ("t", None):
        ledger.execute_or_replay("mail", "send", world.send, task)
    clock.advance(2 * HOUR)
    assert ledger.execute_or_replay("mail", "send", world.send, "t")["replayed"]
    assert not ledger.execute_or_replay("mail", "send", world.send)["replayed"]
    assert ledger.execute_or_replay("mail", "send", world.send)["replayed"]


def test_a_task_that_is_over_replays_and_executes_nothing_new(db: Database) -> None:
    world, ledger = World(), ToolLedger(db)
    ledger.execute_or_replay("mail", "send", world.send, "t")
    CheckpointManager(conn=db).finish_task("t")
    assert ledger.execute_or_replay("mail", "send", die, "t")["replayed"]
    with pytest.raises(Misuse, match="over"):
        ledger.execute_or_replay("mail", "another", world.send, "t")
    assert world.calls["mail"] == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_the_kit_writes_is_sound(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Use everything once, then let `verify` read every journal, row and hash."""
    where = tmp_path / "kit.db" if kind == "sqlite" else request.getfixturevalue("postgres_database")
    with get_db(where) as db:
        points, ledger, leases = CheckpointManager(conn=db), ToolLedger(db), LeaseManager(db)
        made = points.commit_step(points.begin_step("t", "x", {"text": "x" * 2_000_000}))
        points.verify_checkpoint(made.checkpoint_id)
        points.begin_step("t", "x")
        ledger.execute_or_replay("run", "it", lambda: b"x" * 1_000_000, "t")
        with pytest.raises(Dies):
            ledger.execute_or_replay("run", "cut off", die, "t")
        with pytest.raises(CallUncertain):
            ledger.execute_or_replay("run", "cut off", die, "t")
        ledger.reconcile("run", "cut off", "happened", why="seen", task_id="t")
        ledger.execute_or_replay("run", "no task", dict)
        leases.submit("t")
        item = leases.acquire_lease()
        assert item is not None
        leases.release_lease(item.work_item_id)
        LLMOutputCache(db).get_or_generate("plan", "p", "m", dict)
        points.delete_checkpoint(made.checkpoint_id)
        points.finish_task("t")
        assert isinstance(db.store, SqlStore)
        report = db.run(verify(db.store))
        assert report.clean, report


# ── the cache ─────────────────────────────────────────────────────────────────────────────────────


def test_answers_are_stored_for_their_time(db: Database, clock: VirtualClock) -> None:
    asked: Counter[str] = Counter()

    def ask(what: str) -> dict[str, str]:
        asked[what] += 1
        return {"answer": what}

    cache = LLMOutputCache(db, expires_in_seconds=24 * 3600)
    for _ in range(3):
        assert cache.get_or_generate("plan", "p", "m", lambda: ask("a")) == {"answer": "a"}
    for other in (("PLAN", "p", "m"), ("plan", "p ", "m"), ("plan", "p", "n")):
        cache.get_or_generate(*other, lambda: ask("other"))
    cache.get_or_generate("plan", "p", "m", lambda: ask("other"), task_id="t")
    cache.get_or_generate("plan", "p", "m", lambda: ask("other"), task_id="t", work_item_id="i")
    assert asked == {"a": 1, "other": 5}, "to the byte, and everything that was asked"
    clock.advance(DAY)
    assert cache.get_or_generate("plan", "p", "m", lambda: ask("b")) == {"answer": "b"}
    assert LLMOutputCache(db).get_or_generate("plan", "p", "m", lambda: ask("c")) == {"answer": "b"}
    assert cache.invalidate("plan", "p", "m")
    assert not cache.invalidate("plan", "p", "m")
    assert cache.get_or_generate("plan", "p", "m", lambda: ask("d")) == {"answer": "d"}
    assert cache.cleanup_expired() == 5
    stats = cache.get_stats()
    assert (stats["cache_hits"], stats["cache_misses"], stats["hit_rate"]) == (2, 8, 0.2)
    assert stats["store_stats"] == {"entries": 1, "expired": 0, "body_bytes": 14}
    cache.reset_stats()
    assert cache.get_stats()["total_requests"] == 0
    assert cache.get_stats()["hit_rate"] == 0


def test_one_question_is_asked_once_at_a_time(db: Database) -> None:
    """Eight threads with one question: the first waits until the others are there, and asks for all of them."""
    caches, asked = [LLMOutputCache(db) for _ in range(2)], Counter[str]()
    waiting = threading.Barrier(8)

    def ask() -> str:
        asked["p"] += 1
        return "answer"

    answers: list[str] = []

    def question(place: int) -> None:
        waiting.wait()
        answers.append(caches[place % 2].get_or_generate("plan", "p", "m", ask))

    threads = [threading.Thread(target=question, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (asked["p"], answers) == (1, ["answer"] * 8)


def test_an_error_is_the_askers_and_is_not_kept(db: Database) -> None:
    cache = LLMOutputCache(db)
    with pytest.raises(ZeroDivisionError):
        cache.get_or_generate("plan", "p", "m", lambda: 1 // 0)
    assert cache.get_or_generate("plan", "p", "m", lambda: 1) == 1


# ── the door ──────────────────────────────────────────────────────────────────────────────────────


def test_a_store_is_opened_once_for_each_place(volatile_folder: Path) -> None:
    file = volatile_folder / "deep" / "down" / "registry.sqlite"
    db = get_db(str(file))
    assert get_db(file) is db
    assert get_db(f"sqlite:///{file}") is db
    assert CheckpointManager(db_path=file).db is db
    assert ToolLedger(db_path=file).db is db
    with pytest.raises(Misuse, match="another clock"):
        get_db(file, clock=VirtualClock())
    db.close()
    db.close()
    with pytest.raises(StoreUnavailable):
        db.run(db.store.jobs.counts())
    again = get_db(file)
    assert again is not db
    again.close()


def test_without_arguments_the_environment_decides(
    volatile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", f"sqlite:///{volatile_folder}/env.db")
    with CheckpointManager().db as db:
        assert LLMOutputCache(expires_in_seconds=7 * 24 * 3600).db is db
        assert ToolLedger(expires_in_seconds=30 * 24 * 3600).db is db
        assert LeaseManager(conn=get_db(), worker_id="worker-h-1", lease_duration_seconds=300).db is db
    assert (volatile_folder / "env.db").exists()


async def test_async_code_may_call_too(db: Database) -> None:
    """It blocks its loop meanwhile, which is its own business; the answer is right."""
    assert ToolLedger(db).execute_or_replay("run", "it", dict, "t") == {"replayed": False}
    assert ToolLedger(db).execute_or_replay("run", "it", dict, "t") == {"replayed": True}


def test_another_librarys_connection_is_refused(volatile_folder: Path) -> None:
    theirs = sqlite3.connect(volatile_folder / "other.db")
    try:
        for kind in (LeaseManager, ToolLedger, LLMOutputCache):
            with pytest.raises(InvalidSetting, match=r"get_db\(\)"):
                kind(theirs)  # type: ignore[arg-type]
    finally:
        theirs.close()


def test_a_store_does_not_go_through_a_fork(file_db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_db, "pid", os.getpid() + 1)
    with pytest.raises(Misuse, match="fork"):
        get_db(file_db.where)
    with pytest.raises(Misuse, match="fork"):
        file_db.run(file_db.store.jobs.counts())
    monkeypatch.undo()
