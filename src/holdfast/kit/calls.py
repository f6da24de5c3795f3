"""Calls of the kit's ledger: their identity and their events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.kit.packing import INLINE_MAX
from holdfast.kit.tasks import digest_text, task_job
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.ledger import CallRow, idempotency_key
from holdfast.model.side_effects import Effect, ProbeAnswer

Probe = Callable[[str], ProbeAnswer | str | bool]
"""Checks by the idempotency key whether a call happened: `happened`, `not_happened`, `cannot_tell`, or simply True and
False."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call, and the job whose journal records it."""

    job_id: str
    step_key: str
    tool: str
    command: Any
    digest: str
    effect: Effect
    task_id: str | None

    def key(self, generation: int) -> str:
        return idempotency_key(DEFAULT_NAMESPACE, self.job_id, self.step_key, generation)


def call_of(tool: str, command: Any, task_id: str | None, work_item_id: str | None, effect: Effect) -> Call:
    """The call. The same tool, command and work item of the same task is the same call."""
    check_name(tool, "tool name")
    digest = canonical.hex_digest(canonical.encode([tool, command, work_item_id], bytes_max=INLINE_MAX * 2))
    name = tool if len(tool) <= 80 else digest_text(tool)
    return Call(
        job_id=get_shared_task(digest[0]) if task_id is None else task_job(task_id),
        step_key=f"{name}#{digest[:40]}",
        tool=tool,
        command=command,
        digest=digest,
        effect=effect,
        task_id=task_id,
    )


DIGITS: Final = "0123456789abcdef"


def get_shared_task(digit: str) -> str:
    """The journal of calls without a task: one of sixteen, so that writes of different calls rarely conflict."""
    return f"kit-ledger:{digit}"


def ask_probe(probe: Probe, key: str) -> ProbeAnswer:
    """The answer of the probe; a probe that fails cannot tell."""
    try:
        answer = probe(key)
    except Exception:
        return ProbeAnswer.CANNOT_TELL
    if isinstance(answer, bool):
        return ProbeAnswer.HAPPENED if answer else ProbeAnswer.NOT_HAPPENED
    return ProbeAnswer(answer)


def render_value(value: Any, *, replayed: bool) -> dict[str, Any]:
    return (
        {**value, "replayed": replayed}
        if isinstance(value, dict)
        else {"result": value, "replayed": replayed}
    )


def unstorable(call: Call, packed: dict[str, Any]) -> InvalidPayload:
    msg = f"{call.tool} was called, but its {packed['unstorable']} cannot be kept: {packed['why']}"
    return InvalidPayload(msg, hint="Return JSON or bytes from execute_fn. The call is not made again.")


def describe_call(row: CallRow) -> dict[str, Any]:
    return {
        "tool_name": row.tool_name,
        "status": str(row.status),
        "effect": str(row.side_effect_class),
        "idempotency_key": row.idempotency_key,
        "generation": row.generation,
        "attempt": row.attempt,
        "prepared_at": row.prepared_at,
        "settled_at": row.settled_at,
    }
