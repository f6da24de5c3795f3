"""Mail and timers: what reaches a job from outside."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.append import Timer
from holdfast.model.mailbox import Mail, MailDraft, Sent


class Mailbox(Protocol):
    async def send(self, draft: MailDraft) -> Sent:
        """The letter is durable and the job's `mail_seq` counts it, in one transaction.

        A waiting job whose reason this kind of mail ends becomes pending at once. A job that is over accepts nothing
        (`accepted=False`). The same operation id again returns the first letter's place (`repeated=True`). An unknown
        job is NotFound. A body that fits into no event (`LETTER_BYTES_MAX`, `LETTER_DEPTH_MAX`) is TooLarge or
        InvalidPayload: the job could not read it.
        """
        ...

    async def read(self, job_id: str, *, after: int = 0) -> list[Mail]:
        """Letters with a larger number than `after`, in order."""
        ...

    async def timers(self, job_id: str) -> list[Timer]:
        """The job's open timers, earliest first."""
        ...
