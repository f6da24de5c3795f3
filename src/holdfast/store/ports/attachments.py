"""Attachments: a write-ahead manifest, and the bytes behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE


class AttachmentIntent(msgspec.Struct, frozen=True):
    """A promise to store bytes: written before the bytes, stamped by the turn that uses them."""

    attachment_id: str
    session_id: str
    uri: str
    intent_at: int
    committed_at: int | None = None


def check_intent(intent: AttachmentIntent) -> AttachmentIntent:
    """The intent, or an error that says what to change."""
    check_name(intent.attachment_id, "attachment id")
    check_name(intent.session_id, "session id")
    check_name(intent.uri, "attachment's address")
    return intent


class Attachments(Protocol):
    async def record_intent(self, intent: AttachmentIntent, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """The intent is durable. Recording the same id again keeps the first."""
        ...

    async def commit_refs(
        self, session_id: str, attachment_ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        """The intents are stamped committed, outside of a turn. The first stamp wins; unknown ids are ignored."""
        ...

    async def list(
        self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        """What was announced for this session, oldest first."""
        ...

    async def list_uncommitted(
        self, before: int, *, namespace: str = DEFAULT_NAMESPACE
    ) -> Sequence[AttachmentIntent]:
        """Intents recorded before this instant that no turn ever used, oldest first."""
        ...

    async def forget(self, attachment_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """The row is gone; call it after the bytes are."""
        ...
