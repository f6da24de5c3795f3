"""Journal reader: reads a job's head and its journal, in one query if the journal is short: most are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.model.hash_chain import SealedEvent
from holdfast.model.jobs import JobHead
from holdfast.store.contract import Store

SHORT: Final = 16
"""The number of events that a store reads without leaving the event loop."""


async def load_job(store: Store, job_id: str) -> tuple[JobHead, Sequence[SealedEvent]]:
    """The head, and all events of the job; or NotFound."""
    head, sealed = await store.jobs.read_with_events(job_id, events=SHORT)
    return head, await journal_of(store, head, sealed)


async def journal_of(store: Store, head: JobHead, sealed: Sequence[SealedEvent]) -> Sequence[SealedEvent]:
    """All events of the job, of which these are the first; events written since the head was read may be included."""
    return sealed if len(sealed) >= head.head_seq else await store.journal.read(head.job_id)
