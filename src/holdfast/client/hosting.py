"""Agents and workers over an open store.

An agent that is configured is a row of the store. One that code declares is not: what there is of it are the workers
that say they have its code, and the messages that it has taken. Either will do to send it another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.client.records import AgentView, Posted, WorkerView
from holdfast.client.worker_drain import ask_to_drain
from holdfast.errors import NotFound
from holdfast.model import canonical
from holdfast.model.configured_agents import ASSISTANT, Configuration, HostedAgent
from holdfast.model.ids import IdSource, base32, check_name
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import DEFAULT_NAMESPACE, DEFAULT_QUEUE, JobFilter, JobRecord
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT, ROWS_PER_PAGE_MAX
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.worker_identity import short
from holdfast.model.worker_presence import SeenWorker, SessionKind
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

_LOOKED_AT_MAX: Final = 500
"""Jobs that one page of an agent's jobs looks through: of a configured agent only the input of a job says its id."""


class Addressee(msgspec.Struct, frozen=True):
    """Whoever answers a message, as its job says it."""

    name: str
    queue: str
    priority: int
    given: Any


class EmbeddedHosting:
    """See `holdfast.client.hosting_protocol.Hosting`."""

    def __init__(
        self, store: Store, clock: Clock, ids: IdSource, *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._namespace = namespace

    # ── agents ────────────────────────────────────────────────────────────────────────────────────

    async def create_agent(
        self,
        name: str,
        *,
        model: str | None = None,
        instructions: str = "",
        tools: Sequence[str] = (),
        context_tokens_max: int | None = None,
        request_key: str | None = None,
    ) -> AgentView:
        told = Configuration(
            model=model, instructions=instructions, tools=tuple(tools), context_tokens_max=context_tokens_max
        )
        agent = HostedAgent(
            agent_id=self._ids.new("agent") if request_key is None else _id_of(request_key),
            name=name,
            configuration=told,
            namespace=self._namespace,
        )
        return _configured(await self._store.agents.create(agent))

    async def get_agent(self, agent: str) -> AgentView:
        return (await self._agent(agent))[0]

    async def list_agents(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[AgentView]:
        page = await self._store.agents.list(namespace=self._namespace, limit=limit, cursor=cursor)
        after = "" if cursor is None else str(decode_cursor("agents", cursor, keys=1)[0])
        found = {one.name: _configured(one) for one in page}
        # A page that leads on is full, so what is announced behind its last name is cut off and comes later.
        for name in await self._announced():
            if name not in found and name > after:
                found[name] = _declared(name)
        views = [found[name] for name in sorted(found)]
        more = len(views) > limit or page.next is not None
        views = views[:limit]
        return Page(tuple(views), encode_cursor("agents", views[-1].name) if more else None)

    async def message(
        self,
        agent: str,
        content: Any,
        *,
        session_id: str | None = None,
        delivery: Delivery = Delivery.EARLIEST_SAFE_BOUNDARY,
        slot: SlotPolicy = SlotPolicy.JOIN,
        request_key: str | None = None,
        job_id: str | None = None,
    ) -> Posted:
        from holdfast.agents.conversation import bound_to, drafted

        view, addressee = await self._agent(agent)
        session_id = view.session_id if session_id is None else check_name(session_id, "session id")
        batch, job = drafted(addressee, session_id, content, id=request_key, when=delivery.value, slot=slot)
        named = self._ids.new("job") if job_id is None else check_name(job_id, "job id")
        job = msgspec.structs.replace(
            job,
            job_id=named,
            namespace=self._namespace,
            input=bound_to(addressee.given, batch),
            python_version=None,  # that of whoever drives it, not of whoever posts it
        )
        known = await self._is_known(job_id)
        posted = await self._store.inbox.deliver(batch, job)
        return Posted(
            job_id=posted.batch_id,
            session_id=session_id,
            agent_id=view.agent_id,
            repeated=known or posted.batch_id != named,
        )

    async def _is_known(self, job_id: str | None) -> bool:
        if job_id is None:
            return False
        try:
            await self._store.jobs.head(job_id)
        except NotFound:
            return False
        return True

    async def agent_jobs(
        self, agent: str, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[JobRecord]:
        view, _ = await self._agent(agent)
        which = JobFilter(namespace=self._namespace, kind=view.kind)
        if view.declared:
            return await self._store.jobs.list(which, limit=limit, cursor=cursor)
        found: list[JobRecord] = []
        looked_at = 0
        while True:
            page = await self._store.jobs.list(which, limit=limit, cursor=cursor)
            for record in page:
                if await self._is_to(record.job_id, view.agent_id):
                    found.append(record)
                    if len(found) == limit:
                        is_last = page.next is None and record is page.items[-1]
                        return Page(tuple(found), None if is_last else encode_cursor("jobs", record.job_id))
            looked_at += len(page)
            cursor = page.next
            if cursor is None or looked_at >= _LOOKED_AT_MAX:
                return Page(tuple(found), cursor)

    async def _is_to(self, job_id: str, agent_id: str) -> bool:
        first = await self._store.journal.read(job_id, limit=1)
        body = canonical.decode_stored(first[0].body) if first and first[0].body is not None else {}
        given = body.get("input")
        return isinstance(given, dict) and given.get("agent") == agent_id

    # ── who an agent is ───────────────────────────────────────────────────────────────────────────

    async def _agent(self, named: str) -> tuple[AgentView, Addressee]:
        """The agent of this name or id, and how a message reaches it."""
        check_name(named, "agent")
        configured = await self._store.agents.find(named, namespace=self._namespace)
        if configured is None:
            try:
                configured = await self._store.agents.get(named, namespace=self._namespace)
            except NotFound:
                kind = await self._code(named)
                return _declared(named), Addressee(named, kind.queue, kind.priority, None)
        given = {"agent": configured.agent_id}
        return _configured(configured), Addressee(ASSISTANT, DEFAULT_QUEUE, PRIORITY_DEFAULT, given)

    async def _code(self, kind: str) -> SessionKind:
        """Where the jobs of a session that code declares go."""
        announced = await self._announced()
        if kind in announced:
            return announced[kind]
        # No worker that has its code is listed now. One that took a message before will be back.
        newest = await self._store.jobs.list(JobFilter(namespace=self._namespace, kind=kind), limit=1)
        for record in newest:
            if record.session_id is not None and await self._took(record):
                return SessionKind(name=kind, queue=record.queue, priority=record.priority)
        msg = f"there is no agent {kind!r}"
        raise NotFound(
            msg,
            hint="`holdfast agent list` lists them. Agents of an application need a worker: holdfast worker app.py",
        )

    async def _took(self, record: JobRecord) -> bool:
        """Whether the job answers a message."""
        assert record.session_id is not None
        found = await self._store.inbox.find(record.session_id, record.job_id, namespace=self._namespace)
        return found is not None

    async def _announced(self) -> dict[str, SessionKind]:
        """The sessions that listed workers have code for; those of a worker that is heard now count first."""
        found: dict[str, SessionKind] = {}
        for seen in sorted(await self._workers(), key=lambda one: one.seen_at):
            found |= {kind.name: kind for kind in seen.presence.offer.sessions}
        return found

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    async def list_workers(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[WorkerView]:
        page = await self._store.presences.list(limit=limit, cursor=cursor)
        return Page(tuple(map(worker_view, page)), page.next)

    async def drain_worker(
        self, worker: str, *, why: str, by: str, operation_id: str | None = None
    ) -> WorkerView:
        operation_id = self._ids.new("op") if operation_id is None else operation_id
        check_name(by, "by")
        return worker_view(
            await ask_to_drain(self._store, worker, who=by, why=why, operation_id=operation_id)
        )

    async def _workers(self) -> list[SeenWorker]:
        found: list[SeenWorker] = []
        cursor: str | None = None
        while True:
            page = await self._store.presences.list(limit=ROWS_PER_PAGE_MAX, cursor=cursor)
            found += page.items
            cursor = page.next
            if cursor is None:
                return found


def _id_of(request_key: str) -> str:
    """The id of the agent that is created under this key: so the same key for another agent is a conflict."""
    digest = canonical.digest(check_name(request_key, "request key").encode())
    return f"agent_{base32(int.from_bytes(digest[:16]))}"


def _configured(agent: HostedAgent) -> AgentView:
    return AgentView(
        agent_id=agent.agent_id,
        name=agent.name,
        kind=agent.kind,
        session_id=agent.agent_id,
        configuration=agent.configuration,
        created_at=agent.created_at,
    )


def _declared(name: str) -> AgentView:
    return AgentView(agent_id=name, name=name, kind=name, session_id=f"agent:{name}", declared=True)


def worker_view(seen: SeenWorker) -> WorkerView:
    presence, offer = seen.presence, seen.presence.offer
    return WorkerView(
        worker=presence.worker,
        label=short(presence.worker),
        state=seen.state,
        host=presence.host,
        pid=presence.pid,
        identity=presence.identity,
        kinds=offer.kinds,
        sessions=offer.sessions,
        queues=offer.queues,
        capabilities=offer.capabilities,
        concurrency=offer.concurrency,
        holds=seen.holds,
        draining=presence.draining,
        started_at=seen.started_at,
        seen_at=seen.seen_at,
        drains=offer.drains,
        drain_asked_at=seen.drain_asked_at,
    )
