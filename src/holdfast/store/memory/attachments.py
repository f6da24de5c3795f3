"""Attachments in memory: announced bytes, and whether a turn used them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.memory.state import MemoryState, MemoryTransaction
from holdfast.store.ports.attachments import AttachmentIntent, check_intent


class MemoryAttachments:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def record_intent(self, intent: AttachmentIntent, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        check_intent(intent)
        with self._state.transaction() as work:
            work.need_namespace(namespace)
            uncommitted = msgspec.structs.replace(intent, committed_at=None)
            work.tables.attachments.setdefault((namespace, intent.attachment_id), uncommitted)

    async def commit_refs(
        self, session_id: str, attachment_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        with self._state.transaction() as work:
            stamp(work, namespace, attachment_ids)

    async def list(
        self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        found = [
            intent
            for (owner, _), intent in self._state.tables.attachments.items()
            if (owner, intent.session_id) == (namespace, session_id)
        ]
        return sorted(found, key=lambda intent: (intent.intent_at, intent.attachment_id))

    async def list_uncommitted(
        self, before: int, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        found = [
            intent
            for (owner, _), intent in self._state.tables.attachments.items()
            if owner == namespace and intent.committed_at is None and intent.intent_at < before
        ]
        return sorted(found, key=lambda intent: (intent.intent_at, intent.attachment_id))

    async def forget(self, attachment_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        with self._state.transaction() as work:
            work.tables.attachments.pop((namespace, attachment_id), None)


def stamp(work: MemoryTransaction, namespace: str, attachment_ids: Sequence[str]) -> None:
    """Mark the intents with these ids as committed; those that already are keep their first stamp."""
    for attachment_id in attachment_ids:
        place = (namespace, attachment_id)
        intent = work.tables.attachments.get(place)
        if intent is not None and intent.committed_at is None:
            work.tables.attachments[place] = msgspec.structs.replace(intent, committed_at=work.wall)
