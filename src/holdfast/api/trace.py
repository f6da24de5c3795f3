"""Trace: a journal as a timeline. Calls are spans, changes of worker and status are seams, notes explain recovery.

The journal records what happened, not why. But recovery has few ways to go, each leaves its own pattern (a second
intent under one key, an adopted result, a decision of a person), and the declared side-effect class says which rule it
followed. So the reason follows from the events alone, years later, without the code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.api import command_checks
from holdfast.api.job_records import Note, Seam, SeamKind, Span, SpanKind, Trace
from holdfast.api.plan_view import plans_of
from holdfast.engine.recovery import causes_of, summarize_causes
from holdfast.engine.tracebacks import format_error
from holdfast.errors import HoldfastError
from holdfast.model import budget as money
from holdfast.model import events as e
from holdfast.model.crash_suspects import DIED_ALONE, find_parent
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.side_effects import Effect
from holdfast.model.stall_report import arrange_report
from holdfast.model.states import TERMINAL
from holdfast.model.time import to_iso
from holdfast.model.worker_identity import short_name

OPEN: Final = "open"
UNNAMED: Final = "an unnamed person"


def trace_of(head: JobHead, sealed: Sequence[SealedEvent], *, now: int) -> Trace:
    """The timeline of a job so far. An event that this version cannot read becomes a seam that says so."""
    reader = _Reader()
    facts: list[tuple[int, e.Event]] = []
    for sealed_event in sealed:
        try:
            event = unseal(sealed_event)
        except HoldfastError as error:
            reader.seam(sealed_event, SeamKind.OTHER, f"{sealed_event.type} cannot be read: {error}")
            continue
        reader.take(sealed_event, event)
        facts.append((sealed_event.at, event))
    over = head.status in TERMINAL
    spans = sorted(reader.spans.values(), key=lambda span: (span.start_at, span.seq))
    return Trace(
        job_id=head.job_id,
        kind=head.kind,
        status=str(head.status),
        start_at=sealed[0].at,
        end_at=sealed[-1].at if over else max(now, sealed[-1].at),
        over=over,
        spans=tuple(spans),
        seams=tuple(reader.seams),
        notes=tuple(reader.notes),
        plans=plans_of(facts, over=over),
    )


class _Reader:
    def __init__(self) -> None:
        self.spans: dict[tuple[str, ...], Span] = {}
        self.seams: list[Seam] = []
        self.notes: list[Note] = []
        self._workers: dict[int, str] = {}
        self._claimed_at = 0
        self._ended_at: dict[tuple[str, ...], int] = {}
        self._intents: dict[tuple[str, ...], int] = {}
        self._said: dict[str, str] = {}
        self._edited: dict[str, Any] = {}
        self._results = 0
        self._lost = False
        self._failed = 0
        self._causes: list[tuple[int, e.Event]] = []

    def take(self, sealed: SealedEvent, event: e.Event) -> None:
        if isinstance(event, e.JobClaimed | e.JobRequeued | e.JobDeadLettered):
            self._causes.append((sealed.at, event))
        match event:
            case e.StepFinished():
                self._read(sealed, event)
            case e.ToolCalled():
                self._intend(sealed, event)
            case e.ToolReturned() | e.ToolFailed() | e.ToolUncertain() | e.ToolReconciled():
                self._outcome(sealed, event)
            case e.CallCancelled():
                self._give_up(sealed, event)
            case (
                e.JobClaimed()
                | e.JobReleased()
                | e.JobWaiting()
                | e.JobParked()
                | e.JobStalled()
                | e.JobDeadLettered()
            ):
                self._hands(sealed, event)
            case e.CallMoved():
                self._move(sealed, event)
            case e.CallRetried():
                self._retry(sealed, event)
            case e.LlmRepurchased():
                differing = ", ".join(event.fields) or "its contents"
                text = f"Bought a recorded answer again: the request {event.step_key} differs in {differing}."
                self._note(sealed, text, (SpanKind.MODEL, event.step_key, str(event.generation)))
            case (
                e.JobCreated()
                | e.JobRequeued()
                | e.CancelRequested()
                | e.JobCompleted()
                | e.JobFailure()
                | e.JobCancellation()
            ):
                self._state(sealed, event)
            case _:
                self._other(sealed, event)

    def seam(
        self, sealed: SealedEvent, kind: SeamKind, text: str, worker: str = "", *, error: Any = None
    ) -> None:
        # The next event ends the wait that the last seam began.
        if self.seams and self.seams[-1].until is None and self.seams[-1].kind in _WAITS:
            self.seams[-1] = msgspec.structs.replace(self.seams[-1], until=sealed.at)
        self.seams.append(
            Seam(
                kind=kind,
                seq=sealed.seq,
                at=sealed.at,
                text=text,
                worker=worker,
                fence=sealed.fence,
                error=error,
            )
        )

    def _note(self, sealed: SealedEvent, text: str, place: tuple[str, ...] | None = None) -> None:
        self.notes.append(Note(sealed.seq, sealed.at, text, place[1] if place else None))
        if place in self.spans:
            span = self.spans[place]
            self.spans[place] = msgspec.structs.replace(span, notes=(*span.notes, text))

    def _say_edited(self, sealed: SealedEvent, place: tuple[str, ...]) -> None:
        """Notes that a person replaced this result when the fork was made."""
        if place[1] in self._edited.get("steps", {}):
            by, why = self._edited.get("by") or UNNAMED, str(self._edited.get("why", ""))
            self._note(sealed, f"Result replaced by {by} for this fork{format_reason(why)}.", place)

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _open(
        self, sealed: SealedEvent, kind: SpanKind, step_key: str, generation: int = 0, **more: Any
    ) -> None:
        """Opens a span at this event; `more` overrides its fields."""
        scope, name = split(step_key)
        fields: dict[str, Any] = {
            "name": name,
            "scope": scope,
            "start_at": sealed.at,
            "end_at": None,
            "outcome": OPEN,
        } | more
        self.spans[kind, step_key, str(generation)] = Span(
            kind=kind,
            step_key=step_key,
            generation=generation,
            seq=sealed.seq,
            worker=self._workers.get(sealed.fence, ""),
            **fields,
        )

    def _close(self, sealed: SealedEvent, place: tuple[str, ...], outcome: str, **more: Any) -> None:
        span = self.spans.get(place)
        if span is None:
            return
        worker = self._workers.get(sealed.fence, span.worker)
        self.spans[place] = msgspec.structs.replace(
            span, end_at=sealed.at, end_seq=sealed.seq, outcome=outcome, worker=worker, **more
        )
        self._ended_at[span.scope] = sealed.at
        self._results += 1

    def _read(self, sealed: SealedEvent, event: e.StepFinished) -> None:
        """A read has no event for its start: it started after its worker's claim, and after the last result of its
        scope."""
        scope, _ = split(event.step_key)
        started_at = max(self._claimed_at, self._ended_at.get(scope, 0))
        self._open(
            sealed,
            SpanKind.READ,
            event.step_key,
            event.generation,
            start_at=started_at,
            start_known=False,
            effect="read_only",
        )
        place = (SpanKind.READ, event.step_key, str(event.generation))
        self._close(sealed, place, event.outcome, result=event.result, error=event.error)
        self._say_edited(sealed, place)
        if event.generation:
            self._note(
                sealed,
                f"{event.step_key} was run again: it is read-only, and a failed attempt discarded its first result.",
                place,
            )

    def _intend(self, sealed: SealedEvent, event: e.ToolCalled) -> None:
        place = (SpanKind.EFFECT, event.step_key, str(event.generation))
        before = self.spans.get(place)
        if before is None:
            self._open(
                sealed,
                SpanKind.EFFECT,
                event.step_key,
                event.generation,
                name=event.tool,
                effect=event.effect,
                key=event.key,
                attempt=event.attempt,
                sent_at=(sealed.at,),
                args=event.args,
            )
            if event.generation:
                reason = self._said.get(event.step_key, "a failed attempt discarded its record")
                self._note(
                    sealed, f"{event.tool} was called again under a new idempotency key: {reason}.", place
                )
        else:
            again = {"attempt": event.attempt, "outcome": OPEN, "end_at": None, "end_seq": None}
            self.spans[place] = msgspec.structs.replace(before, sent_at=(*before.sent_at, sealed.at), **again)
            same_run = self._intents[place] == sealed.fence
            self._note(sealed, f"{event.tool} {describe_resend(event.effect, same_run=same_run)}.", place)
        self._intents[place] = sealed.fence

    def _outcome(
        self, sealed: SealedEvent, event: e.ToolReturned | e.ToolFailed | e.ToolUncertain | e.ToolReconciled
    ) -> None:
        place = (SpanKind.EFFECT, event.step_key, str(event.generation))
        tool = self.spans[place].name if place in self.spans else event.step_key
        match event:
            case e.ToolReturned():
                self._close(sealed, place, "succeeded", result=event.result, error=event.error)
                if event.adopted:
                    text = "was not sent again: after the quiet period its receiver confirmed that it had happened"
                    self._note(sealed, f"{tool} {text}.", place)
            case e.ToolFailed():
                self._close(sealed, place, event.outcome, error=event.error)
            case e.ToolUncertain():
                self._close(sealed, place, "uncertain", error=event.error)
                self._note(sealed, f"Outcome unknown: {tool}. Held for a person: {event.why}.", place)
            case e.ToolReconciled():
                by, decision = event.by or UNNAMED, DECISIONS.get(event.decision, event.decision)
                self._said[event.step_key] = f"{by} decided that {decision}"
                self._close(sealed, place, event.decision, result=event.result)
                self._note(sealed, f"{by} decided about {tool}: {decision} ({event.why}).", place)

    def _give_up(self, sealed: SealedEvent, event: e.CallCancelled) -> None:
        for kind in (SpanKind.EFFECT, SpanKind.MODEL, SpanKind.READ, SpanKind.SLEEP):
            place = (kind, event.step_key, str(event.generation))
            if place in self.spans and self.spans[place].end_at is None:
                self._close(sealed, place, "given up")
                return
        scope, _ = split(event.step_key)
        started_at = max(self._claimed_at, self._ended_at.get(scope, 0))
        self._open(
            sealed,
            SpanKind.READ,
            event.step_key,
            event.generation,
            start_at=started_at,
            start_known=False,
            effect="read_only",
        )
        self._close(sealed, (SpanKind.READ, event.step_key, str(event.generation)), "given up")

    def _move(self, sealed: SealedEvent, event: e.CallMoved) -> None:
        text = f"Adopted the record of {event.recorded_key} for {event.step_key} (renamed or reordered code)."
        keys = [(kind, event.recorded_key, str(event.generation)) for kind in SpanKind]
        place = next(filter(self.spans.__contains__, keys), None)
        self._note(sealed, text, place)
        if place is None:
            self.seam(sealed, SeamKind.OTHER, text)

    def _request(self, sealed: SealedEvent, event: e.LlmRequested) -> None:
        """Opens the span of a model request; a later attempt of it belongs to the same span."""
        place = (SpanKind.MODEL, event.step_key, str(event.generation))
        before = self.spans.get(place)
        if before is None:
            self._open(
                sealed,
                SpanKind.MODEL,
                event.step_key,
                event.generation,
                name=event.model,
                attempt=event.attempt,
                sent_at=(sealed.at,),
            )
            return
        self.spans[place] = msgspec.structs.replace(
            before, attempt=event.attempt, sent_at=(*before.sent_at, sealed.at), end_at=None, outcome=OPEN
        )

    def _retry(self, sealed: SealedEvent, event: e.CallRetried) -> None:
        error = event.error or {}
        subject = "Probe" if event.probe else "Attempt"
        text = (
            f"{subject} {event.attempt} of {event.attempts} failed: {error.get('type', 'Error')}: "
            f"{error.get('message', '')}; next at {to_iso(event.next_at)}."
        )
        keys = [(kind, event.step_key, str(event.generation)) for kind in SpanKind]
        place = next(filter(self.spans.__contains__, keys), None)
        self._note(sealed, text, place)
        if place is None:
            self.seam(sealed, SeamKind.OTHER, f"{event.step_key}: {text}")

    # ── workers and states ──────────────────────────────────────────────────────────────────────────

    def _hands(self, sealed: SealedEvent, event: e.Event) -> None:
        match event:
            case e.JobClaimed():
                before = self._workers[max(self._workers)] if self._workers else "an unknown worker"
                self._workers[sealed.fence] = event.worker
                self._claimed_at = sealed.at
                taken_over, self._lost = event.takeover or self._lost, False
                if find_parent(event.worker) is not None:
                    text = f"claimed by {short_name(event.worker)}, in a process of its own{self._attempt()}"
                    self.seam(sealed, SeamKind.CLAIMED, text, event.worker)
                    why = "The job runs in a process of its own, because its workers died"
                    self._note(sealed, f"{why}. If that process dies as well, the job is the cause.")
                    return
                if not taken_over:
                    self.seam(
                        sealed,
                        SeamKind.CLAIMED,
                        f"claimed by {short_name(event.worker)}{self._attempt()}",
                        event.worker,
                    )
                    return
                text = f"{short_name(event.worker)} took over from {short_name(before)}{self._attempt()}"
                self.seam(sealed, SeamKind.TAKEOVER, text, event.worker)
                used = f"{count_outcomes(self._results)} replayed, not called again"
                why = f"The lease of {short_name(before)} had expired"
                self._note(
                    sealed, f"{why}; {used}." if self._results else f"{why}; no result had been recorded."
                )
            case e.JobReleased():
                self.seam(sealed, SeamKind.RELEASED, f"released ({event.why})")
            case e.JobWaiting():
                self.seam(sealed, SeamKind.WAITING, f"waiting: {event.reason.replace('_', ' ')}")
            case e.JobParked():
                why = event.report.get("why", "") if isinstance(event.report, dict) else ""
                self.seam(sealed, SeamKind.PARKED, "parked: the code no longer matches the journal")
                self._note(sealed, f"Parked before any call was made: {why}.")
            case e.JobStalled():
                self.seam(sealed, SeamKind.STALLED, f"stalled: {arrange_report(event.report)['why']}")
                for line in describe_stall(event):
                    self._note(sealed, line)
            case e.JobDeadLettered():
                causes = causes_of(self._causes)
                why, error = summarize_causes(causes), causes[-1].get("error") if causes else None
                self.seam(sealed, SeamKind.DEAD_LETTER, f"dead letter: {why}", error=error)
                self._note(sealed, "The job is kept with its journal until a person decides.")

    def _attempt(self) -> str:
        """The number of the attempt that a claim begins or continues, once one has failed."""
        return f" (attempt {self._failed + 1})" if self._failed else ""

    def _state(self, sealed: SealedEvent, event: e.Event) -> None:
        match event:
            case e.JobCreated():
                self._edited = event.edited if isinstance(event.edited, dict) else {}
                forked = f"forked from {event.forked_from} before its event {event.forked_at_seq}"
                how = "submitted" if event.forked_from is None else forked
                self.seam(sealed, SeamKind.CREATED, f"{event.kind} {how}")
            case e.JobRequeued() if event.takeover:  # a sweep found it; its next claim is a takeover
                self._lost = True
                ran_out = f"the lease of {short_name(event.holder or 'its worker')} expired"
                self.seam(
                    sealed, SeamKind.REQUEUED, event.why if event.why.startswith(DIED_ALONE) else ran_out
                )
            case e.JobRequeued() if event.by:
                self._failed = 0
                self.seam(sealed, SeamKind.REQUEUED, f"requeued by {event.by}{format_reason(event.why)}")
                self._note(sealed, "Its attempts count from zero again.")
            case e.JobRequeued():
                failed = format_error(event.error)
                self._failed += bool(failed)
                text = f"attempt {self._failed} failed: {failed}" if failed else "requeued"
                self.seam(sealed, SeamKind.REQUEUED, text, error=event.error)
                if failed and event.rerun:
                    self._note(sealed, f"The next attempt makes these calls again: {', '.join(event.rerun)}.")
            case e.CancelRequested():
                why = f": {event.why}" if event.why else ""
                self.seam(
                    sealed, SeamKind.CANCEL_REQUESTED, f"cancel requested by {event.by or UNNAMED}{why}"
                )
            case e.JobCompleted():
                self.seam(sealed, SeamKind.ENDED, "completed")
            case e.JobFailure():
                self.seam(sealed, SeamKind.ENDED, f"failed: {format_error(event.error)}", error=event.error)
            case e.JobCancellation():
                self.seam(sealed, SeamKind.ENDED, "cancelled")

    # ── everything else ───────────────────────────────────────────────────────────────────────────

    def _other(self, sealed: SealedEvent, event: e.Event) -> None:
        match event:
            case e.TimerSet():
                self._open(sealed, SpanKind.SLEEP, event.step_key)
            case e.TimerFired():
                self._close(sealed, (SpanKind.SLEEP, event.step_key, "0"), "over")
            case e.LlmRequested():
                self._request(sealed, event)
            case e.LlmResponded():
                answer = {"result": event.response, "error": event.error, "usage": event.usage}
                place = (SpanKind.MODEL, event.step_key, str(event.generation))
                self._close(sealed, place, "failed" if event.error else "succeeded", **answer)
                self._say_edited(sealed, place)
            case e.ApprovalRequested():
                self._open(sealed, SpanKind.APPROVAL, event.step_key)
                self._said[event.approval_id] = event.step_key
            case e.ApprovalDecided():
                place = (SpanKind.APPROVAL, self._said.get(event.approval_id, ""), "0")
                self._close(sealed, place, event.decision)
                self._note(
                    sealed,
                    f"{event.decision.capitalize()} by {event.by or UNNAMED}{format_reason(event.why)}.",
                    place,
                )
            case e.ChildStarted():
                self._open(sealed, SpanKind.CHILD, event.step_key, args=event.child_job_id)
            case e.ChildFinished():
                self._close(sealed, (SpanKind.CHILD, event.step_key, "0"), event.status)
            case e.NodeStarted():
                self._open(sealed, SpanKind.NODE, f"{event.plan_id}/{event.node}", name=event.node)
                self._ended_at[split(f"{event.scope}/")[0]] = (
                    sealed.at
                )  # no call of the node starts before it
            case e.NodeFinished():
                self._close(sealed, (SpanKind.NODE, f"{event.plan_id}/{event.node}", "0"), event.outcome)
            case e.SignalReceived():
                text = "answer received" if event.name in self._said else f"signal {event.name} received"
                self.seam(sealed, SeamKind.SIGNAL, text)
            case e.QuestionAsked():
                self._open(sealed, SpanKind.APPROVAL, event.step_key, name=event.question)
                self._said[event.question_id] = event.step_key
            case e.SignalTaken() if event.name in self._said:
                outcome = "not answered" if event.mail_seq is None else "answered"
                self._close(sealed, (SpanKind.APPROVAL, self._said[event.name], "0"), outcome)
            case e.CheckpointSaved() | e.TurnCommitted():
                self.seam(sealed, SeamKind.COMMIT, f"state committed ({event.ordinal})")
            case e.StoreRestored():
                self.seam(sealed, SeamKind.RESTORED, "the store was restored from a backup")
                self._note(
                    sealed,
                    "Held for review: calls that the job made after the backup are not in this journal.",
                )
            case e.PlanGenerated():
                self.seam(sealed, SeamKind.OTHER, "plan recorded")
            case e.BudgetReached():
                used = (
                    f"{format_amount(event.limit, event.spent)} of {format_limit(event.limit, event.allowed)}"
                )
                self.seam(sealed, SeamKind.OTHER, f"budget reached: {used}")
            case e.BudgetRaised():
                self.seam(
                    sealed,
                    SeamKind.OTHER,
                    f"budget raised by {event.by}{format_reason(format_raise(event))}",
                )
            case _:
                self.seam(sealed, SeamKind.OTHER, command_checks.plainly(event))


_WAITS: Final = frozenset(
    {
        SeamKind.WAITING,
        SeamKind.PARKED,
        SeamKind.STALLED,
        SeamKind.DEAD_LETTER,
        SeamKind.RELEASED,
        SeamKind.REQUEUED,
    }
)


def split(step_key: str) -> tuple[tuple[str, ...], str]:
    """Splits a step key into scope and name: `2/research#1/fetch#3` is fetch#3 in (research#1)."""
    parts = step_key.split("/")
    return tuple(parts[1:-1]), parts[-1]


DECISIONS: Final = {
    "happened": "it happened",
    "not_happened": "it did not happen",
    "skip": "it is skipped",
    "fail": "it counts as failed",
    "relaunch": "it is launched again",
}


def format_reason(why: str) -> str:
    return f": {why}" if why else ""


def format_raise(event: e.BudgetRaised) -> str:
    limits = event.limits if isinstance(event.limits, dict) else {}
    return ", ".join(format_limit(name, most) for name, most in limits.items()) + format_reason(event.why)


def format_limit(limit: str, most: Any) -> str:
    return f"{format_amount(limit, most)} {money.WORDS.get(limit, limit)}"


def format_amount(limit: str, much: Any) -> str:
    return money.show(limit, much) if type(much) is int and much >= 0 else str(much)


def describe_stall(event: e.JobStalled) -> list[str]:
    """Where each task of a stalled job waits, one line for each."""
    return [
        f"{task['task'] or 'A task'} waits at {task['at']}."
        for task in arrange_report(event.report)["tasks"]
        if task["at"]
    ]


def describe_resend(effect: str, *, same_run: bool) -> str:
    """Why a call has a second intent under one key."""
    if effect == Effect.VERIFIABLE:
        return "was sent again under the same key: its receiver confirmed that it had not happened"
    if same_run:
        return "got a new intent: the first had expired before anything was sent"
    if effect == Effect.IDEMPOTENT:
        return "was sent again under the same key: it is idempotent, and its outcome was not recorded"
    return "was sent again under the same key"


def count_outcomes(number: int) -> str:
    return "1 recorded outcome was" if number == 1 else f"{number} recorded outcomes were"
