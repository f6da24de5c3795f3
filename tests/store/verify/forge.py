"""Journals that nobody would write, forged so well that their chains and heads fit.

Damage to a row shows in the chain, and the chain is looked at first. What a rule is there for is another thing: a
journal that was written whole, by somebody who should not have written it like that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.model.events import (
    Event,
    JobCreated,
    JobWaiting,
    TimerSet,
    ToolCalled,
    ToolFailed,
    ToolReconciled,
    ToolReturned,
    ToolUncertain,
)
from holdfast.model.hash_chain import EMPTY, seal
from holdfast.model.lease import floor
from holdfast.model.ledger import call_id
from holdfast.model.side_effects import DECIDED, CallStatus
from holdfast.model.states import MOVES, Status, WaitReason
from holdfast.model.time import SECOND
from holdfast.store.executor import Transaction, Value
from holdfast.store.tables.store import SqlStore

START = 1_700_000_000 * SECOND
JOB = "job-forged"

Told = Sequence[tuple[int, Event]]
"""Facts in order, each with the fence it is written under, counted from the first."""


async def forge(
    store: SqlStore, told: Told, letters: Sequence[str] = (), *, job_id: str = JOB, every_us: int = SECOND
) -> None:
    """The store has this job: journal, head, ledger, timers and mail, each in agreement with the others.

    Events are `every_us` apart. The ledger has the last word about every call, whether it may have it or not.
    """
    created = told[0][1]
    assert isinstance(created, JobCreated)

    async def work(tx: Transaction) -> None:
        await _begin(tx, job_id, created)
        head = EMPTY
        for seq, (fence, event) in enumerate(told, 1):
            (sealed,), head = seal(job_id, head, floor(1) + fence, START + seq * every_us, [event])
            values = {name: getattr(sealed, name) for name in sealed.__struct_fields__}
            await tx.run("insert_event", job_id=job_id, **values)
        await tx.run(
            "hold_move",
            job_id=job_id,
            head_seq=head.seq,
            head_hash=head.hash,
            fence=floor(1) + max(fence for fence, _ in told),
            failed=0,
            anew=0,
            taken_over=0,
            requeues=0,
            ready_at=None,
            **_standing([event for _, event in told]),
        )
        for number, kind in enumerate(letters, 1):
            await tx.run("count_mail", job_id=job_id, woken=0)
            await tx.run(
                "insert_mail",
                job_id=job_id,
                mail_seq=number,
                kind=kind,
                name="",
                body=b"null",
                body_digest=b"",
                sender="",
                operation_id=f"op-{number}",
            )
        await _calls(tx, job_id, [event for _, event in told])
        for _, event in told:
            if isinstance(event, TimerSet):
                await tx.run("set_timer", job_id=job_id, step_key=event.step_key, due_at=event.due_at)

    await store.executor.write(work)


async def _begin(tx: Transaction, job_id: str, created: JobCreated) -> None:
    values: dict[str, Value] = {
        "job_id": job_id,
        "namespace": "default",
        "kind": created.kind,
        "queue": created.queue,
        "priority": created.priority,
        "session_id": None,
    }
    await tx.row(
        "insert_job",
        request_key=None,
        request_digest=bytes(32),
        parent_job_id=None,
        parent_step_key=None,
        **values,
    )
    await tx.run(
        "insert_head",
        status=Status.PENDING,
        wait_reason=None,
        ready_at=0,
        session_slot=None,
        head_hash=bytes(32),
        fence=floor(1),
        **values,
    )


def _standing(events: Sequence[Event]) -> Mapping[str, Value]:
    """Where the last event that moves the job has left it. One that runs is said to have been given back."""
    status, reason, wake_at = Status.PENDING, None, None
    for event in events:
        if event.type in MOVES:
            status = next(iter(MOVES[event.type].values()))
            reason, wake_at = None, None
        if isinstance(event, JobWaiting):
            reason, wake_at = event.reason, event.wake_at
        elif event.type == "job_dead_lettered":
            reason = WaitReason.DEAD_LETTER
    assert status is not Status.RUNNING, (
        "a forged job is held by nobody: let its journal end it, or give it back"
    )
    return {"status": status, "wait_reason": reason, "wake_at": wake_at}


async def _calls(tx: Transaction, job_id: str, events: Sequence[Event]) -> None:
    rows: dict[tuple[str, int], dict[str, Value]] = {}
    for seq, event in enumerate(events, 1):
        if isinstance(event, ToolCalled):
            row = rows.setdefault((event.step_key, event.generation), _row(job_id, seq, event))
            row |= {"status": CallStatus.PREPARED, "attempt": event.attempt}
        elif isinstance(event, ToolReturned | ToolFailed | ToolUncertain | ToolReconciled):
            settled: dict[str, Value] = {"status": _status(event)}
            if not isinstance(event, ToolUncertain):
                settled["result_seq"] = seq
            rows.get((event.step_key, event.generation), {}).update(settled)
    keys: set[object] = set()
    for row in rows.values():
        if row["idempotency_key"] not in keys:  # the database would refuse a second
            keys.add(row["idempotency_key"])
            await tx.run("insert_call", **row)


def _row(job_id: str, seq: int, event: ToolCalled) -> dict[str, Value]:
    return {
        "tool_call_id": call_id(job_id, event.step_key, event.generation),
        "job_id": job_id,
        "step_key": event.step_key,
        "generation": event.generation,
        "tool_name": event.tool,
        "raw_tool_name": event.tool,
        "side_effect_class": event.effect,
        "idempotency_key": event.key,
        "args_digest": event.args_digest,
        "fence": 0,
        "intent_seq": seq,
        "result_seq": None,
        "start_by": None,
        "longest_call_us": None,
        "approval_id": event.approval_id,
        "prepared_at": 0,
        "settled_at": None,
    }


def _status(event: ToolReturned | ToolFailed | ToolUncertain | ToolReconciled) -> CallStatus:
    match event:
        case ToolReturned():
            return CallStatus.SUCCEEDED
        case ToolFailed():
            return CallStatus.FAILED
        case ToolUncertain():
            return CallStatus.UNCERTAIN
        case ToolReconciled(decision=decision):
            return DECIDED[decision]
