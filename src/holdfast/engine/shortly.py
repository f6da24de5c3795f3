"""A journal whose head was read before, without a change of thread if it is short: most are."""

from __future__ import annotations

from typing import Final

from holdfast.model.chain import SealedEvent
from holdfast.model.jobs import JobHead
from holdfast.store.contract import Store

SHORT: Final = 16
"""As many events as a store reads without leaving the event loop."""


async def journal_of(store: Store, head: JobHead) -> list[SealedEvent]:
    """All its events; what was written since the head was read is there as well."""
    if head.head_seq < SHORT:
        sealed = await store.journal.read(head.job_id, limit=SHORT)
        if len(sealed) < SHORT:
            return sealed
    return await store.journal.read(head.job_id)
