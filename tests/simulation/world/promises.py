"""More rules: what is promised about signals, children, approvals, checkpoints and recoveries."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from holdfast.model import events as e
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.side_effects import START_WITHIN_US
from holdfast.model.states import HELD, TERMINAL, Status, WaitReason
from tests.simulation.world.mix import CHANGED, labels_in
from tests.simulation.world.witness import Witness

Facts = list[tuple[int, int, e.Event]]
"""Seq, fence, event."""


def broken(job_id: str, facts: Facts) -> Iterator[str]:
    """What one journal says against itself."""
    yield from _signals(job_id, facts)
    yield from _leave(job_id, facts)
    yield from _children(job_id, facts)
    yield from _beside_recovery(job_id, facts)


def _signals(job_id: str, facts: Facts) -> Iterator[str]:
    """Each signal is taken once, the oldest of its name first; a wait ends without one only if there is none."""
    known: dict[str, deque[int]] = defaultdict(deque)
    seen: set[int] = set()
    for seq, _, event in facts:
        if isinstance(event, e.SignalReceived):
            if event.mail_seq in seen:
                yield f"I29: letter {event.mail_seq} to {job_id} is received twice, again at event {seq}"
            seen.add(event.mail_seq)
            known[event.name].append(event.mail_seq)
        elif isinstance(event, e.SignalTaken):
            first = known[event.name].popleft() if known[event.name] else None
            if first != event.mail_seq:
                yield f"I29: {job_id} takes signal {event.mail_seq} at event {seq}; its next is {first}"


def _leave(job_id: str, facts: Facts) -> Iterator[str]:
    """Calls that need leave have it when they are first intended. That it fits and is used once, `verify` knows."""
    expires: dict[str, int] = {}
    intended: set[str] = set()
    for seq, _, event in facts:
        if isinstance(event, e.ApprovalRequested):
            expires[event.approval_id] = event.expires_at or 0
        elif isinstance(event, e.ToolCalled) and event.key not in intended:
            intended.add(event.key)
            if event.approval_id is None or event.start_by is None:
                continue
            late_us = event.start_by - START_WITHIN_US - expires.get(event.approval_id, 0)
            if late_us >= 0:
                yield f"I15: {event.step_key} of {job_id} is intended at event {seq}, {late_us} us too late"


def _children(job_id: str, facts: Facts) -> Iterator[str]:
    started: set[tuple[str, int]] = set()
    heard: set[str] = set()
    for seq, _, event in facts:
        if isinstance(event, e.ChildStarted):
            place = (event.step_key, event.generation)
            if place in started:
                yield f"children: {job_id} starts the child of {place} again at event {seq}"
            started.add(place)
        elif isinstance(event, e.ChildFinished):
            if event.child_job_id in heard:
                yield f"children: {job_id} hears of the end of {event.child_job_id} again at event {seq}"
            heard.add(event.child_job_id)


def _beside_recovery(job_id: str, facts: Facts) -> Iterator[str]:
    """Nothing new is intended while what became of a call that an earlier run left open is not known."""
    unsettled: dict[tuple[str, int], tuple[int, int]] = {}
    known: set[tuple[str, int]] = set()
    outcome_at: dict[str, int] = {}
    for seq, fence, event in facts:
        match event:
            case e.ToolCalled() | e.ChildStarted():
                place = (event.step_key, event.generation)
                cut_off = [one for one, (_, of) in unsettled.items() if of < fence and one[0] != place[0]]
                if place not in known and cut_off:
                    yield f"recovery: {job_id} intends {place} at event {seq}, while {cut_off[0]} is cut off"
                known.add(place)
                if isinstance(event, e.ToolCalled):
                    unsettled[place] = (unsettled.get(place, (seq, 0))[0], fence)
            case e.ToolReturned() | e.ToolFailed() | e.ToolReconciled():
                unsettled.pop((event.step_key, event.generation), None)
                outcome_at[event.step_key] = seq
            case e.StepFinished():
                outcome_at[event.step_key] = seq
            case e.CallCancelled():
                unsettled.pop((event.step_key, event.generation), None)
            case e.CheckpointSaved():
                unsettled.clear()
            case e.JobRequeued():
                # What followed from a failure that is tried again need not be asked for any more.
                first = min((outcome_at.get(key, 0) for key in event.rerun), default=None)
                gone = event.accepted or first is not None
                for place, (intended, _) in list(unsettled.items()):
                    if gone and (event.accepted or intended > (first or 0)):
                        del unsettled[place]
            case _:
                pass


def families(witness: Witness, heads: Mapping[str, JobHead]) -> Iterator[str]:
    """Children of the cancelled are over, and what was given up is, too."""
    for child_id, child in witness.children.items():
        if child_id in witness.cancels and heads[child_id].status not in TERMINAL:
            yield f"children: {child_id} was cancelled by {child.parent} and is {heads[child_id].status}"
        if heads[child.parent].status is Status.CANCELLED and heads[child_id].status not in TERMINAL:
            yield f"children: {child_id} outlives {child.parent}, which was cancelled"


def resumed(head: JobHead, sealed: list[SealedEvent], witness: Witness) -> Iterator[str]:
    """A job that somebody resumed has begun again, whoever died meanwhile."""
    said = witness.resumed.get(head.job_id)
    begun = [unseal(one) for one in sealed if one.type == e.JobRequeued.type]
    heard = max((event.mail_seq for event in begun if isinstance(event, e.JobRequeued)), default=0)
    if said is not None and heard < said and head.status not in TERMINAL:
        yield f"I29: {head.job_id} was resumed by letter {said}, and nobody heard"


def looks_after_checkpoints(witness: Witness) -> Iterator[str]:
    """What a checkpoint knows is not looked up again by anybody who could read it."""
    for look in witness.looks:
        for one in witness.checkpoints.get(look.job_id, ()):
            if look.label in one.labels and look.order > one.order and look.fence >= one.fence:
                yield f"checkpoints: look {look.label} of {look.job_id} ran again after a checkpoint"


def may_stay(job_id: str, heads: Mapping[str, JobHead], witness: Witness, moves: list[object]) -> bool:
    """Whether a job may be found like this long after the last fault: over, or held for somebody to look at."""
    head = heads[job_id]
    if head.status in TERMINAL or head.wait_reason is WaitReason.DEAD_LETTER:
        return True
    if head.wait_reason is WaitReason.DRIFT:
        return not CHANGED.isdisjoint(labels_in(moves).values())
    if head.wait_reason is WaitReason.CHILD:
        children = [
            heads[one].wait_reason for one, child in witness.children.items() if child.parent == job_id
        ]
        return any(reason in HELD or reason is WaitReason.CHILD for reason in children)
    return False
