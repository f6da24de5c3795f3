"""ApiContext: what the handler of an operation works with: the store, the namespace, and the caller.

A command to a job (cancel, signal, reconcile, approve, resume) takes one of two paths. If no worker has the job and
no code of it has to run, a short hold writes the event at once, with the operation id in it. Otherwise it goes into
the job's mailbox, which keeps the id. Either way the id is looked up before anything is decided, so a repeated
command gets the first outcome and is not judged a second time.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from holdfast.api import command_checks
from holdfast.api.job_records import Accepted
from holdfast.api.job_snapshot import Loaded, make_snapshot
from holdfast.engine.external_work import ExternalWork
from holdfast.engine.journal_reader import SHORT, journal_of
from holdfast.errors import NotFound
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ids import IdSource, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobFilter, JobHead, JobRecord
from holdfast.model.limits import ROWS_PER_PAGE_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.registry.registry import Registry
from holdfast.registry.store_registry import StoreEntries
from holdfast.store.clock import Clock
from holdfast.store.contract import Store


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request over the network, and the id of the request."""

    name: str
    request_id: str


@dataclass(kw_only=True)
class ApiContext:
    """`chance` spreads retries; `notify_ready` is called with the capabilities that new work needs. Without a
    `caller` the request comes from this process."""

    store: Store
    clock: Clock
    ids: IdSource
    namespace: str = DEFAULT_NAMESPACE
    caller: Caller | None = None
    chance: Callable[[], float] = random.random
    notify_ready: Callable[[str], None] = field(default=lambda _: None)
    external_registry: Registry | None = None
    """The registry of external agents, if it is not in the store."""

    @property
    def registry(self) -> Registry:
        if self.external_registry is None:
            self.external_registry = Registry(StoreEntries(self.store, self.namespace), self.clock.wall_us)
        return self.external_registry

    @property
    def external_work(self) -> ExternalWork:
        return ExternalWork(self.store, self.clock, self.chance)

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def head(self, job_id: str) -> JobHead:
        """The head of a job of this namespace, or NotFound."""
        return self._check_namespace(await self.store.jobs.head(check_name(job_id, "job id")))

    async def look(self, job_id: str) -> tuple[JobHead, Sequence[SealedEvent]]:
        """The head, and the journal if it is short; else its first page."""
        head, sealed = await self.store.jobs.read_with_events(check_name(job_id, "job id"), events=SHORT)
        return self._check_namespace(head), sealed

    async def load(self, job_id: str) -> Loaded:
        """The job with its journal and its mail."""
        return await self.load_behind(*await self.look(job_id))

    async def load_behind(self, head: JobHead, sealed: Sequence[SealedEvent]) -> Loaded:
        """The same, when the beginning of the journal has been read."""
        sealed = await journal_of(self.store, head, sealed)
        received = await self.store.post.read(head.job_id) if head.mail_seq else ()
        job = make_snapshot(head, sealed, received)
        accounts = await self.store.budgets.find(job.budgets) if job.budgets else ()
        return msgspec.structs.replace(job, accounts=tuple(accounts), now=self.store.clock.wall_us())

    async def jobs(self, job_filter: JobFilter) -> AsyncIterator[JobRecord]:
        """Every job of this namespace that matches."""
        in_namespace = msgspec.structs.replace(job_filter, namespace=self.namespace)
        cursor: str | None = None
        while True:
            page = await self.store.jobs.list(in_namespace, limit=ROWS_PER_PAGE_MAX, cursor=cursor)
            for record in page:
                yield record
            cursor = page.next
            if cursor is None:
                return

    def _check_namespace(self, head: JobHead) -> JobHead:
        if head.namespace != self.namespace:
            msg = f"there is no job {head.job_id!r}"
            raise NotFound(msg)
        return head

    # ── commands ──────────────────────────────────────────────────────────────────────────────────

    def operation_id(self, operation_id: str | None) -> str:
        """The caller's id of this command, or a new one."""
        return self.ids.new("op") if operation_id is None else check_name(operation_id, "operation id")

    async def send(self, job: Loaded, mail: MailDraft, verb: str) -> Accepted:
        """Stores a command in the job's mailbox. The caller has checked all conditions but one: the job may have
        ended by now."""
        receipt = await self.store.post.send(mail)
        if not receipt.accepted:
            raise command_checks.over(await self.head(job.head.job_id), verb)
        return Accepted(
            job_id=mail.job_id,
            operation_id=mail.operation_id,
            at_once=False,
            repeated=receipt.repeated,
        )
