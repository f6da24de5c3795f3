"""Attachments: a write-ahead manifest of bytes that are stored elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE


class AttachmentIntent(msgspec.Struct, frozen=True):
    """The announcement of an attachment: written before its bytes, stamped by the turn that uses them."""

    attachment_id: str
    session_id: str
    uri: str
    intent_at: int
    committed_at: int | None = None


def check_intent(intent: AttachmentIntent) -> AttachmentIntent:
    """Return the intent, or raise an error that says what to change."""
    check_name(intent.attachment_id, "attachment id")
    check_name(intent.session_id, "session id")
    check_name(intent.uri, "attachment's address")
    return intent


class Attachments(Protocol):
    async def record_intent(self, intent: AttachmentIntent, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Record the intent. Recording the same id again keeps the first one."""
        ...

    async def commit_refs(
        self, session_id: str, attachment_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """Stamp the intents as committed, outside of a turn. The first stamp wins; unknown ids are ignored."""
        ...

    async def list(
        self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        """The intents of this session, oldest first."""
        ...

    async def list_uncommitted(
        self, before: int, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        """Intents recorded before this instant that no turn has stamped, oldest first."""
        ...

    async def forget(self, attachment_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Remove the row; call it after the bytes are removed."""
        ...
