"""Everything the ports can show of a store, and what came of asking."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

from holdfast.errors import HoldfastError, StoreCorrupt
from holdfast.model.hash_chain import find_break, unseal
from holdfast.model.inbox import Boundary
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.limits import INSTANT_US_MAX
from holdfast.model.time import MINUTE
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.tables.store import SqlStore

T = TypeVar("T")


class Reader:
    """Asks for everything. An error is noted and the rest is asked; errors that are not ours are noted apart."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.noticed: list[HoldfastError] = []
        self.strange: list[str] = []

    async def ask(self, question: Awaitable[T]) -> T | None:
        try:
            return await question
        except HoldfastError as error:
            self.noticed.append(error)
        except Exception as error:  # whatever it is, the test is about it
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.strange.append(f"{error!r} in {place.name}, {Path(place.filename).name}:{place.lineno}")
        return None

    async def read_everything(self) -> None:
        store = self._store
        await self.ask(store.info())
        await self.ask(store.namespaces.list())
        await self.ask(store.ledger.counts("default"))
        await self.ask(store.attachments.list_uncommitted(INSTANT_US_MAX))
        await self.ask(store.leases.list_expired())
        for session_id in ("talk", "busy"):
            await self.ask(store.sessions.load(session_id))
            await self.ask(store.sessions.meta(session_id))
            await self.ask(store.inbox.list(session_id))
            await self.ask(store.inbox.list_pending(session_id))
        for record in await self.ask(store.jobs.list(JobFilter(), limit=1000)) or ():
            await self.ask(store.jobs.get(record.job_id))
            await self.ask(store.jobs.head(record.job_id))
            await self.ask(store.post.read(record.job_id))
            await self.ask(store.post.timers(record.job_id))
            await self.ask(store.ledger.list(record.job_id))
            await self.ask(self._journal(record.job_id))

    async def _journal(self, job_id: str) -> None:
        events = await self._store.journal.read(job_id)
        broken = find_break(job_id, events)
        if broken is not None:
            raise StoreCorrupt(f"the chain of {job_id} breaks at {broken}")
        for event in events:
            unseal(event)

    async def write_something(self) -> None:
        store = self._store
        await self.ask(store.jobs.submit(JobDraft(kind="new")))
        queues = ("default", "one", "many", "tools", "children", "answers")
        await self.ask(store.leases.claim(ClaimRequest(worker="w", token="new", queues=queues, limit=50)))
        await self.ask(
            store.inbox.claim("talk", "w", Boundary.IDLE, ttl_us=MINUTE, max_batches=3, token="new")
        )
        await self.ask(store.sessions.gc())
