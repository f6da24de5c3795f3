"""Children: jobs that a job starts and waits for.

The append that records the start also creates the child, under an id that is derived from the step: there is exactly
one child, however often the parent's code makes the call. The append that ends the child also sends the result to the
parent. Meanwhile the parent holds no slot. A parent that is cancelled or has timed out cancels its children; so does
code that cancels the call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.engine.budgets import ONE_CHILD
from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.mailbox import ChildNotice
from holdfast.engine.tracebacks import format_error
from holdfast.model import canonical
from holdfast.model.append import Extras
from holdfast.model.events import ChildStarted, Event, JobCompleted, JobCreated, JobFailure
from holdfast.model.job_deadline import TIMED_OUT
from holdfast.model.jobs import JobDraft, check_draft
from holdfast.model.mailbox import MailDraft
from holdfast.model.replay_history import Recorded
from holdfast.model.side_effects import Effect
from holdfast.model.states import MailKind, Status, WaitReason


async def spawn(execution: Execution, draft: JobDraft) -> Any:
    """Returns the child's result; CallFailed, if it did not complete. The child runs once, whatever happens to its
    parent."""
    check_draft(draft)
    place = execution.place()
    key = place.scope.key(f"spawn:{draft.kind}")
    args = [draft.kind, draft.input]
    digest = canonical.hex_digest(canonical.encode(args))
    call = DurableCall(draft.kind, args, _reject_call, CallPolicy(effect=Effect.IDEMPOTENT))
    recorded = execution.history.find(key, digest) or await execution.adopt(key, digest)
    if recorded is None:
        async with execution.noting_cancel(key, digest, execution.history.next_generation(key)):
            await execution.clear(call, key)
            await execution.afford(place, key, ONE_CHILD)
        recorded = _start_child(execution, draft, key, digest)
    key = recorded.step_key
    if recorded.settled and await execution.wait_for_outcome(recorded):
        return execution.recall(recorded, call)
    assert recorded.child_job_id is not None
    given_up = Extras(letters=make_cancel_mail(execution.owner.job_id, [recorded.child_job_id]))
    async with execution.noting_cancel(key, digest, recorded.generation, given_up):
        while recorded.seq is None:
            await execution.waits.wait_for_topic(WaitReason.CHILD, key)
        await execution.wait_for_outcome(recorded)
        return execution.recall(recorded, call)


def _start_child(execution: Execution, draft: JobDraft, key: str, digest: str) -> Recorded:
    generation = execution.history.next_generation(key)
    child_job_id = child_id(execution.owner.job_id, key, generation)
    child = msgspec.structs.replace(
        draft,
        job_id=child_job_id,
        namespace=execution.owner.namespace,
        parent_job_id=execution.owner.job_id,
        parent_step_key=key,
        budgets=execution.owner.budgets,
        depth=execution.owner.depth + 1,
    )
    event = ChildStarted(key, child_job_id, digest, draft.kind, generation)
    execution.note(event, extras=Extras(children=(child,)), guarded=True, progress=True)
    recorded = execution.history.find(key, digest)
    assert recorded is not None
    return recorded


def child_id(job_id: str, step_key: str, generation: int) -> str:
    """The id of the job that this step starts: always the same, and in lists next to the root job of its tree."""
    place = "\0".join((job_id, step_key, str(generation)))
    first, _, _ = job_id.partition(".")
    return f"{first[:160]}.{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def make_cancel_mail(parent_job_id: str, children: Iterable[str]) -> tuple[MailDraft, ...]:
    """The mail that cancels these children."""
    return tuple(
        MailDraft(
            job_id=child,
            kind=MailKind.CANCEL,
            operation_id=f"cancel by {parent_job_id}",
            name="cancelled by its parent",
            sender=parent_job_id,
        )
        for child in children
    )


def make_final_mail(
    job_id: str, created: JobCreated | None, children: Iterable[str], event: Event, status: Status
) -> Extras:
    """The mail of a job that has ended: its outcome to its parent, and a cancel to its children unless it completed."""
    letters = () if isinstance(event, JobCompleted) else make_cancel_mail(job_id, children)
    if created is None or created.parent_job_id is None or created.parent_step_key is None:
        return Extras(letters=letters)
    output = event.output if isinstance(event, JobCompleted) else None
    error = None if isinstance(event, JobCompleted) else _describe_failure(status, event)
    notice = MailDraft(
        job_id=created.parent_job_id,
        kind=MailKind.CHILD,
        operation_id=f"end of {job_id}",
        body=msgspec.to_builtins(ChildNotice(created.parent_step_key, job_id, status, output, error)),
        sender=job_id,
    )
    return Extras(letters=(*letters, notice))


def _describe_failure(status: Status, event: Event) -> dict[str, Any]:
    """The error that the parent gets in place of a result."""
    why = event.error if isinstance(event, JobFailure) else None
    if isinstance(why, dict) and why.get("type") == TIMED_OUT:
        return why  # under its own class, so that a parent can handle it
    if why is None:
        return {"type": "CallFailed", "message": f"the child job was {status}"}
    name = str(why["type"]) if isinstance(why, dict) and "type" in why else "Error"
    return {"type": "CallFailed", "error_type": name, "message": f"the child job failed: {format_error(why)}"}


async def _reject_call(_key: str) -> Any:
    raise AssertionError("a child is started by an append, not by a call")
