"""Checkpoints with evidence, for programs with their own loop.

    step = manager.begin_step("report-7", "iteration_start", {"page": 3})        # durable: we are about to
    … the work …
    manager.commit_step(step, EvidencePack([Evidence("file_sha256", …)]))        # durable: we did, and this proves it

    point = manager.get_last_verified_checkpoint("report-7")                     # after any crash, on any process
    state = manager.rollback_to_checkpoint(point.checkpoint_id)

A task is a job, and a checkpoint is two events in its journal: begun and committed. The position of the commit in the
journal gives its number, so numbers are 1, 2, 3 … without gaps or duplicates, however many processes write. A crash in
between leaves a begin without a commit: `list_open_steps` lists it.

A resume uses a checkpoint if its evidence held at the commit *and* holds now: if a file has vanished since, the
checkpoint before it is the last. Events are never changed, so dropping a checkpoint is one more event: it is no longer
listed or offered for rollback, and its place in the hash chain stays.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.errors import EvidenceFails, InvalidMove, InvalidPayload, NotFound
from holdfast.kit.blocking_portal import Database, need_db
from holdfast.kit.checkpoint_index import Checkpoint, CheckpointEntry, CheckpointIndex
from holdfast.kit.evidence import Check, EvidencePack, EvidenceVerifier, pack_from_dict
from holdfast.kit.packing import pack, round_trip, unpack
from holdfast.kit.tasks import TASK_KIND, Tasks, task_job
from holdfast.model.events import (
    CheckpointBegun,
    CheckpointCommitted,
    CheckpointsDropped,
    CheckpointVerified,
)
from holdfast.model.hash_chain import unseal
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobFilter
from holdfast.model.page import Page

CHECKPOINT_TYPES: Final = (
    "iteration_start",
    "iteration_end",
    "tool_executed",
    "llm_response",
    "approval_point",
    "state_transition",
    "manual_checkpoint",
    "error_boundary",
)
"""The usual types. Any other name is a custom type."""

KEPT_MAX: Final = 100
TASKS_REMEMBERED: Final = 512
_AFEW: Final = 16
_AT: Final = "@"


class CheckpointManager:
    """Checkpoints of one store. Any number of managers, in any number of processes and threads, may share it."""

    def __init__(
        self,
        db_path: str | Path | Database | None = None,
        base_path: str | Path | None = None,
        auto_verify: bool = True,
        *,
        conn: Database | None = None,
        checks: Mapping[str, Check] | None = None,
    ) -> None:
        self.db = need_db(conn if conn is not None else db_path)
        self.auto_verify = auto_verify
        file = self.db.where.removeprefix("sqlite:///") if self.db.where.startswith("sqlite") else None
        self.verifier = EvidenceVerifier(
            base_path, checks=checks, own_file=None if file is None else Path(file)
        )
        self.tasks = Tasks(self.db)
        self._indexes: OrderedDict[str, CheckpointIndex] = OrderedDict()
        self._lock = threading.Lock()

    # ── begin and commit ──────────────────────────────────────────────────────────────────────────

    def begin_step(
        self,
        task_id: str,
        checkpoint_type: str,
        snapshot: Any = None,
        work_item_id: str | None = None,
        metadata: Any = None,
    ) -> str:
        """Record durably that this step has begun, in this state; returns its id. Creates the task if necessary."""
        check_name(checkpoint_type, "checkpoint type")
        job_id = self.tasks.ensure(task_id)
        step_id = new_step_id(self.db, task_id)
        state = pack(self.db, job_id, snapshot)
        self.tasks.write(job_id, (CheckpointBegun(step_id, checkpoint_type, state, work_item_id, metadata),))
        return step_id

    def commit_step(
        self, step_id: str, evidence_pack: EvidencePack | None = None, checkpoint_id: str | None = None
    ) -> Checkpoint:
        """Record the checkpoint durably, with its evidence and the findings on it; any process may do this.

        Committing a step again returns the checkpoint of the first commit. A step that was never begun raises NotFound.
        """
        task_id = _task_of(step_id)
        job_id = task_job(task_id)
        entry = self._index(job_id).find(step_id)
        if entry is None:
            raise _make_not_found("step", step_id)
        if not entry.committed_seq:
            evidence = EvidencePack() if evidence_pack is None else evidence_pack
            if checkpoint_id is not None:
                check_name(checkpoint_id, "checkpoint id")
                if self._index(job_id).find(checkpoint_id) is not None:
                    msg = f"task {task_id!r} has a checkpoint {checkpoint_id!r} already"
                    raise InvalidMove(msg, hint="Leave checkpoint_id out to get a new one.")
            holds = self.auto_verify and self.verifier.verify_pack(evidence).holds
            findings = _list_findings(evidence) if self.auto_verify else ()
            evidence_json = evidence.to_dict()
            self.tasks.write(
                job_id, (CheckpointCommitted(entry.step_id, evidence_json, findings, holds, checkpoint_id),)
            )
        committed = self._index(job_id).find(step_id)
        assert committed is not None
        return self._load(task_id, committed)

    def save(self, task_id: str, checkpoint_type: str, snapshot: Any, evidence: EvidencePack) -> Checkpoint:
        """Begin and commit at once, for a checkpoint whose work is already done."""
        return self.commit_step(self.begin_step(task_id, checkpoint_type, snapshot), evidence)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get_checkpoint(self, checkpoint_id: str) -> Checkpoint:
        """Return the checkpoint, or raise NotFound: never committed, dropped, or unknown."""
        task_id, entry = self._find(checkpoint_id)
        return self._load(task_id, entry)

    def list_checkpoints(self, task_id: str, limit: int = KEPT_MAX) -> list[Checkpoint]:
        """The task's checkpoints, the latest first."""
        index = self._index(task_job(task_id))
        return [self._load(task_id, entry) for entry, _ in zip(index.newest(), range(limit), strict=False)]

    def list_open_steps(self, task_id: str) -> list[str]:
        """Steps that were begun and not committed: in progress, or interrupted by a crash."""
        entries = self._index(task_job(task_id)).entries.values()
        return [entry.step_id for entry in entries if not entry.committed_seq and not entry.dropped]

    # ── verify and roll back ──────────────────────────────────────────────────────────────────────

    def verify_checkpoint(self, checkpoint_id: str) -> bool:
        """Whether its evidence holds now. A verdict that differs from the last one is recorded."""
        task_id, entry = self._find(checkpoint_id)
        checkpoint = self._load(task_id, entry)
        holds = self.verifier.verify_pack(checkpoint.evidence_pack).holds
        if holds != entry.holds:
            findings = _list_findings(checkpoint.evidence_pack)
            self.tasks.write(task_job(task_id), (CheckpointVerified(entry.step_id, holds, findings),))
        return holds

    def get_last_verified_checkpoint(
        self, task_id: str, checkpoint_type: str | None = None
    ) -> Checkpoint | None:
        """The checkpoint to resume from: the latest whose evidence held when it was committed and holds now."""
        for entry in self._index(task_job(task_id)).newest():
            if not entry.holds or checkpoint_type not in {None, entry.kind}:
                continue
            checkpoint = self._load(task_id, entry)
            if self.verifier.verify_pack(checkpoint.evidence_pack).holds:
                return checkpoint
        return None

    def rollback_to_checkpoint(self, checkpoint_id: str) -> Any:
        """Return the state of the checkpoint if its evidence holds now; otherwise raise EvidenceFails with the
        findings."""
        task_id, entry = self._find(checkpoint_id)
        checkpoint = self._load(task_id, entry)
        verdict = self.verifier.verify_pack(checkpoint.evidence_pack)
        if not verdict.holds:
            pieces = checkpoint.evidence_pack.evidence_list
            why = "; ".join(piece.verification_error for piece in pieces if piece.verification_error)
            msg = f"checkpoint {checkpoint_id} does not hold ({verdict.verified} of {verdict.total}): {why}"
            raise EvidenceFails(msg)
        return checkpoint.snapshot

    # ── delete ────────────────────────────────────────────────────────────────────────────────────

    def delete_checkpoint(self, checkpoint_id: str) -> bool:
        """Drop the checkpoint; returns whether it was offered before."""
        try:
            task_id, entry = self._find(checkpoint_id)
        except NotFound:
            return False
        self.tasks.write(task_job(task_id), (CheckpointsDropped((entry.step_id,), "deleted"),))
        return True

    def trim(self, task_id: str, keep: int = KEPT_MAX) -> int:
        """Offer at most `keep` checkpoints: the latest, and the last verified one whatever its age; returns how many
        were dropped. A task that has ended keeps all."""
        if keep < 1:
            msg = f"cannot keep {keep} checkpoints"
            raise InvalidPayload(msg, hint="Keep at least one.")
        there = list(self._index(task_job(task_id)).newest())
        last_good = next((entry.number for entry in there if entry.holds), 0)
        gone = tuple(entry.step_id for entry in there[keep:] if entry.number != last_good)
        if not gone or self.tasks.status(task_id) != "running":
            return 0
        self.tasks.write(task_job(task_id), (CheckpointsDropped(gone, f"the last {keep} are kept"),))
        return len(gone)

    # ── the task ──────────────────────────────────────────────────────────────────────────────────

    def finish_task(
        self, task_id: str, success: bool = True, *, output: Any = None, error: Any = None
    ) -> None:
        """End the task; its checkpoints can still be read."""
        self.tasks.finish(task_id, success=success, output=output, error=error)

    def task_status(self, task_id: str) -> str:
        """`running`, `succeeded`, `failed` or `cancelled`; NotFound for an unknown task."""
        return self.tasks.status(task_id)

    # ── internals ─────────────────────────────────────────────────────────────────────────────────

    def _index(self, job_id: str) -> CheckpointIndex:
        """The index of the task, up to date."""
        with self._lock:
            index = self._indexes.setdefault(job_id, CheckpointIndex())
            self._indexes.move_to_end(job_id)
            if len(self._indexes) > TASKS_REMEMBERED:
                self._indexes.popitem(last=False)
            journal = self.db.store.journal
            while True:
                events = self.db.look(journal.read(job_id, after=index.seq, limit=_AFEW))
                for sealed in events:
                    index.take(sealed)
                if len(events) < _AFEW:
                    return index

    def _find(self, checkpoint_id: str) -> tuple[str, CheckpointEntry]:
        for task_id in self._tasks_with(checkpoint_id):
            entry = self._index(task_job(task_id)).find(checkpoint_id)
            if entry is not None and entry.committed_seq and not entry.dropped:
                return task_id, entry
        raise _make_not_found("checkpoint", checkpoint_id)

    def _tasks_with(self, checkpoint_id: str) -> Iterator[str]:
        """Tasks that may have this checkpoint. A generated id names its task; an id that a caller chose is searched
        for, first in the indexes of this process."""
        if _AT in checkpoint_id and checkpoint_id.startswith("ckpt_"):
            yield _task_of(checkpoint_id)
            return
        for job_id, index in list(self._indexes.items()):
            if checkpoint_id in index.names:
                yield job_id.removeprefix("kit-task:")
        yield from self.list_tasks()

    def list_tasks(self) -> Iterator[str]:
        """The ids of all tasks, the latest first."""
        cursor = None
        while True:
            listing = self.db.store.jobs.list(JobFilter(kind=TASK_KIND), limit=500, cursor=cursor)
            page: Page[Any] = self.db.run(listing)
            names = [record.job_id for record in page.items]
            yield from (name.removeprefix("kit-task:") for name in names if name.startswith("kit-task:"))
            cursor = page.next
            if cursor is None:
                return

    def _load(self, task_id: str, entry: CheckpointEntry) -> Checkpoint:
        """Load the checkpoint from its two events."""
        begun, _ = self._read_event(task_id, entry.begun_seq)
        committed, at = self._read_event(task_id, entry.committed_seq)
        assert isinstance(begun, CheckpointBegun)
        assert isinstance(committed, CheckpointCommitted)
        evidence = pack_from_dict(committed.evidence)
        return Checkpoint(
            checkpoint_id=entry.checkpoint_id,
            task_id=task_id,
            checkpoint_type=entry.kind,
            sequence_number=entry.number,
            snapshot=unpack(self.db, begun.state),
            evidence_pack=_with_findings(evidence, committed.findings),
            verified=entry.holds,
            work_item_id=begun.work_item_id,
            metadata=begun.metadata,
            created_at=at,
        )

    def _read_event(self, task_id: str, seq: int) -> tuple[Any, int]:
        job_id = task_job(task_id)
        with self._lock:
            sealed = self._indexes[job_id].recent.get(seq) if job_id in self._indexes else None
        if sealed is None:
            (sealed,) = self.db.look(self.db.store.journal.read(job_id, after=seq - 1, limit=1))
        return unseal(sealed), sealed.at


def make_error_boundary(
    step_id: str, state: Any, work_item_id: str
) -> tuple[CheckpointBegun, CheckpointCommitted]:
    """The events of a checkpoint that reports an error. It does not hold, so no resume uses it."""
    begun = CheckpointBegun(step_id, "error_boundary", {"json": round_trip(state)}, work_item_id)
    return begun, CheckpointCommitted(step_id, EvidencePack().to_dict())


def new_step_id(db: Database, task_id: str) -> str:
    return f"{db.ids.new('ckpt')}{_AT}{task_id}"


def _list_findings(evidence: EvidencePack) -> tuple[Any, ...]:
    return tuple(
        {"finding": str(piece.verification_status), "reason": piece.verification_error or ""}
        for piece in evidence.evidence_list
    )


def _with_findings(evidence: EvidencePack, findings: tuple[Any, ...]) -> EvidencePack:
    for piece, found in zip(evidence.evidence_list, findings, strict=False):
        piece.verification_status = type(piece.verification_status)(found["finding"])
        piece.verification_error = found["reason"] or None
    return evidence


def _task_of(step_id: str) -> str:
    head, at, task_id = step_id.partition(_AT)
    if not at or not head.startswith("ckpt_"):
        raise _make_not_found("step", step_id)
    return task_id


def _make_not_found(label: str, name: str) -> NotFound:
    return NotFound(f"there is no {label} {name!r}", hint="list_checkpoints(task_id) shows what there is.")
