"""Museum: planted bugs that the programs must find. Each is a way in which replay was wrong, or nearly was.

A planted bug that no program notices is a failure of the generator. Bugs that are found later join them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from holdfast.engine import (
    execution,
    job_runner,
    replay_scheduler,
    side_effects,
    stall_detector,
    task_scopes,
    wait_set,
)
from holdfast.model import crash_suspects, replay_history, retry
from holdfast.runtime import isolation
from holdfast.store.memory import inbox, leases

Plant = Callable[[pytest.MonkeyPatch], None]
MUSEUM: dict[str, Plant] = {}


def bug(plant: Plant) -> Plant:
    MUSEUM[plant.__name__] = plant
    return plant


# ── job time ──────────────────────────────────────────────────────────────────────────────────────


@bug
def a_pending_sleep_hides_a_recorded_effect(patch: pytest.MonkeyPatch) -> None:
    """Drift is judged although a timer that precedes the record has not fired."""
    patch.setattr(replay_history.History, "horizon", property(lambda _: None))


@bug
def recorded_sleeps_are_slept_again(patch: pytest.MonkeyPatch) -> None:
    """Timers fire by the clock alone, in replay as in the first run."""
    patch.setattr(replay_scheduler.ReplayScheduler, "_fire_before", lambda *_: False)


@bug
def a_timeout_around_a_durable_wait_never_fires(patch: pytest.MonkeyPatch) -> None:
    """The job is suspended without regard to the timers of its code."""
    patch.setattr(wait_set.WaitSet, "find_suspension", lambda self, *_: self.asleep())


@bug
def timers_set_by_callbacks_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    call_at = replay_scheduler._CallAt.__call__
    call_later = replay_scheduler._CallLater.__call__

    def is_callback() -> bool:
        return asyncio.current_task() is None

    def blind_at(self: Any, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        if is_callback():
            return self._before(when, callback, *args, context=context)
        return call_at(self, when, callback, *args, context=context)

    def blind_later(self: Any, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        if is_callback():
            return self._before(delay, callback, *args, context=context)
        return call_later(self, delay, callback, *args, context=context)

    patch.setattr(replay_scheduler._CallAt, "__call__", blind_at)
    patch.setattr(replay_scheduler._CallLater, "__call__", blind_later)


@bug
def a_takeover_moves_timers_that_were_set_after_it(patch: pytest.MonkeyPatch) -> None:
    """A sleep after a checkpoint of the new worker counts from before the old one died."""
    patch.setattr(replay_scheduler.JobTimer, "set_us", property(lambda _: -1, lambda *_: None), raising=False)


@bug
def a_job_is_suspended_beside_a_thread(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay_scheduler.ReplayScheduler, "add_external", lambda *_: None)
    patch.setattr(stall_detector, "waits_for_foreign", lambda _: False)


@bug
def polling_code_gets_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay_scheduler, "POLLING_PASSES", 10**9)


# ── identity ──────────────────────────────────────────────────────────────────────────────────────


@bug
def tasks_are_numbered_by_their_creation(patch: pytest.MonkeyPatch) -> None:
    """Arguments do not tell tasks apart, and `as_completed` creates them in the order of a set of addresses."""

    def identify(coroutine: Any) -> tuple[str, str]:
        return getattr(coroutine, "__qualname__", ""), ""

    def as_completed(fs: Any, **options: Any) -> Any:
        shuffled = sorted(fs, key=lambda _: random.random())
        return original([asyncio.ensure_future(one) for one in shuffled], **options)

    original: Any = asyncio.as_completed
    patch.setattr(task_scopes, "_identify", identify)
    patch.setattr(asyncio, "as_completed", as_completed)


@bug
def tasks_hash_by_their_address(patch: pytest.MonkeyPatch) -> None:
    """A set of tasks has another order in every process."""
    make = task_scopes.JobTask.__init__

    def made(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **options)

    def hashed(self: Any) -> int:
        if "by_chance" not in self.__dict__:
            self.by_chance = random.getrandbits(40)
        return int(self.by_chance)

    patch.setattr(task_scopes.JobTask, "__init__", made)
    patch.setattr(task_scopes.JobTask, "__hash__", hashed)


@bug
def names_of_coroutines_are_all_that_counts(patch: pytest.MonkeyPatch) -> None:
    """A call whose coroutine was renamed is a new call."""
    patch.setattr(replay_history.History, "find_adoptable", lambda *_: None)


@bug
def a_record_is_adopted_at_the_end_of_the_journal(patch: pytest.MonkeyPatch) -> None:
    """After every timer that is due by then, though it was delivered long before."""
    turn = replay_scheduler.ReplayScheduler.turn_to_adopt

    async def late(self: Any, seq: int, at: int) -> None:
        await turn(self, 2**62, 2**62)

    patch.setattr(replay_scheduler.ReplayScheduler, "turn_to_adopt", late)


# ── order and cancellation ────────────────────────────────────────────────────────────────────────


@bug
def results_come_in_any_order(patch: pytest.MonkeyPatch) -> None:
    async def turn(self: Any, seq: int, at: int) -> None:
        self.advance(at)

    patch.setattr(replay_scheduler.ReplayScheduler, "turn", turn)


@bug
def the_end_of_a_process_is_a_decision_of_the_agent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(execution.Execution, "note_cancel", lambda *_: None)


@bug
def a_call_that_was_given_up_is_made_again(patch: pytest.MonkeyPatch) -> None:
    async def until_cancelled(self: Any, seq: int, at: int) -> bool:
        return False

    patch.setattr(replay_scheduler.ReplayScheduler, "until_cancelled", until_cancelled)


@bug
def a_new_effect_waits_for_unrelated_calls(patch: pytest.MonkeyPatch) -> None:
    """Nothing fires after a recovery until everything that runs has ended."""
    at_rest = execution.Execution._at_rest

    def wait(self: Any, is_polling: bool) -> bool:
        return False if self.running else at_rest(self, is_polling)

    patch.setattr(execution.Execution, "_at_rest", wait)


# ── retries ───────────────────────────────────────────────────────────────────────────────────────


@bug
def attempts_are_counted_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Every worker begins to count a read's failures anew."""
    patch.setattr(replay_history.History, "find_retry", lambda *_: None)


@bug
def attempts_of_effects_are_counted_in_memory(patch: pytest.MonkeyPatch) -> None:
    """Every worker begins to count an effect's failures anew."""

    def count(self: Any) -> int:
        return int(1 + self._attempt - self.__dict__.setdefault("first_attempt", self._attempt))

    patch.setattr(side_effects._Call, "_failed_attempts", property(count))


@bug
def an_unsafe_call_is_made_again_after_an_ambiguous_error(patch: pytest.MonkeyPatch) -> None:
    """A connection that broke is taken for one that was refused."""
    ambiguous = side_effects._Call._ambiguous

    async def did_nothing(self: Any, error: Exception) -> Any:
        return await (self._did_nothing(error) if self._terms.sent_nothing else ambiguous(self, error))

    patch.setattr(side_effects._Call, "_ambiguous", did_nothing)


@bug
def errors_that_are_never_retried_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry.Retry, "covers", lambda *_: True)


# ── suspects ──────────────────────────────────────────────────────────────────────────────────────


@bug
def a_takeover_forgets_the_deaths_before_it(patch: pytest.MonkeyPatch) -> None:
    """No job ever becomes a suspect, and one that ends its process takes its neighbours with it for ever."""
    put = leases._put

    def forget(work: Any, row: Any, **changes: Any) -> Any:
        return put(work, row, **{**changes, **({"takeovers": 1} if changes.get("takeovers") else {})})

    patch.setattr(leases, "_put", forget)


@bug
def deaths_of_a_neighbour_convict(patch: pytest.MonkeyPatch) -> None:
    """A job that has lost its worker twice is a dead letter, whoever ended it."""
    patch.setattr(job_runner, "is_suspect", lambda _: False)
    patch.setattr(
        job_runner.JobRun, "_is_poison", lambda self: self.grant.takeovers >= crash_suspects.SUSPECT_AT
    )


@bug
def one_kill_alone_convicts(patch: pytest.MonkeyPatch) -> None:
    """A signal that others send is taken for a crash."""
    patch.setattr(crash_suspects, "_SENT_BY_OTHERS", frozenset())


@bug
def a_death_alone_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A job that made progress alone and died costs one more worker than others do."""
    rule = isolation.decide_move

    def forget(*args: Any) -> Any:
        fact, move = rule(*args)
        return fact, msgspec.structs.replace(move, takeover=False)

    patch.setattr(isolation, "decide_move", forget)


@bug
def unread_mail_holds_up_every_verdict(patch: pytest.MonkeyPatch) -> None:
    """A job that reads a letter and ends its process before that is recorded runs alone again and again."""

    async def has_decision(_self: Any, _run: Any, head: Any) -> bool:
        return bool(head.mail_seq)

    patch.setattr(isolation.ChildProcesses, "_has_decision", has_decision)


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


@bug
def a_worker_that_stood_still_claims_input_of_a_job_it_lost(patch: pytest.MonkeyPatch) -> None:
    """What is sent after the turn has ended is held by that turn, and never answered."""
    patch.setattr(inbox, "_must_run_under", lambda *_: None)


FOUND_BY: Final[dict[str, int]] = {
    "a_call_that_was_given_up_is_made_again": 4,
    "a_death_alone_is_not_counted": 300001,
    "a_job_is_suspended_beside_a_thread": 56,
    "a_new_effect_waits_for_unrelated_calls": 30,
    "a_pending_sleep_hides_a_recorded_effect": 42,
    "a_record_is_adopted_at_the_end_of_the_journal": 18,
    "a_takeover_forgets_the_deaths_before_it": 300000,
    "a_takeover_moves_timers_that_were_set_after_it": 90,
    "a_timeout_around_a_durable_wait_never_fires": 8,
    "a_worker_that_stood_still_claims_input_of_a_job_it_lost": 114,
    "an_unsafe_call_is_made_again_after_an_ambiguous_error": 200034,
    "attempts_are_counted_in_memory": 200010,
    "attempts_of_effects_are_counted_in_memory": 200022,
    "deaths_of_a_neighbour_convict": 300000,
    "errors_that_are_never_retried_are": 200000,
    "names_of_coroutines_are_all_that_counts": 18,
    "one_kill_alone_convicts": 300000,
    "polling_code_gets_nothing": 120,
    "recorded_sleeps_are_slept_again": 4,
    "results_come_in_any_order": 10,
    "tasks_are_numbered_by_their_creation": 26,
    "tasks_hash_by_their_address": 4,
    "the_end_of_a_process_is_a_decision_of_the_agent": 25,
    "timers_set_by_callbacks_are_not_seen": 21,
    "unread_mail_holds_up_every_verdict": 300032,
}
"""The number of a program that notices each bug."""
