"""Mailbox: messages to a job from senders other than its holder. A message is a durable row, never a write into the
journal."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.limits import LETTER_BYTES_MAX, LETTER_DEPTH_MAX
from holdfast.model.states import MailKind


class MailDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A message to a job. `operation_id` is the sender's: two with the same id are one message."""

    job_id: str
    kind: MailKind
    operation_id: str
    name: str = ""
    body: Any = None
    sender: str = ""


class Mail(msgspec.Struct, frozen=True):
    """A delivered message, numbered per job from 1 without gaps."""

    job_id: str
    mail_seq: int
    kind: MailKind
    name: str
    body: Any
    sender: str
    operation_id: str
    sent_at: int


class MailReceipt(msgspec.Struct, frozen=True):
    """The number of the message. `accepted` is False if the job has ended: no worker will read it, and nothing was
    stored."""

    mail_seq: int
    accepted: bool
    woke: bool = False
    repeated: bool = False


def check_mail(draft: MailDraft) -> MailDraft:
    """Return the draft, or raise an error that says what to change. A message that cannot become an event must not
    reach the job: it would fail at every attempt."""
    check_name(draft.operation_id, "operation id")
    for label, text in (("name", draft.name), ("sender", draft.sender)):
        if text:
            check_name(text, f"letter's {label}")
    canonical.encode(draft.body, bytes_max=LETTER_BYTES_MAX, depth_max=LETTER_DEPTH_MAX)
    return draft
