"""Mailbox and timers in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from holdfast.model.append import Timer
from holdfast.model.mailbox import Mail, MailDraft, MailReceipt, check_mail
from holdfast.model.states import TERMINAL, Status, wakes
from holdfast.store.memory.blobs import keep_large
from holdfast.store.memory.jobs import put_head
from holdfast.store.memory.state import MemoryState, MemoryTransaction, find_job, pack_struct, unpack_struct


class MemoryMailbox:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def send(self, draft: MailDraft) -> MailReceipt:
        with self._state.transaction() as work:
            return send(work, draft)

    async def read(self, job_id: str, *, after: int = 0) -> list[Mail]:
        job = self._state.tables.jobs.get(job_id)
        letters = () if job is None else job.letters
        return [unpack_struct(letter, "body") for letter in letters if letter.mail_seq > after]

    async def timers(self, job_id: str) -> list[Timer]:
        job = self._state.tables.jobs.get(job_id)
        open_timers = {} if job is None else job.timers
        by_due = sorted((due_at, step_key) for step_key, due_at in open_timers.items())
        return [Timer(step_key, due_at) for due_at, step_key in by_due]


def send(work: MemoryTransaction, draft: MailDraft) -> MailReceipt:
    """Store the letter, unless the job has ended or already has it; wake a job that waits for such mail."""
    check_mail(draft)
    job = find_job(work.tables, draft.job_id)
    head = job.head
    for letter in job.letters:
        if letter.operation_id == draft.operation_id:
            return MailReceipt(letter.mail_seq, accepted=True, repeated=True)
    if head.status in TERMINAL:
        return MailReceipt(head.mail_seq, accepted=False)
    letter = pack_struct(
        Mail(
            job_id=draft.job_id,
            mail_seq=head.mail_seq + 1,
            kind=draft.kind,
            name=draft.name,
            body=draft.body,
            sender=draft.sender,
            operation_id=draft.operation_id,
            sent_at=work.wall,
        ),
        "body",
    )
    keep_large(work, head.namespace, letter.body)
    work.tables.jobs[draft.job_id] = dataclasses.replace(job, letters=(*job.letters, letter))
    head = msgspec.structs.replace(head, mail_seq=letter.mail_seq)
    woke = head.status is Status.WAITING and wakes(head.wait_reason, draft.kind)
    if woke:
        head = msgspec.structs.replace(
            head, status=Status.PENDING, wait_reason=None, wake_at=None, ready_at=work.wall
        )
    put_head(work, head)
    work.hint(f"job:{draft.job_id}")
    return MailReceipt(letter.mail_seq, accepted=True, woke=woke)


def set_timers(work: MemoryTransaction, job_id: str, timers: Sequence[Timer]) -> None:
    """Set the timers; remove those that are due at None."""
    job = work.tables.jobs[job_id]
    open_timers = dict(job.timers)
    for timer in timers:
        if timer.due_at is None:
            open_timers.pop(timer.step_key, None)
        else:
            open_timers[timer.step_key] = timer.due_at
    work.tables.jobs[job_id] = dataclasses.replace(job, timers=open_timers)


def clear_timers(work: MemoryTransaction, job_id: str) -> None:
    work.tables.jobs[job_id] = dataclasses.replace(work.tables.jobs[job_id], timers={})
