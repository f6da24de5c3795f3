"""Blocking client: `Client` for code that does not await. Calls run on a loop in a thread of its own.

    with BlockingClient.over_http("http://127.0.0.1:8080") as client:
        job = client.submit("report", {"month": "May"})
        print(client.result(job.job_id, timeout_s=60).output)

This file is written by `python -m tools.make_blocking_client`; change `client/client.py` instead.
"""

# ruff: noqa: A002 - `input` is the word for it everywhere else

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

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
from holdfast.client.client import SAME, Client
from holdfast.client.http import RemoteClient
from holdfast.client.in_process import EmbeddedClient
from holdfast.model.agent_registry import AgentStatus, EntryChanges, Visibility
from holdfast.model.budget import Budget
from holdfast.model.ids import RandomIds
from holdfast.model.inbox import Delivery, SlotPolicy
from holdfast.model.jobs import DEFAULT_QUEUE, JobFilter, JobRecord, SubmittedJob
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.runtime import open_store
from holdfast.store.contract import Store
from holdfast.store.ports.namespaces import NamespaceRecord

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R")


async def _next(items: AsyncGenerator[R, None]) -> R:
    return await anext(items)


class BlockingClient:
    """See `Client`: the methods, their results and their errors are the same. Close it when done, or use it in `with`.
    It may be used by several threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="holdfast-client", daemon=True)
        self._thread.start()
        self._client: Client
        self._store: Store | None = None

    @classmethod
    def over_http(cls, url: str, *, key: str | None = None) -> Self:
        """A client of the server at this URL."""
        made = cls()

        async def connect() -> Client:
            return RemoteClient(url, key=key)

        made._client = made._open(connect())
        return made

    @classmethod
    def over_store(cls, address: str) -> Self:
        """A client over the store at this address, which is opened for it."""
        made = cls()

        async def connect() -> Client:
            made._store = await open_store(address)
            return EmbeddedClient(made._store, made._store.clock, RandomIds())

        made._client = made._open(connect())
        return made

    def _open(self, connecting: Coroutine[Any, Any, Client]) -> Client:
        try:
            return self._run(connecting)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection or the store, and end the thread."""
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        if self._store is not None:
            self._run(self._store.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, call: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()

    def call(self, operation: Operation[Q, R], request: Q) -> R:
        """Perform any operation of `holdfast.api`. A command without an id gets one here, so that a transport may send
        it again after a lost response."""
        return self._run(self._client.call(operation, request))

    def submit(
        self,
        kind: str,
        input: Any = None,
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
        return self._run(
            self._client.submit(
                kind,
                input,
                job_id=job_id,
                request_key=request_key,
                queue=queue,
                priority=priority,
                session_id=session_id,
                ready_at=ready_at,
            )
        )

    def get(self, job_id: str) -> JobView:
        """The current state of the job, or NotFound."""
        return self._run(self._client.get(job_id))

    def list(
        self, which: JobFilter | None = None, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[JobRecord]:
        """Jobs, newest first. The cursor of one page leads to the next."""
        return self._run(self._client.list(which, limit=limit, cursor=cursor))

    def events(self, job_id: str, *, after: int = 0, limit: int | None = None) -> tuple[EventView, ...]:
        """The events after this seq, in order. An event of an unknown type is included."""
        return self._run(self._client.events(job_id, after=after, limit=limit))

    def trace(self, job_id: str) -> Trace:
        """The job's history: its calls, which worker ran it when, and what recovery did and why."""
        return self._run(self._client.trace(job_id))

    def verify(self, job_id: str) -> Checked:
        """Recomputes the job's hash chain and grammar from its first event, and compares its head with them."""
        return self._run(self._client.verify(job_id))

    def walk(self, job_id: str) -> Walk:
        """What a replay of the job would return, call by call. It needs no code and calls nothing."""
        return self._run(self._client.walk(job_id))

    def result(self, job_id: str, *, timeout_s: float | None = None) -> JobView:
        """Waits until the job has ended, and returns it. NotOver at the timeout; the job continues."""
        return self._run(self._client.result(job_id, timeout_s=timeout_s))

    def reply(self, job_id: str, *, timeout_s: float | None = None) -> MessageReply:
        """Waits for the reply to the message that this job answers: until the turn that includes it is committed.

        Raises:
            NotOver: Not yet, at the timeout.
            InvalidMove: The job is no message, or ended without a reply; the error says how."""
        return self._run(self._client.reply(job_id, timeout_s=timeout_s))

    def stream(
        self, job_id: str, *, after: str | None = None, stream: str | None = None
    ) -> Iterator[Chunk | AttemptSuperseded]:
        """The output of the job after the cursor, on this stream or on all, until the job has ended."""
        items = self._client.stream(job_id, after=after, stream=stream)
        try:
            while True:
                try:
                    yield self._run(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self._run(items.aclose())

    def fork(
        self,
        job_id: str,
        *,
        at: str | int,
        input: Any = SAME,
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
                job is a turn of a session."""
        return self._run(
            self._client.fork(
                job_id,
                at=at,
                input=input,
                fork_id=fork_id,
                request_key=request_key,
                edits=edits,
                by=by,
                why=why,
            )
        )

    def cancel(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Cancels the job: it starts no further call and ends `cancelled`. InvalidMove if it has ended."""
        return self._run(self._client.cancel(job_id, why=why, by=by, operation_id=operation_id))

    def signal(
        self, job_id: str, name: str, body: Any = None, *, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Stores a signal in the job's mailbox. InvalidMove if the job has ended."""
        return self._run(self._client.signal(job_id, name, body, by=by, operation_id=operation_id))

    def answer(
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
            Conflict: Another answer came first."""
        return self._run(
            self._client.answer(job_id, answer, question_id=question_id, by=by, operation_id=operation_id)
        )

    def reconcile(
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
            Conflict: Another decision came first."""
        return self._run(
            self._client.reconcile(
                job_id,
                step_key,
                decision,
                why=why,
                by=by,
                result=result,
                generation=generation,
                operation_id=operation_id,
            )
        )

    def approve(
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
            Conflict: It was decided already."""
        return self._run(
            self._client.approve(approval, step_key=step_key, why=why, by=by, operation_id=operation_id)
        )

    def deny(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """Denies a call. Parameters and errors as for `approve`."""
        return self._run(
            self._client.deny(approval, step_key=step_key, why=why, by=by, operation_id=operation_id)
        )

    def resume(
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
        the code no longer makes. InvalidMove if the job is not held."""
        return self._run(
            self._client.resume(job_id, choice=choice, why=why, by=by, operation_id=operation_id)
        )

    def raise_budget(
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
            InvalidPayload: No limit would be higher than it is."""
        return self._run(
            self._client.raise_budget(
                job_id, limits, budget_id=budget_id, why=why, by=by, operation_id=operation_id
            )
        )

    def waiting_for_person(self) -> tuple[Need, ...]:
        """All decisions that wait for a person, longest waiting first: of jobs that wait for nothing else, and of
        running jobs with an open uncertain call, approval or question beside other work."""
        return self._run(self._client.waiting_for_person())

    def dead_letters(self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None) -> Page[Need]:
        """Jobs that used up their attempts, newest first, with causes."""
        return self._run(self._client.dead_letters(limit=limit, cursor=cursor))

    def requeue(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """Requeues a dead letter: same job, same journal, same keys. InvalidMove if it is none."""
        return self._run(self._client.requeue(job_id, why=why, by=by, operation_id=operation_id))

    def discard(self, job_id: str, *, why: str, by: str = "", operation_id: str | None = None) -> Accepted:
        """Ends a dead letter as cancelled, with author and reason. InvalidMove if it is none."""
        return self._run(self._client.discard(job_id, why=why, by=by, operation_id=operation_id))

    def create_agent(
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
        return self._run(
            self._client.create_agent(
                name,
                model=model,
                instructions=instructions,
                tools=tools,
                context_tokens_max=context_tokens_max,
                request_key=request_key,
            )
        )

    def get_agent(self, agent: str) -> AgentView:
        """The agent of this name or id, or NotFound.

        Configured agents are rows of the store. Agents declared in code are known from the workers that offer them,
        and from the messages that they have taken. An external agent is found by its guid."""
        return self._run(self._client.get_agent(agent))

    def list_agents(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[AgentView]:
        """Hosted agents by name: configured ones, and those that a listed worker offers code for."""
        return self._run(self._client.list_agents(limit=limit, cursor=cursor))

    def message(
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
        content, KeyReused."""
        return self._run(
            self._client.message(
                agent,
                content,
                session_id=session_id,
                delivery=delivery,
                slot=slot,
                request_key=request_key,
                job_id=job_id,
            )
        )

    def agent_jobs(
        self, agent: str, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[JobRecord]:
        """The jobs that answer messages to this agent, newest first. A page may have fewer rows than its limit and
        still lead to a next one."""
        return self._run(self._client.agent_jobs(agent, limit=limit, cursor=cursor))

    def list_workers(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[WorkerView]:
        """Workers by name: their offers, their leases, their last heartbeats."""
        return self._run(self._client.list_workers(limit=limit, cursor=cursor))

    def drain_worker(self, worker: str, *, why: str, by: str, operation_id: str | None = None) -> WorkerView:
        """Drains a worker, by its name in journals, within seconds, as on SIGTERM; the audit log records `by` and
        `why`. InvalidMove for a worker that does not support it."""
        return self._run(self._client.drain_worker(worker, why=why, by=by, operation_id=operation_id))

    def create_schedule(
        self,
        schedule_id: str,
        kind: str,
        cron: str,
        *,
        time_zone: str = "UTC",
        catch_up: CatchUp = CatchUp.SKIP,
        input: Any = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
    ) -> Schedule:
        """Creates a schedule: jobs of this kind start by cron, from the next instant on. The same request again
        returns the same schedule; another one under its id is a Conflict."""
        return self._run(
            self._client.create_schedule(
                schedule_id,
                kind,
                cron,
                time_zone=time_zone,
                catch_up=catch_up,
                input=input,
                queue=queue,
                priority=priority,
            )
        )

    def get_schedule(self, schedule_id: str) -> Schedule:
        """The schedule, or NotFound."""
        return self._run(self._client.get_schedule(schedule_id))

    def list_schedules(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Schedule]:
        """Schedules by id."""
        return self._run(self._client.list_schedules(limit=limit, cursor=cursor))

    def pause_schedule(self, schedule_id: str) -> Schedule:
        """Pauses a schedule: it does not fire until it is resumed. Pausing it again changes nothing."""
        return self._run(self._client.pause_schedule(schedule_id))

    def resume_schedule(self, schedule_id: str) -> Schedule:
        """Resumes a schedule: it fires from its next instant on; the instants of the pause are skipped."""
        return self._run(self._client.resume_schedule(schedule_id))

    def remove_schedule(self, schedule_id: str) -> Schedule:
        """Removes a schedule; returns it as it was, or NotFound. Its jobs stay."""
        return self._run(self._client.remove_schedule(schedule_id))

    def limit_queue(
        self, queue: str, *, depth_max: int | None = None, age_max_us: int | None = None
    ) -> QueueLimits:
        """Replaces the limits of a queue. None is no limit."""
        return self._run(self._client.limit_queue(queue, depth_max=depth_max, age_max_us=age_max_us))

    def list_queues(self) -> tuple[QueueLimits, ...]:
        """The queues that have limits, by name."""
        return self._run(self._client.list_queues())

    def create_namespace(self, namespace: str) -> NamespaceRecord:
        """Creates a namespace. Creating it again changes nothing."""
        return self._run(self._client.create_namespace(namespace))

    def list_namespaces(self) -> tuple[NamespaceRecord, ...]:
        """All namespaces, by name."""
        return self._run(self._client.list_namespaces())

    def stats(self) -> Stats:
        """The number of jobs of this namespace by status, at one instant."""
        return self._run(self._client.stats())

    def submit_work(
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

        `deadline`: an ISO instant, after which no agent starts it."""
        return self._run(
            self._client.submit_work(
                description,
                capability,
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
        )

    def get_work(self, work_id: str) -> WorkView:
        """The current state of a work item, or NotFound."""
        return self._run(self._client.get_work(work_id))

    def list_work(
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
        return self._run(
            self._client.list_work(
                status=status,
                capability=capability,
                boundary=boundary,
                project_id=project_id,
                limit=limit,
                cursor=cursor,
            )
        )

    def claim_work(
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
            NotFound: No such agent is registered. Register, and claim again."""
        return self._run(
            self._client.claim_work(
                guid,
                capabilities=capabilities,
                limit=limit,
                wait_seconds=wait_seconds,
                lease_seconds=lease_seconds,
                claim_id=claim_id,
            )
        )

    def renew_work(
        self, work_id: str, *, fence: int, lease_token: str, lease_seconds: int | None = None
    ) -> Renewed:
        """Renews the lease for its whole time from now on; or Fenced."""
        return self._run(
            self._client.renew_work(
                work_id, fence=fence, lease_token=lease_token, lease_seconds=lease_seconds
            )
        )

    def progress_work(
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
        return self._run(
            self._client.progress_work(
                work_id,
                fence=fence,
                lease_token=lease_token,
                progress=progress,
                note=note,
                lease_seconds=lease_seconds,
            )
        )

    def complete_work(self, work_id: str, *, fence: int, lease_token: str, result: Any = None) -> WorkView:
        """Completes the work with this result. The same request again from the same holder gets the first response
        again; from any other it is Fenced."""
        return self._run(
            self._client.complete_work(work_id, fence=fence, lease_token=lease_token, result=result)
        )

    def fail_work(
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
        return self._run(
            self._client.fail_work(
                work_id,
                fence=fence,
                lease_token=lease_token,
                message=message,
                code=code,
                recoverable=recoverable,
            )
        )

    def release_work(self, work_id: str, *, fence: int, lease_token: str, why: str = "") -> WorkView:
        """Releases the work: it is pending at once, and no attempt is counted."""
        return self._run(self._client.release_work(work_id, fence=fence, lease_token=lease_token, why=why))

    def cancel_work(self, work_id: str, *, why: str = "", by: str = "") -> WorkView:
        """Cancels the work: all further requests of its holder are Fenced."""
        return self._run(self._client.cancel_work(work_id, why=why, by=by))

    def register_agent(
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
        return self._run(
            self._client.register_agent(
                handle,
                agent_type,
                guid=guid,
                capabilities=capabilities,
                boundaries=boundaries,
                max_concurrent_tasks=max_concurrent_tasks,
                hostname=hostname,
                project_id=project_id,
                username=username,
                visibility=visibility,
                heartbeat_interval_ms=heartbeat_interval_ms,
                metadata=metadata,
            )
        )

    def heartbeat_agent(
        self, guid: str, *, status: AgentStatus | None = None, current_task_count: int | None = None
    ) -> AgentEntryView:
        """Records a heartbeat of the agent; or NotFound, and it should register again."""
        return self._run(
            self._client.heartbeat_agent(guid, status=status, current_task_count=current_task_count)
        )

    def update_agent(self, guid: str, changes: EntryChanges) -> AgentEntryView:
        """Changes these values of the entry. Omitted ones stay."""
        return self._run(self._client.update_agent(guid, changes))

    def deregister_agent(self, guid: str) -> Deregistered:
        """Removes the entry. The agent keeps its work until the leases expire."""
        return self._run(self._client.deregister_agent(guid))

    def list_registry(
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
        return self._run(
            self._client.list_registry(
                agent_type=agent_type,
                status=status,
                capability=capability,
                project_id=project_id,
                viewer=viewer,
                limit=limit,
                cursor=cursor,
            )
        )
