"""`Idempotency-Key`: the caller's own id for one request, which can then be sent any number of times.

The server keeps no state for it. The key becomes what the store already keeps permanently: the request key of a job,
the operation id of a command, the source key of a batch. So any process recognises a repeat, after any crash, for as
long as the record that it made exists.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import InvalidPayload, KeyReused
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.inbox import BatchDraft, InboxBatch

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = {"Idempotency-Replayed": "true"}
"""Marks a response as the first one again: nothing was written now."""


def key_of(header: str | None, in_body: str | None = None, *, field_name: str = "operation_id") -> str | None:
    """The key of this request, from its header or its body; both, if they are equal."""
    key = None if header is None else check_name(header, HEADER)
    if key is not None and in_body is not None and key != in_body:
        msg = f"the {HEADER} and {field_name} differ"
        raise InvalidPayload(
            msg, hint=f"Send one of them, or the same in both: the {HEADER} is the {field_name}."
        )
    return in_body if key is None else key


def must_be_same(stored: InboxBatch, draft: BatchDraft) -> None:
    """Checks that the batch found by a source key is the one that was sent. The items of a settled batch are gone,
    and not compared."""
    was, now = (_digest(stored, with_items=bool(stored.items)), _digest(draft, with_items=bool(stored.items)))
    if was != now:
        msg = f"source key {draft.source_key!r} was used for another batch"
        raise KeyReused(msg, stored=was, sent=now)


def _digest(batch: InboxBatch | BatchDraft, *, with_items: bool) -> str:
    items = [[item.kind, item.payload] for item in batch.items] if with_items else []
    return canonical.hex_digest(
        canonical.encode([batch.delivery, batch.slot, batch.merge_key, batch.available_at, items])
    )
