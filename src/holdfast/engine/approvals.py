"""Approvals: a person's decision before a call. One approval is for exactly these arguments, is used once, and
expires.

The request is an event; the decision comes as mail and becomes an event, too. It belongs to one call: its step key,
generation and arguments. Other arguments need another approval, and so does a new attempt after a person decided that
the first did not happen. An approval that is not used before it expires is void, and is requested again.
"""

from __future__ import annotations

import hashlib
import itertools
from typing import Final

from holdfast.engine.durable_call import DurableCall
from holdfast.engine.execution_context import ExecutionContext
from holdfast.errors import Denied
from holdfast.model.events import ApprovalDecided, ApprovalRequested
from holdfast.model.replay_history import RecordedApproval
from holdfast.model.states import WaitReason

APPROVED: Final = "approved"
DENIED: Final = "denied"
EXPIRED: Final = "expired"


async def find_approval(
    execution: ExecutionContext, call: DurableCall, step_key: str, digest: str, generation: int
) -> str | None:
    """Returns the id of the approval that this call may use, waiting for the decision; None, if the call needs none.
    Denied, if a person denies it or it expires undecided."""
    if call.terms.approve is None or not call.terms.approve(call.args):
        return None
    for nth in itertools.count():
        approval_id = _derive_approval_id(execution, step_key, digest, generation, nth)
        approval = execution.history.approvals.get(approval_id)
        if approval is None:
            approval = _request_approval(execution, call, approval_id, step_key, digest, generation)
        while approval.decision is None:
            in_time = await execution.waits.wait_for_topic(
                WaitReason.APPROVAL, approval_id, approval.expires_at
            )
            if not in_time and approval.decision is None:
                decided = ApprovalDecided(approval_id, EXPIRED, by="", why="the time to answer was over")
                execution.note(decided, at=execution.job_time(approval.expires_at))
        assert approval.seq is not None
        await execution.turn(approval.seq, approval.at)
        if approval.decision != APPROVED:
            raise Denied(_describe_denial(call.name, approval), by=approval.by)
        if is_approval_valid(execution, approval_id):
            return approval_id
    raise AssertionError("unreachable")


def is_approval_valid(execution: ExecutionContext, approval_id: str | None) -> bool:
    """Whether the call may still be made: it needs no approval, or its approval has not expired."""
    return approval_id is None or execution.latest_us() < execution.history.approvals[approval_id].expires_at


def _request_approval(
    execution: ExecutionContext,
    call: DurableCall,
    approval_id: str,
    step_key: str,
    digest: str,
    generation: int,
) -> RecordedApproval:
    question = ApprovalRequested(
        approval_id,
        step_key,
        digest,
        expires_at=execution.latest_us() + call.terms.approval_lifetime_us,
        generation=generation,
        tool=call.name,
        args=call.args,
    )
    execution.note(question)
    return execution.history.approvals[approval_id]


def _derive_approval_id(
    execution: ExecutionContext, step_key: str, digest: str, generation: int, nth: int
) -> str:
    """Derives the approval's id. The arguments are part of it: code that changes before the decision requests another
    approval."""
    owner = execution.owner
    place = "\0".join((owner.namespace, owner.job_id, step_key, digest, str(generation), str(nth)))
    return "apr_" + hashlib.sha256(place.encode("utf-8", "surrogatepass")).hexdigest()[:26]


def _describe_denial(tool: str, approval: RecordedApproval) -> str:
    if approval.decision == EXPIRED:
        return f"the approval of {tool} expired"
    return f"{tool} was denied by {approval.by or 'a person'}: {approval.why or 'no reason given'}"
