"""More planted bugs: in what people, children and checkpoints say, and in who is believed."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast.engine import approvals, children, execution, job_runner, journal_writer, mailbox, recovery
from holdfast.model import replay_history
from holdfast.model.events import ApprovalRequested, JobCancellation, JobWaiting
from holdfast.model.time import HOUR
from holdfast.store.memory import journal as memory_journal
from tests.simulation.planted_bugs import bug
from tests.simulation.world import program

# ── signals ───────────────────────────────────────────────────────────────────────────────────────


@bug
def a_signal_is_taken_twice(patch: pytest.MonkeyPatch) -> None:
    take = replay_history.History._take_signal

    def taken(self: Any, seq: int, event: Any) -> None:
        kept = self.next_signal(event.name)
        take(self, seq, event)
        if kept is not None and event.mail_seq is not None:
            self._signals[event.name].appendleft(kept)

    patch.setattr(replay_history.History, "_take_signal", taken)


@bug
def a_signal_is_slept_over(patch: pytest.MonkeyPatch) -> None:
    """What a letter says that comes while the job falls asleep is not looked at."""
    patch.setattr(job_runner.JobRun, "_news", property(lambda _: False, lambda *_: None), raising=False)


@bug
def nobody_is_woken_by_a_letter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_runner, "find_topic", lambda _: None)


@bug
def what_letters_say_comes_first(patch: pytest.MonkeyPatch) -> None:
    """Facts of the mail are written before those that were learnt earlier."""
    read = journal_writer.JournalWriter.mail_read

    def read_first(self: Any, mail_seq: int, facts: Any, keep: Any) -> None:
        before = list(self._entries)
        read(self, mail_seq, facts, keep)
        kept = [entry for entry in before if entry in self._entries]
        self._entries.clear()
        self._entries.extend([*facts, *kept])

    patch.setattr(journal_writer.JournalWriter, "mail_read", read_first)


# ── children ──────────────────────────────────────────────────────────────────────────────────────


@bug
def a_resumed_job_starts_its_child_again(patch: pytest.MonkeyPatch) -> None:
    find = replay_history.History.find

    def found(self: Any, step_key: str, digest: str) -> Any:
        recorded = find(self, step_key, digest)
        if recorded is None or recorded.child_job_id is None or recorded.generation > 0:
            return recorded
        return None if recorded.intent_seq <= self.seen else recorded

    loaded = job_runner.JobRun._drive_on

    async def drive_on(self: Any) -> Any:
        self._history.seen = self.grant.head_seq
        return await loaded(self)

    patch.setattr(job_runner.JobRun, "_drive_on", drive_on)
    patch.setattr(replay_history.History, "find", found)


@bug
def children_of_the_cancelled_go_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(children, "make_cancel_mail", lambda *_: ())


@bug
def a_withdrawn_child_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    def holds(self: Any, entry: journal_writer.PendingEvent) -> bool:
        if self._news and isinstance(entry.event, JobWaiting):
            return False
        if not self._mailbox.cancelled or isinstance(entry.event, JobCancellation):
            return True
        return not entry.guarded

    patch.setattr(job_runner.JobRun, "_still_holds", holds)


# ── leave ─────────────────────────────────────────────────────────────────────────────────────────


def _id(*parts: object) -> str:
    return "apr_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:26]


@bug
def leave_is_for_any_arguments(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        approvals,
        "_derive_approval_id",
        lambda d, key, _digest, generation, nth: _id(d.owner.job_id, key, generation, nth),
    )


@bug
def leave_is_used_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        approvals,
        "_derive_approval_id",
        lambda d, key, digest, _generation, nth: _id(d.owner.job_id, key, digest, nth),
    )


@bug
def leave_lasts_longer_than_it_says(patch: pytest.MonkeyPatch) -> None:
    approve = replay_history.History._approve

    def approved(self: Any, seq: int, event: Any) -> None:
        approve(self, seq, event)
        if isinstance(event, ApprovalRequested):
            self.approvals[event.approval_id].expires_at += HOUR

    patch.setattr(replay_history.History, "_approve", approved)


@bug
def a_no_is_a_yes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(approvals, "DENIED", approvals.APPROVED)
    patch.setattr(mailbox, "DENIED", "denied")
    agreed = replay_history.History._approve

    def approved(self: Any, seq: int, event: Any) -> None:
        agreed(self, seq, event)
        if not isinstance(event, ApprovalRequested):
            self.approvals[event.approval_id].decision = approvals.APPROVED

    patch.setattr(replay_history.History, "_approve", approved)


# ── time ──────────────────────────────────────────────────────────────────────────────────────────


# ── beginning again ───────────────────────────────────────────────────────────────────────────────


@bug
def a_resumed_job_has_no_new_tries(patch: pytest.MonkeyPatch) -> None:
    moved = memory_journal._apply_move

    def not_anew(head: Any, move: Any, wall: int) -> Any:
        return moved(head, None if move is None else msgspec.structs.replace(move, anew=False), wall)

    patch.setattr(memory_journal, "_apply_move", not_anew)


@bug
def the_sweep_buries_those_with_mail(patch: pytest.MonkeyPatch) -> None:
    ruling = recovery.decide_ruling

    def buried(rules: Any, head: Any) -> Any:
        return ruling(rules, msgspec.structs.replace(head, mail_seq=0))

    patch.setattr(recovery, "decide_ruling", buried)


@bug
def what_was_accepted_is_done_again(patch: pytest.MonkeyPatch) -> None:
    accept = replay_history.History._accept

    def accepted(self: Any) -> None:
        accept(self)
        for key in self._parked:
            for recorded in self._calls.get(key, ()):
                recorded.retired = True

    patch.setattr(replay_history.History, "_accept", accepted)


@bug
def effects_fire_beside_a_recovery(patch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def recovering(_self: Any, _step_key: str) -> Iterator[None]:
        yield

    patch.setattr(execution.Execution, "recovering", recovering)


@bug
def a_checkpoint_is_not_restored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(program, "restore_state", lambda _execution, default: default)
