"""Checkpoints: two facts, one order, and evidence that is looked at again."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import EvidenceFails, InvalidMove, InvalidName, InvalidPayload, NotFound
from holdfast.kit import CheckpointManager, Database, Evidence, EvidencePack, EvidenceType
from holdfast.kit.evidence import EvidenceVerifier, VerificationStatus
from holdfast.model.hash_chain import find_break

FILE = Evidence(EvidenceType.ARTIFACT_EXISTS, "the page", {"path": "page", "type": "file"})


def manager_of(db: Database, base: Path, **options: Any) -> CheckpointManager:
    return CheckpointManager(conn=db, base_path=base, **options)


def test_a_checkpoint_comes_back_as_it_was(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    state = {"page": 3, "text": "日本", "deep": [1, [2.5, None, True]]}
    step = manager.begin_step("report", "iteration_end", state, "item-1", {"by": "me"})
    made = manager.commit_step(step, EvidencePack())
    elsewhere = manager_of(db, tmp_path)
    found = elsewhere.get_checkpoint(made.checkpoint_id)
    assert found == made
    assert (found.snapshot, found.work_item_id, found.metadata) == (state, "item-1", {"by": "me"})
    assert (found.checkpoint_type, found.sequence_number, found.verified) == ("iteration_end", 1, True)
    assert found.to_dict()["evidence_pack"]["evidence_list"] == []


def test_a_crash_between_begin_and_commit_leaves_a_trace(db: Database, tmp_path: Path) -> None:
    """Begin, forget everything, look from elsewhere: the step is known, and can still be committed there."""
    step = manager_of(db, tmp_path).begin_step("report", "iteration_start", {"page": 1})
    elsewhere = manager_of(db, tmp_path)
    assert elsewhere.list_open_steps("report") == [step]
    assert elsewhere.list_checkpoints("report") == []
    assert elsewhere.get_last_verified_checkpoint("report") is None
    assert elsewhere.commit_step(step).sequence_number == 1
    assert elsewhere.list_open_steps("report") == []


def test_a_step_is_committed_once(db: Database, tmp_path: Path) -> None:
    manager, other = manager_of(db, tmp_path), manager_of(db, tmp_path)
    step = manager.begin_step("report", "x", 1)
    first = manager.commit_step(step)
    assert other.commit_step(step) == manager.commit_step(step) == first
    assert manager.commit_step(manager.begin_step("report", "x", 2)).sequence_number == 2
    with pytest.raises(NotFound):
        manager.commit_step("ckpt_unheard@report")
    with pytest.raises(NotFound):
        manager.commit_step("something else")


def test_numbers_have_no_gaps_with_many_threads(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    numbers: list[int] = []

    def write() -> None:
        numbers.extend(manager.commit_step(manager.begin_step("t", "x", n)).sequence_number for n in range(5))

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 41))
    listed = manager_of(db, tmp_path).list_checkpoints("t")
    assert [point.sequence_number for point in listed] == list(range(40, 0, -1))


def test_evidence_that_stops_holding_is_not_resumed_from(db: Database, tmp_path: Path) -> None:
    """Two points, each with its file; the second file vanishes, comes back changed, comes back as it was."""
    manager = manager_of(db, tmp_path)
    points = []
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        digest = hashlib.sha256(name.encode()).hexdigest()
        proof = Evidence(EvidenceType.FILE_SHA256, name, {"path": name, "sha256": digest})
        points.append(manager.commit_step(manager.begin_step("t", name, {"at": name}), EvidencePack([proof])))
    first, second = points

    def last() -> str | None:
        found = manager_of(db, tmp_path).get_last_verified_checkpoint("t")
        return None if found is None else found.snapshot["at"]

    assert last() == "two"
    (tmp_path / "two").unlink()
    assert last() == "one"
    with pytest.raises(EvidenceFails, match="two"):
        manager.rollback_to_checkpoint(second.checkpoint_id)
    (tmp_path / "two").write_text("other")
    assert not manager.verify_checkpoint(second.checkpoint_id)
    assert not manager_of(db, tmp_path).get_checkpoint(second.checkpoint_id).verified, "on record"
    (tmp_path / "two").write_text("two")
    assert last() == "one", "what failed counts again only when somebody has verified it"
    assert manager.verify_checkpoint(second.checkpoint_id)
    assert last() == "two"
    assert manager.rollback_to_checkpoint(first.checkpoint_id) == {"at": "one"}
    assert manager.get_last_verified_checkpoint("t", "one") == manager.get_checkpoint(first.checkpoint_id)


def test_a_point_that_did_not_hold_when_committed_does_not_count(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    made = manager.commit_step(manager.begin_step("t", "x", 1), EvidencePack([FILE]))
    assert not made.verified
    assert made.evidence_pack.evidence_list[0].verification_error is not None
    (tmp_path / "page").write_text("late")
    assert manager.get_last_verified_checkpoint("t") is None
    assert manager.verify_checkpoint(made.checkpoint_id)
    assert manager.get_last_verified_checkpoint("t") is not None


def test_without_auto_verify_nothing_counts_until_it_is_verified(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path, auto_verify=False)
    made = manager.commit_step(manager.begin_step("t", "x", 1))
    assert not made.verified
    assert manager.get_last_verified_checkpoint("t") is None
    assert manager.verify_checkpoint(made.checkpoint_id)
    assert manager_of(db, tmp_path).get_last_verified_checkpoint("t") is not None


def test_a_large_state_is_kept_whole(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    state = {"text": "x" * 3_000_000, "numbers": list(range(10_000))}
    made = manager.commit_step(manager.begin_step("t", "x", state))
    assert manager_of(db, tmp_path).rollback_to_checkpoint(made.checkpoint_id) == state


def test_dropped_points_are_neither_listed_nor_gone_back_to(db: Database, tmp_path: Path) -> None:
    """Drop by hand and by the limit; the chain of hashes is whole, and numbers go on as if nothing had happened."""
    manager = manager_of(db, tmp_path)
    points = [manager.commit_step(manager.begin_step("t", "x", n)) for n in range(10)]
    assert manager.delete_checkpoint(points[9].checkpoint_id)
    assert not manager.delete_checkpoint(points[9].checkpoint_id)
    assert manager.trim("t", keep=3) == 6
    other = manager_of(db, tmp_path)
    assert [point.sequence_number for point in other.list_checkpoints("t")] == [9, 8, 7]
    for gone in (points[0], points[9]):
        with pytest.raises(NotFound):
            other.get_checkpoint(gone.checkpoint_id)
        with pytest.raises(NotFound):
            other.rollback_to_checkpoint(gone.checkpoint_id)
    assert other.commit_step(other.begin_step("t", "x", 10)).sequence_number == 11
    events = db.run(db.store.journal.read("kit-task:t"))
    assert find_break("kit-task:t", events) is None
    with pytest.raises(InvalidPayload):
        manager.trim("t", keep=0)


def test_the_last_verified_point_is_never_trimmed_away(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    good = manager.commit_step(manager.begin_step("t", "x", "good"))
    for n in range(4):
        assert not manager.commit_step(manager.begin_step("t", "x", n), EvidencePack([FILE])).verified
    assert manager.trim("t", keep=2) == 2
    assert manager.get_last_verified_checkpoint("t") == manager.get_checkpoint(good.checkpoint_id)


def test_a_point_may_have_a_name(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    named = manager.commit_step(manager.begin_step("t", "x", 1), None, "before-lunch")
    assert manager_of(db, tmp_path).get_checkpoint("before-lunch") == named
    with pytest.raises(InvalidMove):
        manager.commit_step(manager.begin_step("t", "x", 2), None, "before-lunch")


def test_a_task_that_is_over_takes_nothing_more(db: Database, tmp_path: Path) -> None:
    manager = manager_of(db, tmp_path)
    manager.commit_step(manager.begin_step("t", "x", 1))
    assert manager.task_status("t") == "running"
    manager.finish_task("t", output={"pages": 3})
    manager.finish_task("t", output={"pages": 3})
    assert manager.task_status("t") == "succeeded"
    assert len(manager.list_checkpoints("t")) == 1
    with pytest.raises(InvalidMove, match="succeeded"):
        manager.begin_step("t", "x", 2)
    with pytest.raises(InvalidMove):
        manager.finish_task("t", success=False)
    with pytest.raises(NotFound):
        manager.task_status("unheard of")
    with pytest.raises(InvalidName):
        manager.begin_step("x" * 151, "x")


# ── looking ───────────────────────────────────────────────────────────────────────────────────────


def found(evidence: Evidence, base: Path, **options: Any) -> tuple[str, str | None]:
    EvidenceVerifier(base, **options).verify(evidence)
    return str(evidence.verification_status), evidence.verification_error


def test_files_and_directories_are_really_looked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for path, kind, word in [
        ("file", "file", "verified"),
        ("file", "directory", "failed"),
        ("folder", "directory", "verified"),
        ("folder", "file", "failed"),
        ("folder", "any", "verified"),
        ("nothing", "any", "failed"),
        (str(tmp_path / "file"), "file", "verified"),
    ]:
        claim = Evidence("artifact_exists", "", {"path": path, "type": kind})
        assert found(claim, tmp_path)[0] == word, (path, kind)


def test_hashes_are_really_computed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    right = hashlib.sha256(b"x" * 3_000_000).hexdigest()
    for sha256, word in ((right, "verified"), (right.upper(), "verified"), ("0" * 64, "failed")):
        assert found(Evidence("file_sha256", "", {"path": "file", "sha256": sha256}), tmp_path)[0] == word
    assert found(Evidence("file_sha256", "", {"path": "gone", "sha256": right}), tmp_path)[0] == "failed"


@pytest.mark.parametrize("where", ["exit_code", "observed", "actual_exit_code", "returncode"])
def test_exit_codes_are_compared(where: str, tmp_path: Path) -> None:
    """The code that was noted must be the one that was expected; without one there is nothing to say yet."""
    for expected, noted, word in ((0, 0, "verified"), (0, 1, "failed"), (2, 2, "verified"), (1, 0, "failed")):
        claim = Evidence("command_exit", "", {"exit_code": expected}, {where: noted})
        assert found(claim, tmp_path)[0] == word
    assert found(Evidence("command_exit", "", {"exit_code": 0}), tmp_path)[0] == "pending"


def test_rows_are_looked_up_and_names_are_not_commands(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "theirs.db")
    base.execute('CREATE TABLE pages (id INTEGER, status TEXT, "order" INTEGER)')
    base.execute("INSERT INTO pages VALUES (1, 'done', 7), (2, 'open', NULL)")
    base.commit()
    base.close()

    def row(**expected: Any) -> str:
        return found(Evidence("db_row", "", expected, {"db_path": "theirs.db"}), tmp_path)[0]

    assert row(table="pages", where={"id": 1}, values={"status": "done", "order": 7}) == "verified"
    assert row(table="pages", where={"id": 2, "order": None}) == "verified"
    assert row(table="pages", where={"id": 1}, values={"status": "open"}) == "failed"
    assert row(table="pages", where={"id": 9}) == "failed"
    assert row(table="pages", where={"id": "1 OR 1=1"}) == "failed"
    assert row(table="pages", where={"nothing": "nothing"}) == "failed", "an unknown column is no text"
    for bad in ("pages; DROP TABLE pages", "pages] --", "sqlite_master WHERE 1 --"):
        assert row(table=bad, where={"id": 1}) == "failed"
    assert row(table="pages", where={"id] IS 1 OR [id": 1}) == "failed"
    missing = Evidence("db_row", "", {"table": "pages", "where": {"id": 1}}, {"db_path": "gone.db"})
    assert found(missing, tmp_path)[0] == "failed"
    assert not (tmp_path / "gone.db").exists(), "looking makes nothing"
    nowhere = Evidence("db_row", "", {"table": "pages", "where": {"id": 1}})
    assert found(nowhere, tmp_path)[0] == "pending"


def test_the_stores_own_rows_are_evidence_too(file_db: Database, tmp_path: Path) -> None:
    manager = manager_of(file_db, tmp_path)
    manager.begin_step("t", "x")
    proof = Evidence(
        "db_row", "", {"table": "jobs", "where": {"job_id": "kit-task:t"}, "values": {"kind": "kit.task"}}
    )
    assert manager.commit_step(manager.begin_step("t", "x"), EvidencePack([proof])).verified


def test_checks_of_ones_own(db: Database, tmp_path: Path) -> None:
    def is_even(expected: Any) -> bool:
        return bool(expected["number"] % 2 == 0)

    manager = manager_of(db, tmp_path, checks={"even": is_even})
    for number, holds in ((2, True), (3, False)):
        proof = Evidence("custom", "", {"number": number}, {"name": "even"})
        assert manager.commit_step(manager.begin_step("t", "x"), EvidencePack([proof])).verified is holds
    unknown = Evidence("custom", "", {}, {"name": "odd"})
    assert found(unknown, tmp_path) == ("pending", "no check is registered as 'odd'")
    raising = Evidence("custom", "", {}, {"name": "even"})
    assert found(raising, tmp_path, checks={"even": is_even})[0] == "failed"


def test_what_a_pack_needs() -> None:
    def pack(words: str, **rules: Any) -> EvidencePack:
        pieces = [Evidence("command_exit", "", {"exit_code": 0}) for _ in words.split()]
        for piece, word in zip(pieces, words.split(), strict=True):
            piece.verification_status = VerificationStatus(word)
        return EvidencePack(pieces, **rules)

    assert EvidencePack().is_verified()
    assert pack("verified verified").is_verified()
    assert not pack("verified pending").is_verified()
    assert pack("verified failed", require_all=False, allow_partial=True).is_verified()
    assert not pack("verified failed", require_all=False, allow_partial=True, min_verified=2).is_verified()
    summary = pack("verified failed pending").get_verification_summary()
    assert summary == {"total": 3, "verified": 1, "failed": 1, "pending": 1}


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("artifact_exists", {}),
        ("file_sha256", {"path": "x", "sha256": "abc"}),
        ("db_row", {}),
        ("hearsay", {}),
    ],
)
def test_evidence_that_cannot_be_checked_is_refused_at_once(kind: str, expected: dict[str, Any]) -> None:
    with pytest.raises(InvalidPayload):
        Evidence(kind, "", expected)
