"""Store interceptor: passes every call of a store through one function, to observe it, to inject faults, or to crash at
a named point."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from holdfast.store.contract import Store, StoreInfo
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

Call = Callable[..., Awaitable[Any]]
Around = Callable[[str, Call, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
"""The interceptor. It gets the name of a call (`journal.append`), the method, and its arguments."""


class _Port:
    """One port of a store; passes each of its calls through `around`."""

    def __init__(self, port: Any, name: str, around: Around) -> None:
        self._port = port
        self._name = name
        self._around = around

    is_near = False
    """False, so that group commit does not use `append_now`, which is no coroutine and would bypass `around`."""

    def __getattr__(self, method_name: str) -> Any:
        method = getattr(self._port, method_name)
        if not inspect.iscoroutinefunction(method):
            return method
        name, around = f"{self._name}.{method_name}", self._around

        async def call_around(*args: Any, **options: Any) -> Any:
            return await around(name, method, args, options)

        self.__dict__[method_name] = call_around
        return call_around


class InterceptedStore:
    """A store whose calls all pass through one function."""

    def __init__(self, store: Store, around: Around) -> None:
        self.inner = store
        self.tier = store.tier
        self.clock = store.clock
        self.jobs = cast("Jobs", _Port(store.jobs, "jobs", around))
        self.journal = cast("Journal", _Port(store.journal, "journal", around))
        self.leases = cast("Leases", _Port(store.leases, "leases", around))
        self.ledger = cast("Ledger", _Port(store.ledger, "ledger", around))
        self.post = cast("Mailbox", _Port(store.post, "post", around))
        self.sessions = cast("Sessions", _Port(store.sessions, "sessions", around))
        self.inbox = cast("Inbox", _Port(store.inbox, "inbox", around))
        self.attachments = cast("Attachments", _Port(store.attachments, "attachments", around))
        self.blobs = cast("Blobs", _Port(store.blobs, "blobs", around))
        self.namespaces = cast("Namespaces", _Port(store.namespaces, "namespaces", around))
        self.wakeups = cast("Wakeups", _Port(store.wakeups, "wakeups", around))
        self.cache = cast("ResponseCache", _Port(store.cache, "cache", around))
        self.metadata = cast("Metadata", _Port(store.metadata, "metadata", around))
        self.retention = cast("Retention", _Port(store.retention, "retention", around))
        self.streams = cast("Streams", _Port(store.streams, "streams", around))
        self.budgets = cast("Budgets", _Port(store.budgets, "budgets", around))
        self.agents = cast("ConfiguredAgents", _Port(store.agents, "agents", around))
        self.schedules = cast("Schedules", _Port(store.schedules, "schedules", around))
        self.queues = cast("Queues", _Port(store.queues, "queues", around))
        self.keys = cast("ApiKeys", _Port(store.keys, "keys", around))
        self.audit = cast("Audit", _Port(store.audit, "audit", around))
        self.vitals = cast("StoreStatsReader", _Port(store.vitals, "vitals", around))
        self.presences = cast("WorkerPresences", _Port(store.presences, "presences", around))
        self.work = cast("WorkItemStore", _Port(store.work, "work", around))
        self.entries = cast("AgentEntries", _Port(store.entries, "entries", around))

    async def info(self) -> StoreInfo:
        return await self.inner.info()

    async def close(self) -> None:
        await self.inner.close()
