"""The rules, applied to what happened. Each finding begins with the name of the rule it breaks (RELIABILITY §2.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.engine.verify.journal_checks import check_journal_alone
from holdfast.model import events as e
from holdfast.model import job_state
from holdfast.model.hash_chain import EMPTY, Head, SealedEvent, find_break, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import Mail
from holdfast.model.states import TERMINAL, Status
from holdfast.store.contract import Store
from tests.simulation.world import promises
from tests.simulation.world.mix import labels_in
from tests.simulation.world.people import People
from tests.simulation.world.witness import Witness

EARLY_S = 0.2
"""Clocks run up to half a percent wrong; no sleep here is longer than twenty seconds."""

ONCE = {"pay", "mail", "post", "draft", "file"}


async def findings(
    store: Store,
    witness: Witness,
    people: People,
) -> list[str]:
    """What is wrong with this history; nothing, if all is well."""
    found = [*witness.wrong, *_fires(witness, people.accepted), *_looks(witness), *_naps(witness)]
    found += promises.looks_after_checkpoints(witness)
    heads: dict[str, JobHead] = {}
    jobs = people.jobs()
    for job_id in jobs:
        try:
            heads[job_id] = await store.jobs.head(job_id)
        except Exception:  # whatever the reason: it was acknowledged, or its parent has started it
            found.append(f"I39: {job_id} was acknowledged and is not there")
    for job_id, head in heads.items():
        given = jobs[job_id]
        sealed = await store.journal.read(job_id)
        found += _journal(job_id, head, sealed, await store.post.read(job_id))
        found += promises.resumed(head, sealed, witness)
        if not promises.may_stay(job_id, heads, witness, given["moves"]):
            found.append(f"L1: {job_id} is {head.status} for {head.wait_reason} long after the last fault")
        events = [unseal(one) for one in sealed]
        created = events[0]
        if not isinstance(created, e.JobCreated) or created.input != given:
            found.append(f"I39: {job_id} is not what was submitted")
        found += _effects(job_id, given["moves"], events, witness, people.odd)
    found += promises.families(witness, heads)
    return found


# ── the outside ───────────────────────────────────────────────────────────────────────────────────


def _fires(witness: Witness, accepted: set[tuple[str, str]]) -> Iterator[str]:
    fired: Counter[str] = Counter()
    for fire in witness.fires:
        fired[fire.key] += 1
        if fire.kind in {"mail", "box"} and fired[fire.key] > 1:
            yield f"I12: unsafe {fire.label} of {fire.job_id} was fired twice under one authority"
        intended = any(
            intent.order < fire.order and (intent.job_id, intent.fence) == (fire.job_id, fire.fence)
            for intent in witness.intents.get(fire.key, ())
        )
        if not intended:
            yield f"I11: {fire.kind} {fire.label} of {fire.job_id} fired without an intent under fence {fire.fence}"
        if witness.grants.get((fire.job_id, fire.fence)) != fire.process:
            yield f"I2: {fire.process} fired for {fire.job_id} under fence {fire.fence}, which is not its own"
    happened = Counter((one.job_id, one.label, one.kind) for one in witness.landings if one.effect)
    for (job_id, label, kind), times in happened.items():
        # A box is made anew under a new key; what a person accepted may be done again under its new name.
        if times > 1 and kind != "box" and (job_id, label) not in accepted:
            yield f"I12: {kind} {label} of {job_id} happened {times} times"


def _looks(witness: Witness) -> Iterator[str]:
    """A run that could read the result does not look again; one that slept through it may."""
    for look in witness.looks:
        finished, fence = witness.steps.get((look.job_id, look.label), (look.order, look.fence))
        if look.order > finished and look.fence >= fence:
            yield f"I10: look {look.label} of {look.job_id} ran again after its result was durable"


def _naps(witness: Witness) -> Iterator[str]:
    for place, rung_at in witness.rung.items():
        due_at = witness.naps.get(place)
        if due_at is None or rung_at < due_at - EARLY_S:
            yield f"timers: nap {place} was over at {rung_at:.2f}, due at {due_at}"


def _effects(
    job_id: str, moves: list[Any], events: list[e.Event], witness: Witness, odd: set[tuple[str, str]]
) -> Iterator[str]:
    """A job that completed did everything it was to do, once, and knows the receipts."""
    last = events[-1]
    if not isinstance(last, e.JobCompleted):
        return
    receipts = {
        (one.label, one.kind): one.receipt for one in witness.landings if one.job_id == job_id and one.effect
    }
    boxes = {one.receipt for one in witness.landings if one.job_id == job_id and one.kind == "box"}
    taken: dict[str, str] = {}
    for label, kind in labels_in(moves).items():
        if kind not in {*ONCE, "box", "child", "wait"} or (job_id, label) in odd:
            continue
        result = last.output[label]
        if kind == "child":
            yield from _child(job_id, label, result, witness)
        elif kind == "wait":
            if result != "too late" and taken.setdefault(repr(result), label) != label:
                yield f"I29: {job_id} took signal {result} under {label} and {taken[repr(result)]}"
        elif kind == "box":
            if (
                result not in {"refused", "denied"}
                if isinstance(result, str)
                else result["receipt"] not in boxes
            ):
                yield f"I10: box {label} of {job_id} has {result}, its receiver never said so"
        elif result in ("refused", "denied"):
            if (label, kind) in receipts:
                yield f"I12: {kind} {label} of {job_id} was {result} and happened"
        elif (label, kind) not in receipts:
            yield f"lost: {kind} {label} of {job_id} is done and never happened"
        elif result != {"receipt": receipts[label, kind]}:
            yield f"I10: {kind} {label} of {job_id} has {result}, its receiver {receipts[label, kind]}"


def _child(job_id: str, label: str, result: Any, witness: Witness) -> Iterator[str]:
    """What a parent has from its child is what that child returned."""
    if result in ("given up", "not completed"):
        return
    name = f"{job_id}/{label}"
    ended = [witness.over.get(one) for one, child in witness.children.items() if child.given["job"] == name]
    if [(status, output) for _, status, output in filter(None, ended)] != [("completed", result)]:
        yield f"children: {job_id} has {result} from its child {label}, which ended as {ended}"


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


def _journal(job_id: str, head: JobHead, sealed: list[SealedEvent], letters: list[Mail]) -> Iterator[str]:
    end = Head(sealed[-1].seq, sealed[-1].hash) if sealed else EMPTY
    if end != head.head:
        yield f"I5: the journal of {job_id} does not match its head"
    broken = find_break(job_id, sealed)
    if broken is not None:
        yield f"I6: the chain of {job_id} breaks: {broken}"
        return
    facts = [(one.seq, one.fence, unseal(one)) for one in sealed]
    try:
        job = job_state.fold(facts)
    except job_state.Ungrammatical as wrong:
        yield f"I7: {job_id}: {wrong}"
        return
    if job.status is not head.status and head.mail_seq <= job.mail_seq:
        yield f"I8: {job_id} is {head.status} and its journal says {job.status}"
    if head.status is not Status.RUNNING and (head.lease_token or head.lease_owner or head.lease_expires_at):
        yield f"I27: {job_id} is {head.status} and holds a lease"
    if head.fence < job.fence:
        yield f"I1: {job_id} is at fence {head.fence}; its journal has seen {job.fence}"
    if job.cancel_requested and head.status in TERMINAL and head.status is not Status.CANCELLED:
        yield f"I28: {job_id} was cancelled and is {head.status}"
    yield from (
        f"{one.invariant}: {job_id}: {one.detail}" for one in check_journal_alone(head, sealed, letters)
    )
    yield from promises.broken(job_id, facts)
    yield from _tries(job_id, head, [event for _, _, event in facts])


PROGRESS = (e.StepFinished, e.ToolReturned, e.ToolFailed, e.SignalTaken)


def _tries(job_id: str, head: JobHead, events: list[e.Event]) -> Iterator[str]:
    """A job that keeps failing is held, and no other: here no process is one job's own, so no death convicts a job.
    Deaths count from the last progress on, for they make a suspect."""
    takeovers = failures = 0
    for event in events:
        if isinstance(event, e.JobClaimed):
            takeovers += event.takeover
        elif isinstance(event, PROGRESS):
            takeovers = 0
        elif isinstance(event, e.JobRequeued):
            failures += event.why == "failed"
            takeovers += event.takeover
            if event.mail_seq:  # a person has decided to begin again
                takeovers = failures = 0
        elif isinstance(event, e.JobDeadLettered):
            failed = event.causes[0].get("error") is not None
            if failures + failed < 3:
                yield f"I26: {job_id} is held after {failures + failed} failures"
    if head.takeovers > takeovers:
        yield f"I26: {job_id} counts {head.takeovers} takeovers; since its last progress there were {takeovers}"
