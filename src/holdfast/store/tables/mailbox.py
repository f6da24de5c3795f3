"""Mailbox and timers over SQL."""

from __future__ import annotations

from holdfast.model import canonical
from holdfast.model.append import Timer
from holdfast.model.mailbox import Mail, MailDraft, MailReceipt, check_mail
from holdfast.model.states import TERMINAL, MailKind, Status, wakes
from holdfast.store.executor import Executor, Transaction
from holdfast.store.tables.job_heads import lock_head
from holdfast.store.tables.payloads import read_json, store_body, to_enum


class SqlMailbox:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def send(self, draft: MailDraft) -> MailReceipt:
        async def work(tx: Transaction) -> MailReceipt:
            return await send_in(tx, draft)

        return await self._executor.write(work)

    async def read(self, job_id: str, *, after: int = 0) -> list[Mail]:
        async def work(tx: Transaction) -> list[Mail]:
            rows = await tx.rows("list_mail", job_id=job_id, after=after)
            return [
                Mail(
                    job_id,
                    seq,
                    to_enum(MailKind, kind),
                    name,
                    read_json(body, f"letter {seq} to job {job_id}"),
                    *columns,
                )
                for seq, kind, name, body, *columns in rows
            ]

        return await self._executor.read(work, brief=True)

    async def timers(self, job_id: str) -> list[Timer]:
        async def work(tx: Transaction) -> list[Timer]:
            return [Timer(*row) for row in await tx.rows("list_timers", job_id=job_id)]

        return await self._executor.read(work, brief=True)


async def send_in(tx: Transaction, draft: MailDraft) -> MailReceipt:
    """Store the letter within this transaction, and wake a job that waits for such mail.

    The head is locked first: a holder that suspends its job at this moment either sees the new `mail_seq` in its own
    condition and is rejected, or has suspended it before and the letter wakes the job here. There is no third order.
    """
    check_mail(draft)
    head = await lock_head(tx, draft.job_id)
    known = await tx.row("find_mail_by_operation", job_id=draft.job_id, operation_id=draft.operation_id)
    if known is not None:
        return MailReceipt(known[0], accepted=True, repeated=True)
    if head.status in TERMINAL:
        return MailReceipt(head.mail_seq, accepted=False)
    woken = head.status is Status.WAITING and wakes(head.wait_reason, draft.kind)
    body = await store_body(tx, head.namespace, canonical.encode(draft.body))
    await tx.run("advance_mail_seq", job_id=draft.job_id, woken=int(woken))
    await tx.run(
        "insert_mail",
        job_id=draft.job_id,
        mail_seq=head.mail_seq + 1,
        kind=draft.kind,
        name=draft.name,
        body=body.inline,
        body_digest=body.digest,
        sender=draft.sender,
        operation_id=draft.operation_id,
    )
    tx.hint(f"job:{draft.job_id}")
    if woken:
        tx.hint(f"queue:{head.queue}")
    return MailReceipt(head.mail_seq + 1, accepted=True, woke=woken)
