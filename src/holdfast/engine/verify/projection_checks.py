"""Projection checks (I8): the head, the ledger and the timers are computed again from the journal and compared.

Two differences of a head are allowed, because only a holder writes into a journal: a waiting job that mail, a due
timer or the end of the turn before it has made pending; and a new job that joined a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.engine.verify.journal_view import Facts
from holdfast.engine.verify.report import Violation
from holdfast.model import events as e
from holdfast.model import job_state
from holdfast.model.jobs import JobHead
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import TERMINAL, Status, WaitReason
from holdfast.store.executor import Row

Place = tuple[str, int]


def check_head(head: JobHead, job: job_state.JobState, facts: Facts) -> Iterator[Violation]:
    if not _has_same_status(head, job):
        detail = (
            f"the head says {head.status} ({head.wait_reason}), the journal {job.status} ({job.wait_reason})"
        )
        yield Violation("I8", head.job_id, detail)
    elif head.status is job.status and head.wake_at != job.wake_at:
        detail = f"the head wakes at {head.wake_at}, the journal says {job.wake_at}"
        yield Violation("I8", head.job_id, detail)
    created = facts[0].event
    assert isinstance(created, e.JobCreated), "the fold begins with it"
    declared = (created.kind, created.queue, created.priority, created.session_id)
    if (head.kind, head.queue, head.priority, head.session_id) != declared:
        detail = f"the head is of {head.kind}, {head.queue}, {head.priority}, {head.session_id}; created was {declared}"
        yield Violation("I8", head.job_id, detail)
    if head.fence != job.fence:
        detail = f"the head's fence is {head.fence}, that of event {job.seq} is {job.fence}"
        yield Violation("I8", head.job_id, detail)
    if head.mail_seq < job.mail_seq:
        detail = f"the head counts {head.mail_seq} letters, the journal has read up to {job.mail_seq}"
        yield Violation("I8", head.job_id, detail)
    takeovers = sum(_is_takeover(fact.event) for fact in facts)
    if head.takeovers > takeovers:
        detail = f"the head counts {head.takeovers} takeovers, the journal tells of {takeovers}"
        yield Violation("I8", head.job_id, detail)


def _is_takeover(event: e.Event) -> bool:
    """Whether a claim or a sweep took the job from a holder."""
    if isinstance(event, e.JobDeadLettered):
        return any("holder" in cause for cause in event.causes)
    return isinstance(event, e.JobClaimed | e.JobRequeued) and event.takeover


def check_wait_reason(head: JobHead, job: job_state.JobState) -> Iterator[Violation]:
    """I29: a job that waits for a person's decision on a call has such a call; otherwise the decision came without a
    wake-up."""
    has_uncertain = any(call.status is CallStatus.UNCERTAIN for call in job.calls.values())
    if head.wait_reason is WaitReason.RECONCILE and not has_uncertain:
        yield Violation("I29", head.job_id, "waits for a person's word, and no call is uncertain")


def _has_same_status(head: JobHead, job: job_state.JobState) -> bool:
    if (head.status, head.wait_reason) == (job.status, job.wait_reason):
        return True
    woken = job.status is Status.WAITING and head.status is Status.PENDING
    joined = job.status is Status.PENDING and head.wait_reason is WaitReason.JOINED
    return woken or joined


def check_attempts(head: JobHead, facts: Facts, attempts_max: int | None) -> Iterator[Violation]:
    """I26: a failed attempt has its event, and there are no more of them than allowed."""
    ended = (e.JobRequeued, e.JobReleased, e.JobDeadLettered)
    expected = sum(isinstance(fact.event, ended) for fact in facts)
    if head.attempts > expected:
        detail = f"the head counts {head.attempts} failed attempts, the journal tells of {expected} at most"
        yield Violation("I26", head.job_id, detail)
    if attempts_max is not None and head.attempts > attempts_max:
        detail = f"failed {head.attempts} times; {attempts_max} attempts are allowed"
        yield Violation("I26", head.job_id, detail)


# ── timers ────────────────────────────────────────────────────────────────────────────────────────


def check_timers(head: JobHead, facts: Facts, rows: Sequence[Row]) -> Iterator[Violation]:
    """The open timers are those that were set and have not fired; timers before a checkpoint do not count."""
    opened: dict[str, int] = {}
    dropped: dict[str, int] = {}
    for fact in facts:
        match fact.event:
            case e.TimerSet(step_key=step_key, due_at=due_at):
                opened[step_key] = due_at
            case (
                e.TimerFired(step_key=step_key)
                | e.SignalTaken(step_key=step_key)
                | e.CallCancelled(step_key=step_key)
                | e.StepFinished(step_key=step_key)
                | e.ToolReturned(step_key=step_key)
                | e.ToolFailed(step_key=step_key)
            ):
                opened.pop(step_key, None)
            case e.CheckpointSaved() | e.TurnCommitted():
                dropped |= opened
                opened = {}
            case _:
                pass
    if head.status in TERMINAL:
        return  # a timer of a job that has ended is reported as I27
    stored = {row[0]: row[1] for row in rows}
    for step_key in sorted(opened.keys() | stored.keys()):
        expected = opened.get(step_key, dropped.get(step_key))
        if stored.get(step_key) == expected or (step_key in dropped and step_key not in stored):
            continue
        detail = f"timer {step_key} is kept for {stored.get(step_key)}, the journal says {expected}"
        yield Violation("I8", head.job_id, detail)


# ── the ledger ────────────────────────────────────────────────────────────────────────────────────


def check_ledger(
    head: JobHead, job: job_state.JobState, facts: Facts, rows: Sequence[Row]
) -> Iterator[Violation]:
    """Every call in the journal has its ledger row, in its current state; and there are no other rows."""
    results = _find_results(facts)
    expected = {
        place: (
            call.tool,
            call.effect,
            call.status,
            call.key,
            call.args_digest,
            call.attempt,
            call.intent_seq,
            results.get(place),
        )
        for place, call in job.calls.items()
    }
    stored = {(row[2], row[3]): (row[4], *row[6:11], row[12], row[13]) for row in rows}
    for place in sorted(expected.keys() | stored.keys()):
        if expected.get(place) == stored.get(place):
            continue
        row, call = _format_row(stored.get(place)), _format_row(expected.get(place))
        detail = f"the ledger says {row} of call {place}, the journal {call}"
        yield Violation("I8", head.job_id, detail)


def _format_row(row: tuple[object, ...] | None) -> str:
    return "nothing" if row is None else ", ".join(str(value) for value in row)


def _find_results(facts: Facts) -> dict[Place, int]:
    """The place at which each settled call was settled."""
    seqs: dict[Place, int] = {}
    for fact in facts:
        event = fact.event
        if isinstance(event, e.ToolReturned | e.ToolFailed | e.ToolReconciled):
            seqs[event.step_key, event.generation] = fact.seq
    return seqs
