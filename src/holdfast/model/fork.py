"""Fork: which part of a journal a new job shares with the original, up to a point.

A fork is a new job of the same kind. Its journal begins

    job_created (forked_from, forked_at_seq) · job_claimed · the shared outcomes · job_released

and is written in one commit, so no worker ever claims a partial one. From there on it is an ordinary job: its function
runs from the top, replays the shared outcomes without calling anything, and makes the remaining calls itself, under
idempotency keys derived from its own id.

Only settled outcomes are shared: a result, a failure, a call that the code gave up, a person's decision. A failed
attempt of the original is part of the fork's history, too, and with it the list of failures that no longer count. The
effects were made by the original, once. The fork's ledger lists them as well, because a ledger is the fold of its
journal, but under keys of the fork that no receiver has ever seen; the receipts stay with the original.

The original paid for the shared calls. For its own calls the fork has a budget of its own, with the limits that the
original declared.

A person may replace the result of a read or the response of a model in the fork: the response of a model contains the
arguments of its tool calls. Then `job_created` names the steps, who changed them and why; the original response stays
in the original's journal. The result of an effect comes from its receiver and cannot be replaced.

A call that is not settled at the point cannot be shared. A read or a sleep in progress is done again. For an effect
in progress `take_history` raises InvalidMove: its outcome could not be attributed to either of the two jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidMove, NotFound
from holdfast.model import events as e
from holdfast.model.ledger import CallRow, call_id, idempotency_key
from holdfast.model.side_effects import DECIDED, CallStatus, Effect
from holdfast.model.states import MOVES

HOLDER: Final = "fork"
"""Holder of the fork while its shared history is written."""

_CREATED_SEQ: Final = 1

_LEFT_BEHIND: Final = frozenset(MOVES) | {
    "cancel_requested",
    "budget_reached",
    "budget_raised",
    "store_restored",
    "approval_requested",
    "approval_decided",
    "inputs_claimed",
    "llm_repurchased",
}
"""Events of the original only: who held it, how it ended, its mail, its budget."""


class ForkedEvent(msgspec.Struct, frozen=True):
    seq: int
    at: int
    event: e.Event


class SharedHistory(msgspec.Struct, frozen=True):
    """The history that a fork shares, split into holds, the last of which releases the job; and the ledger rows that
    belong to it."""

    holds: tuple[tuple[tuple[e.Event, int], ...], ...]
    """Events and their times: timers of the code fire in the fork where they fired in the original."""
    rows: tuple[CallRow, ...]


class _Call(msgspec.Struct):
    """All events about one step key and generation before the fork point."""

    step_key: str
    generation: int
    begun: ForkedEvent | None = None
    ended: ForkedEvent | None = None
    given_up: ForkedEvent | None = None
    uncertain: bool = False

    @property
    def is_effect(self) -> bool:
        return self.begun is not None and isinstance(self.begun.event, e.ToolCalled)


def fork_point(journal: Sequence[ForkedEvent], at: str | int) -> int:
    """The first event that is not shared: the first one about the step `at`, or event number `at` itself."""
    if isinstance(at, int):
        if not 2 <= at <= journal[-1].seq + 1:
            msg = f"there is no event {at} to fork at; the journal has events 1 to {journal[-1].seq}"
            raise NotFound(
                msg, hint="Name an event after the first, or a step key (`holdfast trace ID --steps`)."
            )
        return at
    for entry in journal:
        if getattr(entry.event, "step_key", None) == at:
            return entry.seq
    msg = f"the journal has no step {at!r}"
    raise NotFound(
        msg, hint="`holdfast trace ID --steps` lists the step keys. The number of an event works, too."
    )


def take_history(
    journal: Sequence[ForkedEvent],
    before: int,
    *,
    job_id: str,
    namespace: str,
    edits: Mapping[str, Any] | None = None,
) -> SharedHistory:
    """The history that a fork named `job_id` shares: the events before number `before`, with other results for the
    steps in `edits`. Raises InvalidMove if it cannot be shared."""
    prefix = _Prefix()
    for entry in journal:
        if entry.seq < before:
            prefix.take(entry)
    started_at = next((entry.at for entry in journal if isinstance(entry.event, e.JobClaimed)), journal[0].at)
    past: list[tuple[e.Event, int]] = [(e.JobClaimed(HOLDER), started_at)]
    for entry, generation in prefix.settled(journal):
        past.append((_rename_event(entry.event, generation, job_id, namespace), max(entry.at, past[-1][1])))
        if isinstance(entry.event, e.JobRequeued):
            past.append((e.JobClaimed(HOLDER), past[-1][1]))
    past.append((e.JobReleased(why="forked"), past[-1][1]))
    for step_key, result in (edits or {}).items():
        _edit(past, step_key, result)
    return SharedHistory(_split_holds(past), tuple(_make_rows(past, job_id)))


def _edit(past: list[tuple[e.Event, int]], step_key: str, result: Any) -> None:
    """Replace the result of the step in the fork's history."""
    for nth in reversed(range(len(past))):
        event, at = past[nth]
        if getattr(event, "step_key", None) != step_key:
            continue
        match event:
            case e.StepFinished():
                past[nth] = (_replace_fields(event, outcome="succeeded", result=result, error=None), at)
                return
            case e.LlmResponded():
                past[nth] = (_replace_fields(event, response=result, error=None), at)
                return
            case _:
                msg = f"{step_key} is neither a read nor an answer of a model that the code has seen"
                hint = "Only results of reads and models can be edited. Fork before this step, so that it runs again."
                raise InvalidMove(msg, hint=hint)
    msg = f"the fork does not share step {step_key!r}"
    raise NotFound(msg, hint="Edit a step that ended before the fork point.")


def _replace_fields(event: e.Event, **changes: object) -> e.Event:
    return msgspec.structs.replace(event, **changes)


def _split_holds(past: Sequence[tuple[e.Event, int]]) -> tuple[tuple[tuple[e.Event, int], ...], ...]:
    """Split the history where the job was released."""
    holds: list[list[tuple[e.Event, int]]] = []
    for event, at in past:
        if isinstance(event, e.JobClaimed):
            holds.append([])
        holds[-1].append((event, at))
    return tuple(tuple(hold) for hold in holds)


class _Prefix:
    """The journal up to the fork point: calls since the last commit, and the other shared events."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], _Call] = {}
        self._others: list[ForkedEvent] = []
        self._moves: list[ForkedEvent] = []
        self._requeues: list[ForkedEvent] = []

    def take(self, entry: ForkedEvent) -> None:
        match entry.event:
            case e.CheckpointSaved():
                self._forget_signals()
                self._calls, self._moves, self._requeues = (
                    {},
                    [],
                    [],
                )  # the state covers the calls before it
                self._others.append(entry)
            case e.TurnCommitted():
                raise InvalidMove("a turn of a session cannot be forked", hint="Start a new session.")
            case e.JobRequeued():
                self._requeues += [entry] if entry.event.rerun else []
            case e.ToolCalled() | e.TimerSet() | e.LlmRequested() | e.NodeStarted() | e.ChildStarted():
                call = self._call(entry.event)
                call.begun = (
                    entry if call.begun is None else ForkedEvent(call.begun.seq, call.begun.at, entry.event)
                )
            case (
                e.StepFinished()
                | e.ToolReturned()
                | e.ToolFailed()
                | e.TimerFired()
                | e.LlmResponded()
                | e.NodeFinished()
                | e.ChildFinished()
                | e.SignalTaken()
            ):
                self._call(entry.event).ended = entry
            case e.ToolUncertain():
                self._call(entry.event).uncertain = True
            case e.ToolReconciled(decision=decision):
                call = self._call(entry.event)
                if DECIDED[decision] is CallStatus.ABANDONED:
                    del self._calls[call.step_key, call.generation]
                else:
                    call.ended = entry
            case e.CallCancelled():
                self._call(entry.event).given_up = entry
            case e.CallMoved():
                self._moves.append(entry)
            case e.CallRetried():
                pass  # the fork makes the call with all its attempts
            case event if event.type not in _LEFT_BEHIND:
                self._others.append(entry)
            case _:
                pass

    def _forget_signals(self) -> None:
        """Drop signals that a wait has taken: their effect is in the committed state."""
        ended = [call.ended.event for call in self._calls.values() if call.ended is not None]
        taken = {event.mail_seq for event in ended if isinstance(event, e.SignalTaken)}
        self._others = [
            entry
            for entry in self._others
            if not (isinstance(entry.event, e.SignalReceived) and entry.event.mail_seq in taken)
        ]

    def _call(self, event: e.Event) -> _Call:
        if isinstance(event, e.NodeStarted | e.NodeFinished):
            key = f"{event.plan_id}\0{event.node}"
        else:
            key = getattr(event, "step_key")  # noqa: B009 - every event passed here has one
        generation = getattr(event, "generation", 0)
        return self._calls.setdefault((key, generation), _Call(key, generation))

    def settled(self, journal: Sequence[ForkedEvent]) -> list[tuple[ForkedEvent, int]]:
        """The events in journal order, each with its generation in the fork: from 0, without gaps."""
        chosen = [(entry, 0) for entry in self._others + self._requeues]
        generations: dict[str, int] = {}
        renumbered: dict[tuple[str, int], int] = {}
        for (key, original), call in sorted(self._calls.items()):
            if call.is_effect and call.ended is None:
                raise _make_open_call_error(call, journal)
            if call.begun is not None and isinstance(call.begun.event, e.ChildStarted) and call.ended is None:
                raise _make_open_child_error(call.begun.event)
            shared = [entry for entry in (call.begun, call.ended, call.given_up) if entry is not None]
            if call.ended is None and call.given_up is None:
                continue  # a read or a sleep in progress: the fork does it again
            generation = generations.get(key, 0)
            generations[key] = generation + 1
            renumbered[key, original] = generation
            chosen += [(entry, generation) for entry in shared]
        for entry in self._moves:
            assert isinstance(entry.event, e.CallMoved)
            place = (entry.event.recorded_key, entry.event.generation)
            if place in renumbered:
                chosen.append((entry, renumbered[place]))
        return sorted(chosen, key=lambda pair: pair[0].seq)


def _make_open_call_error(call: _Call, journal: Sequence[ForkedEvent]) -> InvalidMove:
    assert call.begun is not None
    state = "has an unknown outcome" if call.uncertain else "was under way"
    if call.given_up is not None:
        state = "had been given up, with an unknown outcome,"
    later = [
        entry.seq
        for entry in journal
        if isinstance(entry.event, e.ToolReturned | e.ToolFailed | e.ToolReconciled)
        and (entry.event.step_key, entry.event.generation) == (call.step_key, call.generation)
    ]
    hint = f"Fork before event {call.begun.seq}"
    hint += f", or after event {later[-1]}, where it was settled." if later else "; or settle the call first."
    return InvalidMove(f"the effect {call.step_key} {state} at the fork point", hint=hint)


def _make_open_child_error(started: e.ChildStarted) -> InvalidMove:
    msg = f"child {started.child_job_id} had not ended at the fork point, and a child has one parent only"
    return InvalidMove(msg, hint="Fork before it was started, or after it had finished.")


def _rename_event(event: e.Event, generation: int, job_id: str, namespace: str) -> e.Event:
    """The event in the fork: with the fork's idempotency key, its own generation, and without a mail number."""
    changes: dict[str, object] = {}
    if isinstance(event, e.ToolCalled):
        key = idempotency_key(namespace, job_id, event.step_key, generation)
        changes = {"key": key, "approval_id": None, "start_by": None}
    if hasattr(event, "generation"):
        changes["generation"] = generation
    if getattr(event, "mail_seq", None) is not None:
        changes["mail_seq"] = 0
    if isinstance(event, e.CheckpointSaved):
        changes["carries"] = None  # the snapshot is of the original's journal
    return msgspec.structs.replace(event, **changes) if changes else event


def _make_rows(past: Sequence[tuple[e.Event, int]], job_id: str) -> Iterable[CallRow]:
    """The ledger rows of these events. The times are those of the original calls."""
    begun: dict[tuple[str, int], CallRow] = {}
    for seq, (event, at) in enumerate(past, _CREATED_SEQ + 1):
        if isinstance(event, e.ToolCalled):
            place = (event.step_key, event.generation)
            begun[place] = _make_row(event, job_id, seq, at)
            yield begun[place]
        elif isinstance(event, e.ToolReturned | e.ToolFailed | e.ToolReconciled):
            place = (event.step_key, event.generation)
            yield msgspec.structs.replace(
                begun[place], status=_find_status(event), result_seq=seq, settled_at=at
            )


def _make_row(event: e.ToolCalled, job_id: str, seq: int, at: int) -> CallRow:
    return CallRow(
        tool_call_id=call_id(job_id, event.step_key, event.generation),
        job_id=job_id,
        step_key=event.step_key,
        generation=event.generation,
        tool_name=event.tool,
        raw_tool_name=event.tool,
        side_effect_class=Effect(event.effect),
        status=CallStatus.PREPARED,
        idempotency_key=event.key,
        args_digest=event.args_digest,
        attempt=event.attempt,
        intent_seq=seq,
        prepared_at=at,
        longest_call_us=event.longest_call_us,
    )


def _find_status(event: e.ToolReturned | e.ToolFailed | e.ToolReconciled) -> CallStatus:
    if isinstance(event, e.ToolReconciled):
        return DECIDED[event.decision]
    return CallStatus.SUCCEEDED if isinstance(event, e.ToolReturned) else CallStatus.FAILED
