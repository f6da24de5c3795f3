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
    intent_at: int = 0
    seq: int | None = None
    at: int = 0
    """Job time of the outcome at `seq`: when the code gets it."""
    cancelled_seq: int | None = None
    cancelled_at: int = 0
    was_cancelled: bool = False
    """It was given up once, and that was void."""
    status: CallStatus | None = None
    result: Any = None
    error: Any = None
    raised: Any = None
    """What its last attempt raised, if that did not settle it. For people: recovery does not depend on it."""
    due_at: int | None = None
    attempt: int = 1
    failed_attempts: int = 0
    """How many of them raised or took too long, since a person last had the job tried again."""
    sent_nothing: bool = False
    """The last attempt failed before anything was sent."""
    quiet_at: int = 0
    """The last attempt ended here, without an answer: from then on its receiver can be asked."""
    probes_failed: int = 0
    retry_at: int = 0
    """The next attempt is not before this."""
    first_start_by: int | None = None
    start_by: int | None = None
    longest_call_us: int | None = None
    child_job_id: str | None = None
    approval_id: str | None = None
    worker: str = ""
    moved_to: str | None = None
    """The step key under which the code makes this call now, if it adopted the record under another one."""
    retired: bool = False
    accepted: bool = False
    final: bool = False
    """Its outcome is somebody's last word: the call is not made again because of it."""
    before: Recorded | None = None
    """The same key's record before this one: made with other arguments, or given up for a new one."""

    def begin_attempt(self) -> None:
        """Another attempt is intended: what is known of how the last one ended says nothing about it."""
        self.sent_nothing, self.quiet_at = False, 0

    @property
    def unclaimed_key(self) -> str:
        return self.step_key if self.generation == 0 else f"{self.step_key}@{self.generation}"

    @property
    def begun_seq(self) -> int:
        """Place of the first fact that tells of this call."""
        return self.intent_seq or self.seq or self.cancelled_seq or 0

    @property
    def begun_at(self) -> int:
        """Job time at which the code had certainly made this call."""
        return self.intent_at or self.at or self.cancelled_at

    @property
    def settled(self) -> bool:
        return self.seq is not None or self.cancelled_seq is not None

    @property
    def told(self) -> dict[str, str]:
        return {"step_key": self.step_key, "name": self.name, "args_digest": self.args_digest}
