"""Memory store: every port over one set of tables. Its content is lost with the process."""

from __future__ import annotations

from holdfast.model.ids import IdSource
from holdfast.store.clock import Clock
from holdfast.store.contract import StoreInfo, Tier
from holdfast.store.memory.agent_entries import MemoryEntries
from holdfast.store.memory.api_keys import MemoryKeys
from holdfast.store.memory.attachments import MemoryAttachments
from holdfast.store.memory.audit import MemoryAudit
from holdfast.store.memory.blobs import MemoryBlobs
from holdfast.store.memory.budgets import MemoryBudgets
from holdfast.store.memory.cache import MemoryCache
from holdfast.store.memory.configured_agents import MemoryAgents
from holdfast.store.memory.inbox import MemoryInbox
from holdfast.store.memory.jobs import MemoryJobs
from holdfast.store.memory.journal import MemoryJournal
from holdfast.store.memory.leases import MemoryLeases
from holdfast.store.memory.ledger import MemoryLedger
from holdfast.store.memory.mailbox import MemoryMailbox
from holdfast.store.memory.metadata import MemoryMetadata
from holdfast.store.memory.namespaces import MemoryNamespaces
from holdfast.store.memory.queue_limits import MemoryQueues
from holdfast.store.memory.retention import MemoryRetention
from holdfast.store.memory.schedules import MemorySchedules
from holdfast.store.memory.sessions import MemorySessions
from holdfast.store.memory.state import MemoryState
from holdfast.store.memory.store_stats import MemoryStoreStats
from holdfast.store.memory.streams import MemoryStreams
from holdfast.store.memory.wakeups import MemoryWakeups
from holdfast.store.memory.work_items import MemoryWork
from holdfast.store.memory.worker_presences import MemoryPresences
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
from holdfast.store.store_clock import HostStoreClock, StoreClock


class MemoryStore:
    """A store for one event loop of one process. No method awaits before its work is done, so a cancelled call cannot
    leave a half of it."""

    def __init__(self, clock: Clock, ids: IdSource, epoch: int = 1) -> None:
        wakeups = MemoryWakeups()
        state = MemoryState(HostStoreClock(clock), ids, epoch, wakeups.hint)
        self.tier = Tier.MEMORY
        self.clock: StoreClock = state.clock
        self.jobs: Jobs = MemoryJobs(state)
        self.journal: Journal = MemoryJournal(state)
        self.leases: Leases = MemoryLeases(state)
        self.ledger: Ledger = MemoryLedger(state)
        self.post: Mailbox = MemoryMailbox(state)
        self.sessions: Sessions = MemorySessions(state)
        self.inbox: Inbox = MemoryInbox(state)
        self.attachments: Attachments = MemoryAttachments(state)
        self.blobs: Blobs = MemoryBlobs(state)
        self.cache: ResponseCache = MemoryCache(state)
        self.metadata: Metadata = MemoryMetadata(state)
        self.namespaces: Namespaces = MemoryNamespaces(state)
        self.retention: Retention = MemoryRetention(state)
        self.streams: Streams = MemoryStreams(state)
        self.budgets: Budgets = MemoryBudgets(state)
        self.agents: ConfiguredAgents = MemoryAgents(state)
        self.schedules: Schedules = MemorySchedules(state)
        self.queues: Queues = MemoryQueues(state)
        self.keys: ApiKeys = MemoryKeys(state)
        self.audit: Audit = MemoryAudit(state)
        self.vitals: StoreStatsReader = MemoryStoreStats(state)
        self.presences: WorkerPresences = MemoryPresences(state)
        self.work: WorkItemStore = MemoryWork(state)
        self.entries: AgentEntries = MemoryEntries(state)
        self.wakeups: Wakeups = wakeups
        self._release = wakeups.release
        self._info = StoreInfo(
            tier=Tier.MEMORY,
            address="memory:",
            store_id=ids.new("store"),
            epoch=epoch,
            schema_version=0,
            details={},
        )

    async def info(self) -> StoreInfo:
        return self._info

    async def close(self) -> None:
        self._release()
