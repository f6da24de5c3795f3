"""Store contract: all ports together, and the durability tier."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from holdfast.store.ports.agent_entries import AgentEntries
    from holdfast.store.ports.api_keys import ApiKeys
    from holdfast.store.ports.attachments import Attachments
    from holdfast.store.ports.audit import Audit
    from holdfast.store.ports.blobs import Blobs
    from holdfast.store.ports.budgets import Budgets
    from holdfast.store.ports.cache import ResponseCache
    from holdfast.store.ports.configured_agents import ConfiguredAgents
    from holdfast.store.ports.inbox import Inbox
    from holdfast.store.ports.jobs import Jobs
    from holdfast.store.ports.journal import Journal
    from holdfast.store.ports.leases import Leases
    from holdfast.store.ports.ledger import Ledger
    from holdfast.store.ports.mailbox import Mailbox
    from holdfast.store.ports.metadata import Metadata
    from holdfast.store.ports.namespaces import Namespaces
    from holdfast.store.ports.queue_limits import Queues
    from holdfast.store.ports.retention import Retention
    from holdfast.store.ports.schedules import Schedules
    from holdfast.store.ports.sessions import Sessions
    from holdfast.store.ports.store_stats import StoreStatsReader
    from holdfast.store.ports.streams import Streams
    from holdfast.store.ports.wakeups import Wakeups
    from holdfast.store.ports.work_items import WorkItemStore
    from holdfast.store.ports.worker_presences import WorkerPresences
    from holdfast.store.store_clock import StoreClock


class Tier(StrEnum):
    """Durability tier: what a store survives. The store declares it and checks it when it opens."""

    MEMORY = "memory"
    SQLITE = "sqlite"
    SQLITE_RELAXED = "sqlite-relaxed"
    POSTGRES = "postgres"
    POSTGRES_REDUCED = "postgres-reduced"

    @property
    def survives_kill(self) -> bool:
        return self is not Tier.MEMORY

    @property
    def survives_power_cut(self) -> bool:
        return self in {Tier.SQLITE, Tier.POSTGRES}


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `holdfast db status` shows."""

    tier: Tier
    address: str
    store_id: str
    epoch: int
    schema_version: int
    min_reader: int = 0
    """Code that knows fewer migrations than this may not open the store."""
    details: dict[str, str]


class Store(Protocol):
    """A store. Open one with `holdfast.runtime.open_store`; close it when done."""

    @property
    def tier(self) -> Tier: ...

    @property
    def clock(self) -> StoreClock:
        """Store time. Compare times that the store has recorded with this clock only."""
        ...

    @property
    def jobs(self) -> Jobs: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def post(self) -> Mailbox: ...

    @property
    def sessions(self) -> Sessions: ...

    @property
    def inbox(self) -> Inbox: ...

    @property
    def attachments(self) -> Attachments: ...

    @property
    def blobs(self) -> Blobs: ...

    @property
    def cache(self) -> ResponseCache: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def namespaces(self) -> Namespaces: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def streams(self) -> Streams: ...

    @property
    def budgets(self) -> Budgets: ...

    @property
    def agents(self) -> ConfiguredAgents: ...

    @property
    def schedules(self) -> Schedules: ...

    @property
    def queues(self) -> Queues: ...

    @property
    def keys(self) -> ApiKeys: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def vitals(self) -> StoreStatsReader: ...

    @property
    def presences(self) -> WorkerPresences: ...

    @property
    def work(self) -> WorkItemStore: ...

    @property
    def entries(self) -> AgentEntries: ...

    @property
    def wakeups(self) -> Wakeups: ...

    async def info(self) -> StoreInfo: ...

    async def close(self) -> None:
        """Close the store: every acknowledged write is durable, and no file or connection is open. A second call does
        nothing."""
        ...
