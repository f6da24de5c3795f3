"""Tables of the memory store, and transactions on them.

Rows are immutable, and a row is a whole aggregate: a job with its journal, mail and calls; a session with its graph and
inbox. So a copy of the tables is a copy of a few dictionaries, a transaction is a copy that replaces the original, and
the rows that a reader has do not change. JSON is kept as canonical bytes for the same reason (`pack_struct`): a caller
that changes a list that it sent or received does not change the store.

There is no await inside a transaction, so no two of them are ever open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from holdfast.errors import NotFound
from holdfast.model import canonical
from holdfast.model.access import ApiKey
from holdfast.model.agent_registry import StoredEntry
from holdfast.model.audit import SealedAct
from holdfast.model.budget import BudgetAccount
from holdfast.model.configured_agents import HostedAgent
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ids import IdSource
from holdfast.model.inbox import InboxBatch
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobHead, SubmissionRow, WorkItemRow
from holdfast.model.ledger import CallRow
from holdfast.model.mailbox import Mail
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.retention import Tombstone
from holdfast.model.schedule import Schedule
from holdfast.model.session import CommitResult, Frame, SessionCheckpoint, SessionMeta, SessionNode, Usage
from holdfast.model.streams import Passage
from holdfast.model.worker_lease import WorkerLease
from holdfast.model.worker_presence import Presence
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.cache import CachedResponse
from holdfast.store.ports.metadata import MetadataEntry
from holdfast.store.store_clock import HostStoreClock

S = TypeVar("S", bound=msgspec.Struct)

# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """A job, and everything that is stored under its id."""

    head: JobHead
    submission: SubmissionRow
    events: tuple[SealedEvent, ...] = ()
    letters: tuple[Mail, ...] = ()  # body packed
    timers: Mapping[str, int] = field(default_factory=dict)  # step key → due at
    calls: Mapping[tuple[str, int], CallRow] = field(default_factory=dict)  # (step key, generation) → row
    passages: tuple[Passage, ...] = ()
    work: WorkItemRow | None = None


@dataclass(frozen=True, kw_only=True)
class ClaimHold:
    """A claim, as it is stored with each of its batches."""

    claim_id: str
    owner: str
    token: str
    boot: str
    claimed_at: int
    expires_at: int


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """A batch (payloads packed), its claim, and its fence."""

    batch: InboxBatch
    fence: int = 0
    hold: ClaimHold | None = None


@dataclass(frozen=True, kw_only=True)
class TurnRow:
    turn_hash: str
    result: CommitResult


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """A session and its inbox. `revision` 0: there was no commit yet.

    Dictionaries keep the order in which their keys were first added, and that is the order in which nodes, frames and
    batches are returned.
    """

    revision: int = 0
    nodes: Mapping[str, SessionNode] = field(default_factory=dict)  # body packed
    hidden: frozenset[str] = frozenset()
    leaf_node_id: str | None = None
    frames: Mapping[str, Frame] = field(default_factory=dict)  # assignment and options packed
    frame_id: str | None = None
    checkpoint: SessionCheckpoint | None = None  # options packed
    checkpoint_ref: str = ""
    usage: tuple[Usage, ...] = ()
    turns: Mapping[str, TurnRow] = field(default_factory=dict)
    meta: SessionMeta | None = None  # relation packed
    enqueued: int = 0
    batches: Mapping[str, BatchRow] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)  # source key → batch id


@dataclass(frozen=True)
class BlobRow:
    body: bytes
    created_at: int


@dataclass(frozen=True)
class TombRow:
    """A job that was erased or removed."""

    stone: Tombstone
    request_key: str | None
    request_digest: bytes


@dataclass(frozen=True)
class PresenceRow:
    presence: Presence
    started_at: int
    seen_at: int
    drain_asked_at: int | None = None


@dataclass
class Tables:
    """All tables of the store."""

    namespaces: dict[str, int] = field(default_factory=dict)  # name → created at
    jobs: dict[str, JobRow] = field(default_factory=dict)
    requests: dict[tuple[str, str], str] = field(default_factory=dict)  # (namespace, request key) → job id
    keys: dict[str, tuple[str, str, int]] = field(
        default_factory=dict
    )  # idempotency key → job, step, generation
    sessions: dict[tuple[str, str], SessionRow] = field(default_factory=dict)  # (namespace, session id)
    handles: dict[tuple[str, str], str] = field(default_factory=dict)  # (namespace, handle) → session id
    attachments: dict[tuple[str, str], AttachmentIntent] = field(default_factory=dict)  # (namespace, id)
    blobs: dict[tuple[str, str], BlobRow] = field(default_factory=dict)  # (namespace, hex digest)
    cache: dict[tuple[str, bytes], CachedResponse] = field(default_factory=dict)  # (namespace, key)
    metadata: dict[str, MetadataEntry] = field(default_factory=dict)  # key; value packed
    tombs: dict[str, TombRow] = field(default_factory=dict)
    accounts: dict[str, BudgetAccount] = field(default_factory=dict)  # budget id
    agents: dict[tuple[str, str], HostedAgent] = field(default_factory=dict)  # (namespace, agent id)
    schedules: dict[tuple[str, str], Schedule] = field(default_factory=dict)  # (namespace, id); input packed
    limits: dict[tuple[str, str], QueueLimits] = field(default_factory=dict)  # (namespace, queue)
    api_keys: dict[str, ApiKey] = field(default_factory=dict)  # key id
    acts: dict[str, tuple[SealedAct, ...]] = field(default_factory=dict)  # namespace
    presences: dict[str, PresenceRow] = field(default_factory=dict)  # worker
    worker_leases: dict[str, WorkerLease] = field(default_factory=dict)  # worker
    entries: dict[tuple[str, str], StoredEntry] = field(default_factory=dict)  # (namespace, guid)

    def copy(self) -> Tables:
        return Tables(**{name: dict(table) for name, table in vars(self).items()})


# ── transactions ──────────────────────────────────────────────────────────────────────────────────


@dataclass
class MemoryTransaction:
    """One transaction: its own copy of the tables, its instant, and the wake-ups to send once it is committed."""

    tables: Tables
    ids: IdSource
    epoch: int
    wall: int
    tick: int
    boot: str
    topics: list[str] = field(default_factory=list)

    def hint(self, topic: str) -> None:
        self.topics.append(topic)

    def need_namespace(self, namespace: str) -> None:
        if namespace not in self.tables.namespaces:
            raise NotFound(f"there is no namespace {namespace!r}", hint="Create the namespace first.")


class MemoryState:
    """The tables as of the last commit, and the sources of time, ids and epoch."""

    def __init__(self, clock: HostStoreClock, ids: IdSource, epoch: int, hint: Callable[[str], None]) -> None:
        self.clock = clock
        self.ids = ids
        self.epoch = epoch
        self.tables = Tables(namespaces={DEFAULT_NAMESPACE: clock.wall_us()})
        self._hint = hint

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Commit the changes and send the wake-ups at the end of the block; if the block raises, do neither."""
        clock = self.clock
        work = MemoryTransaction(
            self.tables.copy(), self.ids, self.epoch, clock.wall_us(), clock.tick_us(), clock.boot()
        )
        yield work
        self.tables = work.tables
        for topic in work.topics:
            self._hint(topic)

    def job(self, job_id: str) -> JobRow:
        return find_job(self.tables, job_id)


def find_job(tables: Tables, job_id: str) -> JobRow:
    """The job. Raises NotFound."""
    row = tables.jobs.get(job_id)
    if row is None:
        raise NotFound(f"there is no job {job_id!r}")
    return row


# ── JSON inside rows ──────────────────────────────────────────────────────────────────────────────


def pack_struct(struct: S, *fields: str) -> S:
    """Encode these fields as canonical JSON. Raises InvalidPayload for values that cannot be stored as JSON."""
    return msgspec.structs.replace(
        struct, **{name: canonical.encode(getattr(struct, name)) for name in fields}
    )


def unpack_struct(struct: S, *fields: str) -> S:
    """Undo `pack_struct`, with fresh values that the reader may change."""
    return msgspec.structs.replace(
        struct, **{name: canonical.decode(getattr(struct, name)) for name in fields}
    )
