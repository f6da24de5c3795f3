"""Attachments over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.executor import Executor, Transaction
from holdfast.store.ports.attachments import AttachmentIntent, check_intent
from holdfast.store.tables.payloads import need_namespace


class SqlAttachments:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def record_intent(self, intent: AttachmentIntent, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        check_intent(intent)

        async def work(tx: Transaction) -> None:
            await need_namespace(tx, namespace)
            await tx.run(
                "insert_attachment",
                namespace=namespace,
                attachment_id=intent.attachment_id,
                session_id=intent.session_id,
                uri=intent.uri,
                intent_at=intent.intent_at,
            )

        await self._executor.write(work)

    async def commit_refs(
        self, session_id: str, attachment_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        async def work(tx: Transaction) -> None:
            for attachment_id in sorted(set(attachment_ids)):
                await tx.run("commit_attachment", namespace=namespace, attachment_id=attachment_id)

        await self._executor.write(work)

    async def list(
        self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        async def work(tx: Transaction) -> Sequence[AttachmentIntent]:
            rows = await tx.rows("list_attachments", namespace=namespace, session_id=session_id)
            return [AttachmentIntent(*row) for row in rows]

        return await self._executor.read(work)

    async def list_uncommitted(
        self, before: int, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        async def work(tx: Transaction) -> Sequence[AttachmentIntent]:
            rows = await tx.rows("list_uncommitted_attachments", namespace=namespace, before=before)
            return [AttachmentIntent(*row) for row in rows]

        return await self._executor.read(work)

    async def forget(self, attachment_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        async def work(tx: Transaction) -> None:
            await tx.run("remove_attachment", namespace=namespace, attachment_id=attachment_id)

        await self._executor.write(work)
