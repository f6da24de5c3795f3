"""Replay preview: what a replay would return for each call, computed from the journal alone, without code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.api.job_records import Span, SpanKind, Walk, Walked, WalkedStep
from holdfast.api.trace import trace_of
from holdfast.errors import Broken
from holdfast.model import events as e
from holdfast.model.hash_chain import SealedEvent, find_break, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.replay_history import History, Recorded
from holdfast.model.side_effects import CallStatus, Effect


class _Past(History):
    """The replay history, with read access to its calls."""

    def calls(self) -> list[Recorded]:
        """The newest record of each call since the last commit, if it still counts."""
        return [newest for newest in self._calls.values() if not newest.retired]


def walk_of(head: JobHead, sealed: Sequence[SealedEvent], *, now: int) -> Walk:
    """The calls since the last commit of state, in the order in which the code gets their results; those without an
    outcome come last."""
    if find_break(head.job_id, sealed) is not None:
        msg = f"the journal of job {head.job_id} is damaged"
        raise Broken(msg)
    past = _Past()
    commit = 0
    ends: dict[str, Any] = {"input": None, "output": None, "error": None}
    for sealed_event in sealed:
        event = unseal(sealed_event)
        past.take(sealed_event.seq, event, sealed_event.at)
        match event:
            case e.JobCreated():
                ends["input"] = event.input
            case e.CheckpointSaved():
                commit = sealed_event.seq
            case e.JobCompleted():
                ends["output"] = event.output
            case e.JobFailure():
                ends["error"] = event.error
            case _:
                pass
    spans = {(span.step_key, span.generation): span for span in trace_of(head, sealed, now=now).spans}
    dated = {sealed_event.seq: sealed_event.at for sealed_event in sealed}
    steps = [_step(call, spans.get((call.step_key, call.generation)), dated) for call in past.calls()]
    return Walk(
        job_id=head.job_id,
        kind=head.kind,
        status=head.status,
        from_seq=commit,
        state=past.state,
        steps=tuple(sorted(steps, key=lambda step: (step.seq is None, step.seq or 0))),
        **ends,
    )


def _step(call: Recorded, span: Span | None, dated: dict[int, int]) -> WalkedStep:
    name = call.step_key.rpartition("/")[2] if span is None else span.name
    seq = call.seq if call.cancelled_seq is None else call.cancelled_seq
    return WalkedStep(
        step_key=call.step_key,
        kind=SpanKind.READ if span is None else span.kind,
        name=name.partition("#")[0],
        seq=seq,
        at=None if seq is None else dated[seq],
        answer=_answer(call),
        effect=str(call.effect),
        generation=call.generation,
        attempt=call.attempt,
        args=None if span is None else span.args,
        result=call.result,
        error=call.error,
    )


def _answer(call: Recorded) -> Walked:
    """What the code gets for this call."""
    if call.cancelled_seq is not None:
        return Walked.GIVEN_UP
    if call.seq is None:
        for_others = call.due_at is not None or call.child_job_id is not None
        uncertain = call.status is CallStatus.UNCERTAIN
        recovers = call.effect is not Effect.READ_ONLY or call.intent_seq is not None
        if for_others or uncertain or not recovers:
            return Walked.WAITS
        return Walked.RECOVERS
    return Walked.RAISES if call.error is not None or call.status is CallStatus.FAILED else Walked.RETURNS
