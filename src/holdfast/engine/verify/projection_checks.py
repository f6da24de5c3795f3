"""The rows beside a journal are its fold (I8): the head, the ledger and the timers are computed again and compared.

Two differences of a head are none, because nobody but a holder writes into a journal: a waiting job that mail, a due
timer or the end of the turn in front of it has made pending; and a new job that joined a line.
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


def by_head(head: JobHead, job: job_state.JobState, facts: Facts) -> Iterator[Violation]:
    if not _agrees(head, job):
        detail = (
            f"the head says {head.status} ({head.wait_reason}), the journal {job.status} ({job.wait_reason})"
        )
        yield Violation("I8", head.job_id, detail)
    elif head.status is job.status and head.wake_at != job.wake_at:
        detail = f"the head wakes at {head.wake_at}, the journal says {job.wake_at}"
        yield Violation("I8", head.job_id, detail)
    created = facts[0].event
    assert isinstance(created, e.JobCreated), "the fold begins with it"
    asked = (created.kind, created.queue, created.priority, created.session_id)
    if (head.kind, head.queue, head.priority, head.session_id) != asked:
        detail = f"the head is of {head.kind}, {head.queue}, {head.priority}, {head.session_id}; created was {asked}"
        yield Violation("I8", head.job_id, detail)
    if head.fence != job.fence:
        detail = f"the head's fence is {head.fence}, that of event {job.seq} is {job.fence}"
        yield Violation("I8", head.job_id, detail)
    if head.mail_seq < job.mail_seq:
        detail = f"the head counts {head.mail_seq} letters, the journal has read up to {job.mail_seq}"
        yield Violation("I8", head.job_id, detail)
    taken = sum(_is_takeover(fact.event) for fact in facts)
    if head.takeovers > taken:
        detail = f"the head counts {head.takeovers} takeovers, the journal tells of {taken}"
        yield Violation("I8", head.job_id, detail)


def _is_takeover(event: e.Event) -> bool:
    """A claim or a sweep that took the job from somebody."""
    if isinstance(event, e.JobDeadLettered):
        return any("holder" in cause for cause in event.causes)
    return isinstance(event, e.JobClaimed | e.JobRequeued) and event.takeover


def by_waiting(head: JobHead, job: job_state.JobState) -> Iterator[Violation]:
    """I29: who waits for a person's word on a call has such a call; otherwise the word was said, and woke nobody."""
    unclear = any(call.status is CallStatus.UNCERTAIN for call in job.calls.values())
    if head.wait_reason is WaitReason.RECONCILE and not unclear:
        yield Violation("I29", head.job_id, "waits for a person's word, and no call is uncertain")


def _agrees(head: JobHead, job: job_state.JobState) -> bool:
    if (head.status, head.wait_reason) == (job.status, job.wait_reason):
        return True
    woken = job.status is Status.WAITING and head.status is Status.PENDING
    joined = job.status is Status.PENDING and head.wait_reason is WaitReason.JOINED
    return woken or joined


def by_attempts(head: JobHead, facts: Facts, attempts_max: int | None) -> Iterator[Violation]:
    """I26: an attempt that failed has its event, and there are no more of them than allowed."""
    ended = (e.JobRequeued, e.JobReleased, e.JobDeadLettered)
    told = sum(isinstance(fact.event, ended) for fact in facts)
    if head.attempts > told:
        detail = f"the head counts {head.attempts} failed attempts, the journal tells of {told} at most"
        yield Violation("I26", head.job_id, detail)
    if attempts_max is not None and head.attempts > attempts_max:
        detail = f"failed {head.attempts} times; {attempts_max} attempts are allowed"
        yield Violation("I26", head.job_id, detail)


# ── timers ────────────────────────────────────────────────────────────────────────────────────────


def by_timers(head: JobHead, facts: Facts, rows: Sequence[Row]) -> Iterator[Violation]:
    """The open timers are those that were set and have not rung; what a commit of state left behind counts for none."""
    opened: dict[str, int] = {}
    left: dict[str, int] = {}
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
                left |= opened
                opened = {}
            case _:
                pass
    if head.status in TERMINAL:
        return  # a timer of a job that is over is I27's
    kept = {row[0]: row[1] for row in rows}
    for step_key in sorted(opened.keys() | kept.keys()):
        told = opened.get(step_key, left.get(step_key))
        if kept.get(step_key) == told or (step_key in left and step_key not in kept):
            continue
        detail = f"timer {step_key} is kept for {kept.get(step_key)}, the journal says {told}"
        yield Violation("I8", head.job_id, detail)


# ── the ledger ────────────────────────────────────────────────────────────────────────────────────


def by_ledger(
    head: JobHead, job: job_state.JobState, facts: Facts, rows: Sequence[Row]
) -> Iterator[Violation]:
    """Every call that the journal tells of has its row, as it stands now; and no row is about anything else."""
    results = _results(facts)
    told = {
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
    kept = {(row[2], row[3]): (row[4], *row[6:11], row[12], row[13]) for row in rows}
    for place in sorted(told.keys() | kept.keys()):
        if told.get(place) == kept.get(place):
            continue
        row, call = _in_words(kept.get(place)), _in_words(told.get(place))
        detail = f"the ledger says {row} of call {place}, the journal {call}"
        yield Violation("I8", head.job_id, detail)


def _in_words(row: tuple[object, ...] | None) -> str:
    return "nothing" if row is None else ", ".join(str(value) for value in row)


def _results(facts: Facts) -> dict[Place, int]:
    """Where each call that is settled was settled."""
    found: dict[Place, int] = {}
    for fact in facts:
        event = fact.event
        if isinstance(event, e.ToolReturned | e.ToolFailed | e.ToolReconciled):
            found[event.step_key, event.generation] = fact.seq
    return found
