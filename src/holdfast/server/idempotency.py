"""`Idempotency-Key`: the caller's name for one request, which then can be sent any number of times.

Nothing is remembered here. The key becomes what the store already keeps for good: the request key of a job, the
operation id of a word to a job, the source key of a batch. So a repeat is recognised by any process, after any crash,
and for as long as what it made is there.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import InvalidPayload, KeyReused
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.inbox import BatchDraft, InboxBatch

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = {"Idempotency-Replayed": "true"}
"""Says that this is the first answer again, and that nothing was written now."""


def key_of(header: str | None, in_body: str | None = None, *, named: str = "operation_id") -> str | None:
    """The key of this request, from its header or its body; both, if they say the same."""
    key = None if header is None else check_name(header, HEADER)
    if key is not None and in_body is not None and key != in_body:
        msg = f"the {HEADER} and {named} differ"
        raise InvalidPayload(msg, hint=f"Send one of them, or the same in both: the {HEADER} is the {named}.")
    return in_body if key is None else key


def must_be_same(stored: InboxBatch, sent: BatchDraft) -> None:
    """The batch that a source key found is the one that was sent. Of a settled one the items are gone, and not
    compared."""
    was, now = (_digest(stored, with_items=bool(stored.items)), _digest(sent, with_items=bool(stored.items)))
    if was != now:
        msg = f"source key {sent.source_key!r} was used for another batch"
        raise KeyReused(msg, stored=was, sent=now)


def _digest(batch: InboxBatch | BatchDraft, *, with_items: bool) -> str:
    items = [[item.kind, item.payload] for item in batch.items] if with_items else []
    return canonical.hex_digest(
        canonical.encode([batch.delivery, batch.slot, batch.merge_key, batch.available_at, items])
    )
