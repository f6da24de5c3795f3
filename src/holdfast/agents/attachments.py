"""Attachments: files in a conversation, with an intent before their bytes are stored, stamped by the turn that uses
them.

    page = await session.attach(Path("page.png").read_bytes(), media_type="image/png")
    answer = await session.send([page, {"type": "text", "text": "What is on it?"}])

A message holds the id of a file and not its bytes, so a picture that a hundred turns refer to is stored once. The
model gets the bytes. An attachment with an intent that no turn uses can be found and collected.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, Final

from holdfast.agents.models.messages import Message
from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model import canonical, redaction
from holdfast.store.contract import Store
from holdfast.store.ports.attachments import AttachmentIntent

ATTACHMENT: Final = "attachment"
BYTES_MAX: Final = 32 * 1024 * 1024
_BY_CONTENT: Final = "sha256:"


async def attach(store: Store, session_id: str, data: Any, media_type: str, *, now: int) -> dict[str, Any]:
    """Stores the bytes for this session, with secrets redacted; returns the message block that names them."""
    if not isinstance(data, bytes):
        msg = f"an attachment is bytes, not {type(data).__name__}"
        raise InvalidPayload(msg, hint="Read the file: Path(…).read_bytes().")
    if len(data) > BYTES_MAX:
        msg = f"an attachment of {len(data):,} bytes; the limit is {BYTES_MAX:,}"
        raise TooLarge(msg, hint="Keep it elsewhere, and send its address.")
    data = redaction.get_redactor().data(data)
    digest = canonical.hex_digest(data)
    attachment_id = f"{session_id}/{digest[:32]}"
    intent = AttachmentIntent(attachment_id, session_id, f"{_BY_CONTENT}{digest}", now)
    await store.attachments.record_intent(intent)
    await store.blobs.put(data)
    return {
        "type": ATTACHMENT,
        "attachment_id": attachment_id,
        "media_type": media_type,
        "sha256": digest,
        "size": len(data),
    }


def find_attachments(messages: Iterable[Message]) -> list[str]:
    """The ids of the attachments that these messages name, each once."""
    ids = [block["attachment_id"] for message in messages for block in _blocks(message)]
    return list(dict.fromkeys(ids))


def _blocks(message: Message) -> list[Any]:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == ATTACHMENT]


async def inline_attachments(store: Store, namespace: str, messages: list[Message]) -> list[Message]:
    """The messages for the model: attachment blocks replaced by their bytes."""
    return [
        message if not _blocks(message) else {**message, "content": await _content(store, namespace, message)}
        for message in messages
    ]


async def _content(store: Store, namespace: str, message: Message) -> list[Any]:
    blocks = []
    for block in message["content"]:
        if isinstance(block, dict) and block.get("type") == ATTACHMENT:
            data = await store.blobs.get(block["sha256"], namespace=namespace)
            blocks.append(_as_block(block["media_type"], data))
        else:
            blocks.append(block)
    return blocks


def _as_block(media_type: str, data: bytes) -> dict[str, Any]:
    if media_type.startswith("text/"):
        return {"type": "text", "text": data.decode("utf-8", "replace")}
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    if media_type.startswith("image/"):
        return {"type": "image", "source": source}
    if media_type == "application/pdf":
        return {"type": "document", "source": source}
    return {
        "type": "text",
        "text": f"(a file of type {media_type}, {len(data):,} bytes, that you cannot read)",
    }
