"""Mailbox and timers: the inputs of a job from outside."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.append import Timer
from holdfast.model.mailbox import Mail, MailDraft, MailReceipt


class Mailbox(Protocol):
    async def send(self, draft: MailDraft) -> MailReceipt:
        """Store the letter and raise the job's `mail_seq`, in one transaction.

        A waiting job whose wait reason this kind of mail ends becomes pending at once. A job that has ended accepts no
        mail (`accepted=False`). The same operation id again returns the number of the first letter (`repeated=True`).
        Raises NotFound for an unknown job, and TooLarge or InvalidPayload for a body that fits into no event
        (`LETTER_BYTES_MAX`, `LETTER_DEPTH_MAX`), which the job could not read.
        """
        ...

    async def read(self, job_id: str, *, after: int = 0) -> list[Mail]:
        """Letters with a larger number than `after`, in order."""
        ...

    async def timers(self, job_id: str) -> list[Timer]:
        """The job's open timers, earliest first."""
        ...
