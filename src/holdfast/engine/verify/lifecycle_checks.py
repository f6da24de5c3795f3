"""Lifecycle checks: rules about the life of a job in its journal: its holds, its end, and what may not follow.

I1    fences never fall
I2    a claim raises the fence
I3    nothing is written under a fence that was released
I26   a dead letter names its causes
I27   nothing is sent after the end of a job
I28   after a cancel nothing is sent, and the end is `cancelled`
I29   a message becomes at most one event
I7    whatever else cannot follow from the events before: the fold is the state machine
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.engine.verify.journal_view import Facts, Findings, InvariantViolation
from holdfast.model import events as e
from holdfast.model import job_state
from holdfast.model.states import MOVES, TERMINAL, MailKind, Status

_ENDS: Final = frozenset(type_ for type_, table in MOVES.items() if TERMINAL & set(table.values()))
_GIVES_BACK: Final = (
    frozenset(type_ for type_, table in MOVES.items() if Status.RUNNING in table)
    - {e.JobClaimed.type}
    - _ENDS
)
"""Events that end a hold and not the job: after one, nothing is written under the holder's fence."""

_SENDS: Final = (e.ToolCalled, e.LlmRequested, e.ChildStarted)
_FROM_MAIL: Final = {
    e.SignalReceived: MailKind.SIGNAL,
    e.CancelRequested: MailKind.CANCEL,
    e.ApprovalDecided: MailKind.APPROVAL,
    e.ToolReconciled: MailKind.RECONCILE,
    e.ChildFinished: MailKind.CHILD,
    e.BudgetRaised: MailKind.BUDGET,
    e.JobRequeued: MailKind.RESUME,
}


def check_lifecycle(facts: Facts, letters: Mapping[int, str] | None) -> Findings:
    """Violations in the lifecycle of one journal. `letters`: the kind of each message to the job."""
    yield from _check_fences(facts)
    yield from _check_ends(facts)
    yield from _check_deaths(facts)
    yield from _check_mail(facts, letters)


def fold_journal(facts: Facts) -> job_state.JobState | InvariantViolation:
    """The job's state, or the event that the fold rejects."""
    job = job_state.JobState()
    for fact in facts:
        try:
            job_state.step(job, fact.seq, fact.fence, fact.event)
        except job_state.Ungrammatical as error:
            return InvariantViolation("I7", fact.seq, str(error))
    return job


def _check_fences(facts: Facts) -> Findings:
    highest, claimed_fence, released_fence = 0, 0, 0
    for fact in facts:
        if fact.fence < highest:
            yield InvariantViolation(
                "I1", fact.seq, f"fence fell from {highest} to {fact.fence} at event {fact.seq}"
            )
        if isinstance(fact.event, e.JobClaimed):
            if fact.fence == highest:
                detail = f"the claim at event {fact.seq} did not raise the fence {fact.fence}"
                yield InvariantViolation("I2", fact.seq, detail)
            claimed_fence = fact.fence
        elif fact.fence == released_fence and fact.fence == claimed_fence:
            detail = f"event {fact.seq} ({fact.event.type}) is written under fence {fact.fence}, which was given back"
            yield InvariantViolation("I3", fact.seq, detail)
        if fact.event.type in _GIVES_BACK:
            released_fence = fact.fence
        highest = max(highest, fact.fence)


def _check_ends(facts: Facts) -> Findings:
    cancelled: int | None = None
    over: int | None = None
    for fact in facts:
        event = fact.event
        if over is not None:
            detail = f"event {fact.seq} ({event.type}) comes after the end at event {over}"
            yield InvariantViolation("I27" if isinstance(event, _SENDS) else "I7", fact.seq, detail)
        elif cancelled is not None and isinstance(event, e.ToolCalled):
            detail = (
                f"call {event.step_key} is sent at event {fact.seq}, after the cancel at event {cancelled}"
            )
            yield InvariantViolation("I28", fact.seq, detail)
        elif cancelled is not None and isinstance(event, e.JobCompleted | e.JobFailure):
            detail = (
                f"the job ends as {event.type} at event {fact.seq}, after the cancel at event {cancelled}"
            )
            yield InvariantViolation("I28", fact.seq, detail)
        if isinstance(event, e.CancelRequested) and cancelled is None:
            cancelled = fact.seq
        if event.type in _ENDS and over is None:
            over = fact.seq


def _check_deaths(facts: Facts) -> Findings:
    for fact in facts:
        if isinstance(fact.event, e.JobDeadLettered) and not fact.event.causes:
            yield InvariantViolation("I26", fact.seq, f"the dead letter at event {fact.seq} says no cause")


def _check_mail(facts: Facts, letters: Mapping[int, str] | None) -> Findings:
    recorded_at: dict[int, int] = {}
    for fact in facts:
        event = fact.event
        if type(event) not in _FROM_MAIL:
            continue
        number: int = getattr(event, "mail_seq")  # noqa: B009 - every event in the table has one
        if number == 0:
            continue  # recorded by the engine itself, not from mail
        if recorded_at.setdefault(number, fact.seq) != fact.seq:
            detail = f"letter {number} is a fact at event {recorded_at[number]} and again at event {fact.seq}"
            yield InvariantViolation("I29", fact.seq, detail)
        kind = None if letters is None else letters.get(number)
        if letters is not None and kind != _FROM_MAIL[type(event)]:
            detail = f"event {fact.seq} ({event.type}) is of letter {number}, which is {kind or 'not there'}"
            yield InvariantViolation("I29", fact.seq, detail)
