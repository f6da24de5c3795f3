"""SQL store: all tables on one executor."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdfast.model.ids import IdSource
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.contract import StoreInfo, Tier
from holdfast.store.executor import Executor, Transaction
from holdfast.store.ports.wakeups import Wakeups
from holdfast.store.sql.migrate import MIN_READER, SCHEMA_VERSION
from holdfast.store.store_clock import StoreClock
from holdfast.store.tables.agent_entries import SqlEntries
from holdfast.store.tables.api_keys import SqlKeys
from holdfast.store.tables.attachments import SqlAttachments
from holdfast.store.tables.audit import SqlAudit
from holdfast.store.tables.blobs import SqlBlobs
from holdfast.store.tables.budgets import SqlBudgets
from holdfast.store.tables.cache import SqlCache
from holdfast.store.tables.configured_agents import SqlAgents
from holdfast.store.tables.inbox import SqlInbox
from holdfast.store.tables.inspection import SqlInspection
from holdfast.store.tables.jobs import SqlJobs
from holdfast.store.tables.journal import SqlJournal
from holdfast.store.tables.leases import SqlLeases
from holdfast.store.tables.ledger import SqlLedger
from holdfast.store.tables.mailbox import SqlMailbox
from holdfast.store.tables.metadata import SqlMetadata
from holdfast.store.tables.namespaces import SqlNamespaces
from holdfast.store.tables.queue_limits import SqlQueues
from holdfast.store.tables.retention import SqlRetention
from holdfast.store.tables.schedules import SqlSchedules
from holdfast.store.tables.sessions import SqlSessions
from holdfast.store.tables.store_stats import SqlStoreStats
from holdfast.store.tables.streams import SqlStreams
from holdfast.store.tables.work_items import SqlWork
from holdfast.store.tables.worker_presences import SqlPresences

if TYPE_CHECKING:
    from holdfast.store.encryption import Codec


class SqlStore:
    """Implements `holdfast.store.contract.Store` on SQLite or Postgres."""

    def __init__(
        self,
        executor: Executor,
        ids: IdSource,
        wakeups: Wakeups,
        *,
        clock: StoreClock,
        tier: Tier,
        address: str,
        details: dict[str, str],
        close: Callable[[], Awaitable[None]],
        integrity: Callable[[], Awaitable[list[str]]],
        codec: Codec | None = None,
    ) -> None:
        executor = executor if codec is None else codec.wrap_executor(executor)
        self.executor = executor
        self.clock = clock
        self.tier = tier
        self.address = address
        self.jobs = SqlJobs(executor, ids)
        self.journal = SqlJournal(executor)
        self.leases = SqlLeases(executor)
        self.ledger = SqlLedger(executor)
        self.post = SqlMailbox(executor)
        self.sessions = SqlSessions(executor)
        self.inbox = SqlInbox(executor, ids)
        self.attachments = SqlAttachments(executor)
        self.blobs = SqlBlobs(executor)
        self.cache = SqlCache(executor)
        self.metadata = SqlMetadata(executor)
        self.namespaces = SqlNamespaces(executor)
        self.retention = SqlRetention(executor)
        self.streams = SqlStreams(executor)
        self.budgets = SqlBudgets(executor)
        self.agents = SqlAgents(executor)
        self.schedules = SqlSchedules(executor, ids)
        self.queues = SqlQueues(executor)
        self.keys = SqlKeys(executor)
        self.audit = SqlAudit(executor)
        self.vitals = SqlStoreStats(executor)
        self.presences = SqlPresences(executor)
        self.work = SqlWork(executor)
        self.entries = SqlEntries(executor)
        self.inspection = SqlInspection(executor, integrity)
        self.wakeups = wakeups
        self._details = details
        self._close = close
        self._process = os.getpid()

    async def info(self) -> StoreInfo:
        async def work(tx: Transaction) -> tuple[str, int, int]:
            row = await tx.row("get_store_state")
            assert row is not None, "an open store has a state"
            return row[0], row[1], row[2]

        store_id, epoch, min_reader = await self.executor.read(work, brief=True)
        return StoreInfo(
            tier=self.tier,
            address=self.address,
            store_id=store_id,
            epoch=epoch,
            schema_version=SCHEMA_VERSION,
            min_reader=min_reader,
            details=self._details,
        )

    async def close(self) -> None:
        # In a forked child the connections and sockets belong to its parent: closing them here would end the parent's
        # sessions.
        if os.getpid() == self._process:
            await self._close()


async def write_first_rows(executor: Executor, ids: IdSource) -> None:
    """Write the identity, the epoch and the default namespace of a new store; read only, if it has them."""

    async def look(tx: Transaction) -> bool:
        return await tx.row("get_store_state") is not None

    if await executor.read(look, brief=True):
        return
    store_id = ids.new("store")

    async def work(tx: Transaction) -> None:
        await tx.run("create_store_state", store_id=store_id, min_reader=MIN_READER)
        await tx.row("create_namespace", namespace=DEFAULT_NAMESPACE)

    await executor.write(work)
