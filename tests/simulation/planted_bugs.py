"""Planted bugs: each is a way in which the engine or a store could be wrong, and was, or nearly was.

A planted bug that no world notices is a failure of the world. Bugs that were found later join them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.engine import execution, job_runner, journal_writer, replay_scheduler, side_effects
from holdfast.engine.group_commit import GroupCommit
from holdfast.errors import Unavailable
from holdfast.model import replay_history
from holdfast.model.append import NOTHING
from holdfast.model.events import CallCancelled
from holdfast.model.side_effects import CallStatus, CutOff, Effect, ProbeAnswer, Recovery, recover
from holdfast.model.time import SECOND
from holdfast.store.memory import jobs as memory_jobs
from holdfast.store.memory import journal as memory_journal
from holdfast.store.memory import leases as memory_leases
from holdfast.worker import worker

Plant = Callable[[pytest.MonkeyPatch], None]
MUSEUM: dict[str, Plant] = {}
SEEDS = 150
"""So many worlds may live with a planted bug before one notices."""

FOUND_BY = {
    "a_call_declared_failed_is_made_again": 106,
    "a_refusal_speaks_for_earlier_requests_too": 58,
    "a_result_on_its_way_to_the_disk_is_passed": 100,
    "a_store_that_is_away_is_asked_at_once": 29,
    "a_timeout_is_heard_out_of_turn": 6496,
    "changed_code_is_not_noticed": 59,
    "children_of_the_cancelled_go_on": 321,
    "no_clock_is_looked_at_before_the_first_byte": 263,
    "what_letters_say_comes_first": 132,
}
"""Bugs that take long to meet, and a seed that meets them: asked first, to save time."""


def bug(plant: Plant) -> Plant:
    MUSEUM[plant.__name__] = plant
    return plant


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


@bug
def whoever_writes_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Neither fence nor head are compared."""
    patch.setattr(memory_journal, "_matches", lambda head, _: head.status == "running")


@bug
def mail_is_not_looked_at_before_a_write(patch: pytest.MonkeyPatch) -> None:
    matches = memory_journal._matches

    def blind(head: Any, append: Any) -> bool:
        return matches(head, msgspec.structs.replace(append, mail_seen=None))

    patch.setattr(memory_journal, "_matches", blind)


@bug
def leases_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory_leases, "is_driven", lambda *_: False)


@bug
def a_lost_lease_is_renewed(patch: pytest.MonkeyPatch) -> None:
    async def renew(self: Any, held: Any, ttl_us: int = 0) -> set[str]:
        return {one.job_id for one in held}

    patch.setattr(memory_leases.MemoryLeases, "renew", renew)


@bug
def a_request_key_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(memory_jobs, "_find_earlier", lambda *_: None)


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


@bug
def the_intent_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    async def durable(self: journal_writer.JournalWriter) -> None:
        return None

    patch.setattr(journal_writer.JournalWriter, "durable", durable)


@bug
def a_lost_reply_is_written_again(patch: pytest.MonkeyPatch) -> None:
    """Not the same bytes again, but the same facts sealed anew."""
    settle = journal_writer.JournalWriter.settle

    def settled(self: journal_writer.JournalWriter, outcome: Any) -> bool:
        if isinstance(outcome, Unavailable):
            self._entries.extendleft(reversed(self._sent_entries))
            self._sent, self._sent_entries = None, []
        return settle(self, outcome) if self._sent is not None else bool(self._entries)

    patch.setattr(journal_writer.JournalWriter, "settle", settled)


@bug
def a_store_that_is_away_is_asked_at_once(patch: pytest.MonkeyPatch) -> None:
    def told(self: GroupCommit, one: Any, outcome: Any) -> None:
        if one.settle(outcome) or isinstance(outcome, Unavailable):
            self._ready[one] = None

    patch.setattr(GroupCommit, "_settle", told)


@bug
def a_cancel_lets_intents_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_runner.JobRun, "_still_holds", lambda *_: True)


@bug
def progress_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    """Takeovers are counted for ever."""
    record = journal_writer.JournalWriter.record

    def recorded(self: journal_writer.JournalWriter, event: Any, **beside: Any) -> Any:
        return record(self, event, **(beside | {"progress": False}))

    patch.setattr(journal_writer.JournalWriter, "record", recorded)


@bug
def a_death_convicts_a_job(patch: pytest.MonkeyPatch) -> None:
    """Whoever lost three workers without progress is a dead letter, guilty or not."""
    patch.setattr(job_runner.JobRun, "_is_poison", lambda self: self.grant.takeovers >= 3)


# ── effects ───────────────────────────────────────────────────────────────────────────────────────


def _recovery(patch: pytest.MonkeyPatch, wrong: Callable[[CutOff], Recovery | None]) -> None:
    patch.setattr(side_effects, "recover", lambda call: wrong(call) or recover(call))


@bug
def an_unsafe_call_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    def wrong(call: CutOff) -> Recovery | None:
        cut_off = call.effect is Effect.UNSAFE and call.status is CallStatus.PREPARED
        return Recovery.RESEND if cut_off else None

    _recovery(patch, wrong)


@bug
def what_is_uncertain_is_settled_by_waiting(patch: pytest.MonkeyPatch) -> None:
    def wrong(call: CutOff) -> Recovery | None:
        return Recovery.RESEND if call.status is CallStatus.UNCERTAIN and call.quiet else None

    _recovery(patch, wrong)


@bug
def a_probe_that_cannot_tell_says_no(patch: pytest.MonkeyPatch) -> None:
    def wrong(call: CutOff) -> Recovery | None:
        return Recovery.RESEND if call.answer is ProbeAnswer.CANNOT_TELL else None

    _recovery(patch, wrong)


@bug
def everything_has_a_key(patch: pytest.MonkeyPatch) -> None:
    """An unsafe call is taken for an idempotent one."""
    init = side_effects._Call.__init__

    def made(self: Any, *args: Any) -> None:
        init(self, *args)
        if self._effect is Effect.UNSAFE:
            self._effect = Effect.IDEMPOTENT

    patch.setattr(side_effects._Call, "__init__", made)


@bug
def nobody_waits_until_it_is_quiet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(side_effects._Call, "_quiet_at", lambda *_: 0)
    patch.setattr(side_effects._Call, "_quiet_after_failure", lambda *_: 1)


@bug
def no_clock_is_looked_at_before_the_first_byte(patch: pytest.MonkeyPatch) -> None:
    """Neither the start-by deadline nor the end of the lease."""
    patch.setattr(execution.Execution, "check_lease", lambda _: None)
    patch.setattr(side_effects, "max", lambda _, other: other if other == 1 else -1, raising=False)


@bug
def each_attempt_has_its_own_key(patch: pytest.MonkeyPatch) -> None:
    attempts = itertools.count()
    perform = execution.Execution.perform

    async def performed(
        self: Any, asked: Any, place: Any, step_key: str, key: str = "", longest_us: int | None = None
    ) -> Any:
        own = f"{key}-{next(attempts)}" if key else ""
        return await perform(self, asked, place, step_key, own, longest_us)

    patch.setattr(execution.Execution, "perform", performed)


@bug
def a_refusal_speaks_for_earlier_requests_too(patch: pytest.MonkeyPatch) -> None:
    forgetful = property(lambda _: False, lambda *_: None)
    patch.setattr(side_effects._Call, "_unexplained", forgetful, raising=False)


@bug
def a_call_declared_failed_is_made_again(patch: pytest.MonkeyPatch) -> None:
    decide = replay_history.History._decide

    def decided(self: Any, seq: int, event: Any) -> None:
        decide(self, seq, event)
        self._newest(event.step_key, event.generation).final = False

    patch.setattr(replay_history.History, "_decide", decided)


# ── replay and time ───────────────────────────────────────────────────────────────────────────────


@bug
def results_come_in_any_order(patch: pytest.MonkeyPatch) -> None:
    async def turn(self: Any, seq: int, at: int) -> None:
        return None

    patch.setattr(replay_scheduler.ReplayScheduler, "turn", turn)


@bug
def a_result_on_its_way_to_the_disk_is_passed(patch: pytest.MonkeyPatch) -> None:
    async def wait_until_durable(self: Any, stamp: Any) -> None:
        await self.recorder.durable()

    patch.setattr(execution.Execution, "wait_until_durable", wait_until_durable)


@bug
def a_timeout_is_heard_out_of_turn(patch: pytest.MonkeyPatch) -> None:
    async def record_cancelled(
        self: Any, key: str, digest: str, generation: int, extras: Any = NOTHING
    ) -> None:
        if not self.stopping:
            self.recorder.record(CallCancelled(key, digest, generation=generation), extras=extras)
            self.look()

    patch.setattr(execution.Execution, "record_cancelled", record_cancelled)


@bug
def a_finished_read_is_made_again(patch: pytest.MonkeyPatch) -> None:
    find = replay_history.History.find

    def found(self: Any, step_key: str, digest: str) -> Any:
        recorded = find(self, step_key, digest)
        read = recorded is not None and recorded.effect is Effect.READ_ONLY and recorded.due_at is None
        return None if read else recorded

    patch.setattr(replay_history.History, "find", found)


@bug
def changed_code_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay_history.History, "has_unclaimed_effects", property(lambda _: False))


@bug
def a_sleep_is_over_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execution.Execution, "latest_us", lambda self: self.clock.wall_us() - 2 * SECOND)


@bug
def each_host_goes_by_its_own_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_runner.StoreTime, "wall_us", lambda self: self._clock.wall_us())


@bug
def a_job_falls_asleep_before_its_call(patch: pytest.MonkeyPatch) -> None:
    durable = journal_writer.JournalWriter.durable

    async def asleep(self: journal_writer.JournalWriter) -> None:
        busy = self._on_loss.__self__._execution  # type: ignore[attr-defined]
        if busy is not None:
            busy.running -= 1
        try:
            await durable(self)
        finally:
            if busy is not None:
                busy.running += 1

    patch.setattr(journal_writer.JournalWriter, "durable", asleep)


# ── workers ───────────────────────────────────────────────────────────────────────────────────────


@bug
def a_worker_takes_more_than_it_has_room_for(patch: pytest.MonkeyPatch) -> None:
    init = worker.Worker.__init__

    def made(self: Any, *args: Any, concurrency: int = 16, **options: Any) -> None:
        init(self, *args, concurrency=concurrency + 1, **options)

    patch.setattr(worker.Worker, "__init__", made)
