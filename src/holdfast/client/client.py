"""Client: every operation of Holdfast as a typed method. The docstrings are the contract.

A method builds the request of one operation (`holdfast.api`) and passes it to a transport: `InProcessTransport`
performs it over an open store, `HttpTransport` sends it to a server. Both return the same results and raise the same
errors.

Every write takes an `operation_id` or a `request_key`. The same one again, with the same content, gets the first
response again and writes nothing (`repeated`); with other content it raises KeyReused. Without one the client makes
one up, so a caller that wants to repeat a call after a lost response passes its own.

A command to a job (cancel, signal, reconcile, approve, resume, a raised budget) is durable when the call returns. If
no worker has the job and no code is needed, it is also applied (`Accepted.at_once`); otherwise the job's next worker
applies it first.

A rejected call writes nothing. Jobs of another namespace are NotFound.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from holdfast.api import (
    agents,
    attention,
    commands,
    external_agents,
    jobs,
    namespaces,
    queues,
    schedules,
    work,
    workers,
)
from holdfast.api.job_records import (
    Accepted,
    AgentView,
    Checked,
    EventView,
    JobView,
    MessageReply,
    Need,
    Posted,
    Stats,
    Trace,
    Walk,
    WorkerView,
)
from holdfast.api.operation import Operation
from holdfast.api.work_records import (
    AgentEntryList,
    AgentEntryView,
    ClaimedWork,
    Deregistered,
    Renewed,
    WorkList,
    WorkView,
)
from holdfast.errors import NotOver
from holdfast.model import budget as money
from holdfast.model.agent_registry import AgentStatus, EntryChanges, Visibility
from holdfast.model.budget import Budget
from holdfast.model.ids import IdSource
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import DEFAULT_QUEUE, JobFilter, JobRecord, SubmittedJob
from holdfast.model.limits import (
    EVENTS_PER_PAGE_MAX,
    PRIORITY_DEFAULT,
    ROWS_PER_PAGE_DEFAULT,
    ROWS_PER_PAGE_MAX,
)
from holdfast.model.page import Page
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.store.ports.namespaces import NamespaceRecord

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R")

SAME: Final = msgspec.UNSET
"""For the input of a fork: the original's."""

WAIT_MS: Final = 20_000
"""How long one request waits for a job to end, before it is sent again."""


class ClientTransport(Protocol):
    """Carries a request to its handler."""

    ids: IdSource

    async def call(self, operation: Operation[Q, R], request: Q) -> R:
        """Perform the operation once."""
        ...

    def stream(
        self, job_id: str, *, after: str | None, stream: str | None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """Follow the streams of a job."""
        ...

    async def close(self) -> None: ...


class Client:
    """See the module's docstring. Close it when done, or use it as an async context manager."""

    def __init__(self, transport: ClientTransport) -> None:
        self._transport = transport

    async def close(self) -> None:
        """Close the transport. A store that was open before stays open."""
        await self._transport.close()

    async def call(self, operation: Operation[Q, R], request: Q) -> R:
        """Perform any operation of `holdfast.api`. A command without an id gets one here, so that a transport may send
        it again after a lost response."""
        if operation.key_field == "operation_id" and getattr(request, "operation_id", None) is None:
            request = msgspec.structs.replace(request, operation_id=self._transport.ids.new("op"))
        return await self._transport.call(operation, request)

    def _job_id(self, job_id: str | None, request_key: str | None) -> str | None:
        """Names a new job before the request is sent, so that the request can be sent again after a lost response."""
        return self._transport.ids.new("job") if (job_id, request_key) == (None, None) else job_id

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 -- the word for it everywhere else
        *,
        job_id: str | None = None,
        request_key: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
        session_id: str | None = None,
        ready_at: int = 0,
    ) -> SubmittedJob:
        """Creates a durable job. Its id or its request key identifies the request: sent again, it is the same job;
        with other content, KeyReused."""
        request = jobs.SubmitJob(
            kind=kind,
            input=input,
            job_id=self._job_id(job_id, request_key),
            request_key=request_key,
            queue=queue,
            priority=priority,
            session_id=session_id,
            ready_at=ready_at,
        )
        return await self.call(jobs.submit_job, request)

    async def get(self, job_id: str) -> JobView:
        """The current state of the job, or NotFound."""
        return await self.call(jobs.get_job, jobs.GetJob(job_id=job_id))

    async def list(
        self,
        which: JobFilter | None = None,
        *,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[JobRecord]:
        """Jobs, newest first. The cursor of one page leads to the next."""
        which = JobFilter() if which is None else which
        statuses = which.statuses or (() if which.status is None else (which.status,))
        if which.statuses and which.status is not None:
            statuses = tuple(status for status in which.statuses if status is which.status)
            if not statuses:
                return Page((), None)
        request = jobs.ListJobs(
            status=",".join(statuses) or None,
            wait_reason=which.wait_reason,
            kind=which.kind,
            queue=which.queue,
            session_id=which.session_id,
            parent_job_id=which.parent_job_id,
            since=which.since,
            until=which.until,
            text=which.text,
            limit=limit,
            cursor=cursor,
        )
        return await self.call(jobs.list_jobs, request)

    async def events(self, job_id: str, *, after: int = 0, limit: int | None = None) -> tuple[EventView, ...]:
        """The events after this seq, in order. An event of an unknown type is included."""
        events: list[EventView] = []
        cursor: int | None = after
        while cursor is not None and (limit is None or len(events) < limit):
            most = EVENTS_PER_PAGE_MAX if limit is None else min(limit - len(events), EVENTS_PER_PAGE_MAX)
            request = jobs.ListEvents(job_id=job_id, after=cursor, limit=most)
            page = await self.call(jobs.list_events, request)
            events += page.items
            cursor = page.next
        return tuple(events)

    async def trace(self, job_id: str) -> Trace:
        """The job's history: its calls, which worker ran it when, and what recovery did and why."""
        return await self.call(jobs.get_trace, jobs.GetTrace(job_id=job_id))

    async def verify(self, job_id: str) -> Checked:
        """Recomputes the job's hash chain and grammar from its first event, and compares its head with them."""
        return await self.call(jobs.verify_job, jobs.VerifyJob(job_id=job_id))

    async def walk(self, job_id: str) -> Walk:
        """What a replay of the job would return, call by call. It needs no code and calls nothing."""
        return await self.call(jobs.preview_replay, jobs.PreviewReplay(job_id=job_id))

    async def result(self, job_id: str, *, timeout_s: float | None = None) -> JobView:
        """Waits until the job has ended, and returns it. NotOver at the timeout; the job continues."""
        deadline = None if timeout_s is None else _now() + timeout_s
        while True:
            request = jobs.GetJob(job_id=job_id, wait_ms=_wait_ms(deadline))
            job = await self.call(jobs.get_job, request)
            if job.over:
                return job
            if deadline is not None and _now() >= deadline:
                reason = f" ({job.wait_reason})" if job.wait_reason is not None else ""
                raise NotOver(f"job {job_id} is {job.status}{reason}")

    async def reply(self, job_id: str, *, timeout_s: float | None = None) -> MessageReply:
        """Waits for the reply to the message that this job answers: until the turn that includes it is committed.

        Raises:
            NotOver: Not yet, at the timeout.
            InvalidMove: The job is no message, or ended without a reply; the error says how.
        """
        deadline = None if timeout_s is None else _now() + timeout_s
        while True:
            request = jobs.GetReply(job_id=job_id, wait_ms=_wait_ms(deadline))
            try:
                return await self.call(jobs.get_reply, request)
            except NotOver:
                if deadline is not None and _now() >= deadline:
                    raise

    def stream(
        self, job_id: str, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        """The output of the job after the cursor, on this stream or on all, until the job has ended."""
        return self._transport.stream(job_id, after=after, stream=stream)

    async def fork(
        self,
        job_id: str,
        *,
        at: str | int,
        input: Any = SAME,  # noqa: A002 -- the word for it everywhere else
        fork_id: str | None = None,
        request_key: str | None = None,
        edits: Mapping[str, Any] | None = None,
        by: str = "",
        why: str = "",
    ) -> SubmittedJob:
        """Creates a job with everything that this one recorded before `at`; it executes the rest itself.

        `at` is a step key (that step is executed again) or the number of the first event that is not shared. `edits`:
        other results, by step key, for shared reads and model responses; the journal records `by` and `why`.

        Raises:
            NotFound: No such job, step or event.
            InvalidMove: A side effect was in progress or uncertain at that point, or a child was in progress; or the
                job is a turn of a session.
        """
        request = jobs.ForkJob(
            job_id=job_id,
            at=at,
            input=input,
            fork_id=self._job_id(fork_id, request_key),
            request_key=request_key,
            edits=dict(edits or {}),
            by=by,
            why=why,
        )
        return await self.call(jobs.fork_job, request)

    # ── commands to a job ─────────────────────────────────────────────────────────────────────────

    async def cancel(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Cancels the job: it starts no further call and ends `cancelled`. InvalidMove if it has ended."""
        request = commands.CancelJob(job_id=job_id, why=why, by=by, operation_id=operation_id)
        return await self.call(commands.cancel_job, request)

    async def signal(
        self, job_id: str, name: str, body: Any = None, *, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Stores a signal in the job's mailbox. InvalidMove if the job has ended."""
        request = commands.SignalJob(job_id=job_id, name=name, body=body, by=by, operation_id=operation_id)
        return await self.call(commands.signal_job, request)

    async def answer(
        self,
        job_id: str,
        answer: Any,
        *,
        question_id: str | None = None,
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        """Stores the answer to the job's question in its mailbox. `answer` is a value, or text as a person typed it.
        Without a `question_id` it answers the only open question.

        Raises:
            NotFound: No such question.
            InvalidPayload: The answer does not fit the question.
            InvalidMove: The question is not open, or several are.
            Conflict: Another answer came first.
        """
        request = commands.AnswerJob(
            job_id=job_id,
            answer=answer,
            question_id=question_id,
            by=by,
            operation_id=operation_id,
        )
        return await self.call(commands.answer_job, request)

    async def reconcile(
        self,
        job_id: str,
        step_key: str,
        decision: str,
        *,
        why: str,
        by: str,
        result: Any = None,
        generation: int | None = None,
        operation_id: str | None = None,
    ) -> Accepted:
        """Records a person's decision about an uncertain call; the job continues from there.

        `happened` (with the call's result), `not_happened` (it is made again, under a new key), `skip` (the code gets
        `result` instead), `fail` (the code gets an error). Without a generation it is the newest.

        Raises:
            NotFound: No such call.
            InvalidMove: It is not uncertain; or `not_happened` before the last instant at which the old worker could
                still have sent it, which the error names.
            Conflict: Another decision came first.
        """
        request = commands.ReconcileStep(
            job_id=job_id,
            step_key=step_key,
            decision=decision,
            why=why,
            by=by,
            result=result,
            generation=generation,
            operation_id=operation_id,
        )
        return await self.call(commands.reconcile_step, request)

    async def approve(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """Approves a call. `approval` is its id, or the id of a job with one open approval (or with `step_key`).

        Raises:
            NotFound: No such approval.
            Conflict: It was decided already.
        """
        request = commands.DecideCall(
            approval=approval, step_key=step_key, why=why, by=by, operation_id=operation_id
        )
        return await self.call(commands.approve_call, request)

    async def deny(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """Denies a call. Parameters and errors as for `approve`."""
        request = commands.DecideCall(
            approval=approval, step_key=step_key, why=why, by=by, operation_id=operation_id
        )
        return await self.call(commands.deny_call, request)

    async def resume(
        self,
        job_id: str,
        *,
        choice: str = "continue",
        why: str = "",
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        """Resumes a job that is held for a person (parked, stalled, restored, dead letter), with attempts and
        takeovers counted from zero.

        `continue` continues from the last commit of state with the current code; `accept` skips recorded calls that
        the code no longer makes. InvalidMove if the job is not held.
        """
        request = commands.ResumeJob(job_id=job_id, choice=choice, why=why, by=by, operation_id=operation_id)
        return await self.call(commands.resume_job, request)

    async def raise_budget(
        self,
        job_id: str,
        limits: Budget,
        *,
        budget_id: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """Raises a budget that applies to this job to at least these limits; jobs that wait for it continue.

        Limits are totals, and are only raised. Without a `budget_id` it is the budget that stopped the job; if none
        did, its own, or the nearest of its ancestors'.

        Raises:
            NotFound: No such job, or no such budget applies to it.
            InvalidMove: The job has ended, or no budget applies to it.
            InvalidPayload: No limit would be higher than it is.
        """
        request = commands.RaiseBudget(
            job_id=job_id,
            limits=commands.BudgetLimits(**money.to_json(limits)),
            budget_id=budget_id,
            why=why,
            by=by,
            operation_id=operation_id,
        )
        return await self.call(commands.raise_budget, request)

    # ── decisions that wait for a person ──────────────────────────────────────────────────────────

    async def waiting_for_person(self) -> tuple[Need, ...]:
        """All decisions that wait for a person, longest waiting first: of jobs that wait for nothing else, and of
        running jobs with an open uncertain call, approval or question beside other work."""
        needs: list[Need] = []
        cursor: str | None = None
        while True:
            request = attention.ListNeeds(limit=ROWS_PER_PAGE_MAX, cursor=cursor)
            page = await self.call(attention.list_needs, request)
            needs += page.items
            cursor = page.next
            if cursor is None:
                return tuple(needs)

    async def dead_letters(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Need]:
        """Jobs that used up their attempts, newest first, with causes."""
        request = attention.ListDeadLetters(limit=limit, cursor=cursor)
        return await self.call(attention.list_dead_letters, request)

    async def requeue(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Requeues a dead letter: same job, same journal, same keys. InvalidMove if it is none."""
        request = commands.RequeueDeadLetter(job_id=job_id, why=why, by=by, operation_id=operation_id)
        return await self.call(commands.requeue_dead_letter, request)

    async def discard(
        self, job_id: str, *, why: str, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Ends a dead letter as cancelled, with author and reason. InvalidMove if it is none."""
        request = commands.DiscardDeadLetter(job_id=job_id, why=why, by=by, operation_id=operation_id)
        return await self.call(commands.discard_dead_letter, request)

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
        """Creates an agent. The same request again returns the same agent; another agent under its name, or under the
        same request key, is a Conflict."""
        request = agents.CreateAgent(
            name=name,
            model=model,
            instructions=instructions,
            tools=tuple(tools),
            context_tokens_max=context_tokens_max,
            request_key=request_key,
        )
        return await self.call(agents.create_agent, request)

    async def get_agent(self, agent: str) -> AgentView:
        """The agent of this name or id, or NotFound.

        Configured agents are rows of the store. Agents declared in code are known from the workers that offer them,
        and from the messages that they have taken. An external agent is found by its guid.
        """
        return await self.call(agents.get_agent, agents.GetAgent(agent=agent))

    async def list_agents(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[AgentView]:
        """Hosted agents by name: configured ones, and those that a listed worker offers code for."""
        request = agents.ListAgents(source="hosted", limit=limit, cursor=cursor)
        page = await self.call(agents.list_agents, request)
        return Page(page.items, page.next)

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
        """Stores a message in the session's inbox, and creates the job that answers it. Without a session it belongs
        to the agent's one conversation.

        `delivery`: whether it may join the running turn, or waits for its commit; `slot`: whether other messages may
        share its turn. Its request key or job id identifies it: sent again, it is the same message; with other
        content, KeyReused.
        """
        request = agents.MessageAgent(
            agent=agent,
            content=content,
            session_id=session_id,
            delivery=delivery,
            slot=slot,
            request_key=request_key,
            job_id=self._job_id(job_id, request_key),
        )
        return await self.call(agents.message_agent, request)

    async def agent_jobs(
        self, agent: str, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[JobRecord]:
        """The jobs that answer messages to this agent, newest first. A page may have fewer rows than its limit and
        still lead to a next one."""
        request = agents.ListAgentJobs(agent=agent, limit=limit, cursor=cursor)
        return await self.call(agents.list_agent_jobs, request)

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    async def list_workers(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[WorkerView]:
        """Workers by name: their offers, their leases, their last heartbeats."""
        return await self.call(workers.list_workers, workers.ListWorkers(limit=limit, cursor=cursor))

    async def drain_worker(
        self, worker: str, *, why: str, by: str, operation_id: str | None = None
    ) -> WorkerView:
        """Drains a worker, by its name in journals, within seconds, as on SIGTERM; the audit log records `by` and
        `why`. InvalidMove for a worker that does not support it."""
        request = workers.DrainWorker(worker=worker, why=why, by=by, operation_id=operation_id)
        return await self.call(workers.drain_worker, request)

    # ── schedules, queues, namespaces ─────────────────────────────────────────────────────────────

    async def create_schedule(
        self,
        schedule_id: str,
        kind: str,
        cron: str,
        *,
        time_zone: str = "UTC",
        catch_up: CatchUp = CatchUp.SKIP,
        input: Any = None,  # noqa: A002 -- the word for it everywhere else
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
    ) -> Schedule:
        """Creates a schedule: jobs of this kind start by cron, from the next instant on. The same request again
        returns the same schedule; another one under its id is a Conflict."""
        request = schedules.CreateSchedule(
            schedule_id=schedule_id,
            kind=kind,
            cron=cron,
            time_zone=time_zone,
            catch_up=catch_up,
            input=input,
            queue=queue,
            priority=priority,
        )
        return await self.call(schedules.create_schedule, request)

    async def get_schedule(self, schedule_id: str) -> Schedule:
        """The schedule, or NotFound."""
        return await self.call(schedules.get_schedule, schedules.NamedSchedule(schedule_id=schedule_id))

    async def list_schedules(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Schedule]:
        """Schedules by id."""
        return await self.call(schedules.list_schedules, schedules.ListSchedules(limit=limit, cursor=cursor))

    async def pause_schedule(self, schedule_id: str) -> Schedule:
        """Pauses a schedule: it does not fire until it is resumed. Pausing it again changes nothing."""
        return await self.call(schedules.pause_schedule, schedules.NamedSchedule(schedule_id=schedule_id))

    async def resume_schedule(self, schedule_id: str) -> Schedule:
        """Resumes a schedule: it fires from its next instant on; the instants of the pause are skipped."""
        return await self.call(schedules.resume_schedule, schedules.NamedSchedule(schedule_id=schedule_id))

    async def remove_schedule(self, schedule_id: str) -> Schedule:
        """Removes a schedule; returns it as it was, or NotFound. Its jobs stay."""
        return await self.call(schedules.remove_schedule, schedules.NamedSchedule(schedule_id=schedule_id))

    async def limit_queue(
        self, queue: str, *, depth_max: int | None = None, age_max_us: int | None = None
    ) -> QueueLimits:
        """Replaces the limits of a queue. None is no limit."""
        request = queues.LimitQueue(queue=queue, depth_max=depth_max, age_max_us=age_max_us)
        return await self.call(queues.limit_queue, request)

    async def list_queues(self) -> tuple[QueueLimits, ...]:
        """The queues that have limits, by name."""
        return (await self.call(queues.list_queues, queues.ListQueues())).items

    async def create_namespace(self, namespace: str) -> NamespaceRecord:
        """Creates a namespace. Creating it again changes nothing."""
        request = namespaces.CreateNamespace(namespace=namespace)
        return await self.call(namespaces.create_namespace, request)

    async def list_namespaces(self) -> tuple[NamespaceRecord, ...]:
        """All namespaces, by name."""
        return (await self.call(namespaces.list_namespaces, namespaces.ListNamespaces())).items

    async def stats(self) -> Stats:
        """The number of jobs of this namespace by status, at one instant."""
        return await self.call(namespaces.get_stats, namespaces.GetStats())

    # ── work items ────────────────────────────────────────────────────────────────────────────────

    async def submit_work(
        self,
        description: str,
        capability: str,
        *,
        boundary: str | None = None,
        priority: int = PRIORITY_DEFAULT,
        deadline: str | None = None,
        task_id: str | None = None,
        preferred_agent_type: str | None = None,
        required_agent_type: str | None = None,
        project_id: str | None = None,
        context_data: Any = None,
        request_key: str | None = None,
    ) -> WorkView:
        """Stores a work item durably, for an agent with this capability. Its task id, or its request key, identifies
        it: sent again, it is the same work; with other content, a Conflict.

        `deadline`: an ISO instant, after which no agent starts it.
        """
        if (task_id, request_key) == (None, None):
            request_key = self._transport.ids.new("op")
        request = work.SubmitWork(
            description=description,
            capability=capability,
            boundary=boundary,
            priority=priority,
            deadline=deadline,
            task_id=task_id,
            preferred_agent_type=preferred_agent_type,
            required_agent_type=required_agent_type,
            project_id=project_id,
            context_data=context_data,
            request_key=request_key,
        )
        return await self.call(work.submit_work, request)

    async def get_work(self, work_id: str) -> WorkView:
        """The current state of a work item, or NotFound."""
        return await self.call(work.get_work, work.GetWork(work_id=work_id))

    async def list_work(
        self,
        *,
        status: str | None = None,
        capability: str | None = None,
        boundary: str | None = None,
        project_id: str | None = None,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> WorkList:
        """Work items, newest first. The cursor of one page leads to the next."""
        request = work.ListWork(
            status=None if status is None else work.parse_status(status),
            capability=capability,
            boundary=boundary,
            project_id=project_id,
            limit=limit,
            cursor=cursor,
        )
        return await self.call(work.list_work, request)

    async def claim_work(
        self,
        guid: str,
        *,
        capabilities: Sequence[str] | None = None,
        limit: int = 1,
        wait_seconds: int = 0,
        lease_seconds: int | None = None,
        claim_id: str | None = None,
    ) -> tuple[ClaimedWork, ...]:
        """Claims up to `limit` work items for this agent, for the time of the lease. If there is none now, the
        response waits for some. Sent again with the same claim id, it returns the same grants: a lost response loses
        no work.

        Raises:
            NotFound: No such agent is registered. Register, and claim again.
        """
        request = work.ClaimWork(
            guid=guid,
            capabilities=None if capabilities is None else tuple(capabilities),
            limit=limit,
            wait_seconds=wait_seconds,
            lease_seconds=lease_seconds,
            claim_id=self._transport.ids.new("claim") if claim_id is None else claim_id,
        )
        return (await self.call(work.claim_work, request)).items

    async def renew_work(
        self, work_id: str, *, fence: int, lease_token: str, lease_seconds: int | None = None
    ) -> Renewed:
        """Renews the lease for its whole time from now on; or Fenced."""
        request = work.RenewWork(
            work_id=work_id, fence=fence, lease_token=lease_token, lease_seconds=lease_seconds
        )
        return await self.call(work.renew_work, request)

    async def progress_work(
        self,
        work_id: str,
        *,
        fence: int,
        lease_token: str,
        progress: int,
        note: str | None = None,
        lease_seconds: int | None = None,
    ) -> Renewed:
        """Records the progress in percent, and renews the lease; or Fenced."""
        request = work.ProgressWork(
            work_id=work_id,
            fence=fence,
            lease_token=lease_token,
            progress=progress,
            note=note,
            lease_seconds=lease_seconds,
        )
        return await self.call(work.progress_work, request)

    async def complete_work(
        self, work_id: str, *, fence: int, lease_token: str, result: Any = None
    ) -> WorkView:
        """Completes the work with this result. The same request again from the same holder gets the first response
        again; from any other it is Fenced."""
        request = work.CompleteWork(work_id=work_id, fence=fence, lease_token=lease_token, result=result)
        return await self.call(work.complete_work, request)

    async def fail_work(
        self,
        work_id: str,
        *,
        fence: int,
        lease_token: str,
        message: str,
        code: str | None = None,
        recoverable: bool = True,
    ) -> WorkView:
        """Ends this attempt as failed. If it is recoverable, the work is pending again after a while, or a dead
        letter once its attempts are used up; otherwise it has failed for good."""
        request = work.FailWork(
            work_id=work_id,
            fence=fence,
            lease_token=lease_token,
            error=work.WorkError(message=message, code=code),
            recoverable=recoverable,
        )
        return await self.call(work.fail_work, request)

    async def release_work(self, work_id: str, *, fence: int, lease_token: str, why: str = "") -> WorkView:
        """Releases the work: it is pending at once, and no attempt is counted."""
        request = work.ReleaseWork(work_id=work_id, fence=fence, lease_token=lease_token, why=why)
        return await self.call(work.release_work, request)

    async def cancel_work(self, work_id: str, *, why: str = "", by: str = "") -> WorkView:
        """Cancels the work: all further requests of its holder are Fenced."""
        return await self.call(work.cancel_work, work.CancelWork(work_id=work_id, why=why, by=by))

    # ── external agents ───────────────────────────────────────────────────────────────────────────

    async def register_agent(
        self,
        handle: str,
        agent_type: str,
        *,
        guid: str | None = None,
        capabilities: Sequence[str] = (),
        boundaries: Sequence[str] = (),
        max_concurrent_tasks: int = 1,
        hostname: str | None = None,
        project_id: str | None = None,
        username: str | None = None,
        visibility: Visibility | None = None,
        heartbeat_interval_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AgentEntryView:
        """Registers an agent, so that others find it and it may claim. The same guid again is the same agent, with
        the new values; without a guid, host, project and handle identify it."""
        request = external_agents.RegisterAgent(
            handle=handle,
            agent_type=agent_type,
            guid=guid,
            capabilities=tuple(capabilities),
            boundaries=tuple(boundaries),
            max_concurrent_tasks=max_concurrent_tasks,
            hostname=hostname,
            project_id=project_id,
            username=username,
            visibility=visibility,
            heartbeat_interval_ms=heartbeat_interval_ms,
            metadata=None if metadata is None else dict(metadata),
        )
        return await self.call(external_agents.register_agent, request)

    async def heartbeat_agent(
        self, guid: str, *, status: AgentStatus | None = None, current_task_count: int | None = None
    ) -> AgentEntryView:
        """Records a heartbeat of the agent; or NotFound, and it should register again."""
        request = external_agents.HeartbeatAgent(
            agent=guid, status=status, current_task_count=current_task_count
        )
        return await self.call(external_agents.heartbeat_agent, request)

    async def update_agent(self, guid: str, changes: EntryChanges) -> AgentEntryView:
        """Changes these values of the entry. Omitted ones stay."""
        request = external_agents.UpdateAgent(agent=guid, **msgspec.structs.asdict(changes))
        return await self.call(external_agents.update_agent, request)

    async def deregister_agent(self, guid: str) -> Deregistered:
        """Removes the entry. The agent keeps its work until the leases expire."""
        request = external_agents.DeregisterAgent(agent=guid)
        return await self.call(external_agents.deregister_agent, request)

    async def list_registry(
        self,
        *,
        agent_type: str | None = None,
        status: AgentStatus | None = None,
        capability: str | None = None,
        project_id: str | None = None,
        viewer: str | None = None,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> AgentEntryList:
        """External agents by handle, and whether the list is current. `viewer`: only those that the agent of this
        guid may find."""
        request = agents.ListAgents(
            type=agent_type,
            status=status,
            capability=capability,
            project=project_id,
            viewer=viewer,
            source="external",
            limit=limit,
            cursor=cursor,
        )
        page = await self.call(agents.list_agents, request)
        return AgentEntryList(agents=page.agents, next=page.next, registry=page.registry)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _wait_ms(deadline: float | None) -> int:
    """How long the next request may wait."""
    if deadline is None:
        return WAIT_MS
    return min(max(int((deadline - _now()) * 1000), 0), WAIT_MS)
