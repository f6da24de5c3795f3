"""One call as a journal has it: what replay hands back, and what recovery starts from."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model.effects import CallStatus, Effect


class Recorded(msgspec.Struct, gc=False):
    """One call under one step key and generation, as far as the journal knows it."""

    step_key: str
    args_digest: str
    generation: int = 0
    effect: Effect = Effect.READ_ONLY
    name: str = ""
    intent_seq: int | None = None
    seq: int | None = None
    cancelled_seq: int | None = None
    cancelled_by: str = ""
    status: CallStatus | None = None
    result: Any = None
    error: Any = None
    due_at: int | None = None
    attempt: int = 1
    first_start_by: int | None = None
    start_by: int | None = None
    longest_call_us: int | None = None
    child_job_id: str | None = None
    approval_id: str | None = None
    worker: str = ""
    retired: bool = False
    accepted: bool = False
    final: bool = False
    """Its outcome is somebody's last word: the call is not made again because of it."""
    before: Recorded | None = None
    """The same key's record before this one: made with other arguments, or given up for a new one."""

    @property
    def settled(self) -> bool:
        return self.seq is not None or self.cancelled_seq is not None

    @property
    def told(self) -> dict[str, str]:
        return {"step_key": self.step_key, "name": self.name, "args_digest": self.args_digest}
