"""App registry: the agents, tools, steps, sessions and schedules that an application declares, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from holdfast.agents.agents import Agent
from holdfast.agents.job_handle import Host
from holdfast.agents.tools import Probe, Tool, terms_of
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import Program
from holdfast.errors import InvalidSetting
from holdfast.model.budget import Budget
from holdfast.model.configured_agents import ASSISTANT
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.retry import Retry
from holdfast.model.schedule import Schedule, check_schedule, parse_catch_up
from holdfast.model.time import Duration
from holdfast.model.work import HOSTED, kinds_for, queues_for
from holdfast.model.worker_presence import SessionKind, WorkerOffer

if TYPE_CHECKING:
    # Imported when an application declares one: they account for most of the import time.
    from holdfast.agents.assistant import Assistant, Planner
    from holdfast.agents.configured_agents import HostedAssistants
    from holdfast.agents.models.model import Model
    from holdfast.agents.schemas import Callee
    from holdfast.agents.sessions import Handler, SessionAgent

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound=Agent[..., Any])


class DeclareAgent(Protocol):
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Agent[P, R]: ...


class DeclareTool(Protocol):
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Tool[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


class AppRegistry(ABC):
    """The declarations of an application. Names are unique: with two agents of one name, a job would have two
    programs."""

    def __init__(self) -> None:
        self.agents: dict[str, Agent[..., Any]] = {}
        self.tools: dict[str, Tool[..., Any]] = {}
        self.sessions: dict[str, SessionAgent] = {}
        self.schedules: dict[str, Schedule] = {}
        self._hosted: HostedAssistants | None = None

    @abstractmethod
    async def host(self) -> Host:
        """The host that stores and executes the jobs of this application."""

    def programs(self) -> dict[str, Program]:
        """The program of each kind of job."""
        programs: dict[str, Program] = {ASSISTANT: self._configured}
        programs |= {name: agent.program for name, agent in self.agents.items()}
        for agent in self.agents.values():
            if agent.capability is not None:
                programs |= dict.fromkeys(kinds_for([agent.capability], HOSTED), agent.take_work)
        return programs | {name: session.program for name, session in self.sessions.items()}

    def offer(
        self, *, queues: Sequence[str] = (), capabilities: Sequence[str] = (), concurrency: int = 16
    ) -> WorkerOffer:
        """The offer of a worker with this code: kinds, sessions, queues, capabilities. Without `queues` it claims
        from all queues that its declarations name."""
        queue_names = {declared.queue for declared in self.agents.values()} | {
            declared.queue for declared in self.sessions.values()
        }
        able = [declared for declared in self.agents.values() if declared.capability is not None]
        for declared in able:
            queue_names |= set(queues_for(declared.boundaries))
        can = {declared.capability for declared in able if declared.capability is not None}
        return WorkerOffer(
            kinds=tuple(sorted(self.programs())),
            sessions=tuple(
                SessionKind(name=declared.name, queue=declared.queue, priority=declared.priority)
                for declared in self.sessions.values()
            ),
            queues=tuple(queues) or tuple(sorted({DEFAULT_QUEUE} | queue_names)),
            capabilities=tuple(sorted({*capabilities, *can})),
            concurrency=concurrency,
        )

    async def _configured(self, execution: Execution, job_input: Any) -> Any:
        """The program for a turn of an agent that is configured in the store."""
        from holdfast.agents.configured_agents import HostedAssistants

        if self._hosted is None:
            self._hosted = HostedAssistants(self.callees, self.host)
        return await self._hosted.program(execution, job_input)

    @property
    def callees(self) -> dict[str, Callee]:
        """The agents and tools that a configured agent may use as tools, by name."""
        return {**self.agents, **self.tools}

    @overload
    def agent(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Agent[P, R]: ...

    @overload
    def agent(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
        budget: Budget | None = None,
        capability: str | None = None,
        boundaries: Sequence[str] = (),
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> DeclareAgent: ...

    def agent(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
        budget: Budget | None = None,
        capability: str | None = None,
        boundaries: Sequence[str] = (),
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Declares an agent: calls of the function are durable jobs.

        budget: the limit on what each such job may use together with all jobs that it spawns. At a limit the job
        stops before the call that would exceed it, and asks. capability: the agent takes work items that require it,
        as its one argument, an `hf.Work`; boundaries: also work items that only agents inside one of these boundaries
        may see. retry: how many attempts a job gets when the function raises: by default three in all, and one if its
        code is wrong (a TypeError, an undefined name). Its calls are retried by their own policies before that.
        timeout: how long a job may take as a whole, including waits, retries and the time in the queue; then it fails
        with `hf.JobTimedOut`.
        """

        def declare(function: Callable[..., Any]) -> Agent[..., Any]:
            agent: Agent[..., Any] = Agent(
                function,
                name=name or function.__name__,
                queue=queue,
                priority=priority,
                host=self.host,
                budget=budget,
                capability=capability,
                boundaries=boundaries,
                retry=retry,
                timeout=timeout,
            )
            self._must_be_new(agent.name)
            if agent.capability in {other.capability for other in self.agents.values()} - {None}:
                msg = f"two agents of the application serve the capability {agent.capability!r}"
                raise InvalidSetting(msg, hint="Give each capability to one agent only.")
            self.agents[agent.name] = agent
            return agent

        return declare if function is None else declare(function)

    @overload
    def session(self, handler: Handler, /) -> SessionAgent: ...

    @overload
    def session(
        self, /, *, name: str | None = None, queue: str = DEFAULT_QUEUE, priority: int = PRIORITY_DEFAULT
    ) -> Callable[[Handler], SessionAgent]: ...

    def session(
        self,
        handler: Handler | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
    ) -> Any:
        """Declares a session agent: the function receives a `Turn` for each turn of a session, and its return value
        is the answer."""

        def declare(handler: Handler) -> SessionAgent:
            from holdfast.agents.sessions import SessionAgent, check_handler

            check_handler(handler)
            agent_name = name or handler.__name__
            agent = SessionAgent(handler, name=agent_name, queue=queue, priority=priority, host=self.host)
            self._must_be_new(agent.name)
            self.sessions[agent.name] = agent
            return agent

        return declare if handler is None else declare(handler)

    def assistant(
        self,
        name: str,
        *,
        model: str | Model | Sequence[Any] | None = None,
        instructions: str = "",
        tools: Sequence[Callee] = (),
        planner: str | Model | Sequence[Any] | Planner | None = None,
        context_tokens_max: int | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
    ) -> Assistant:
        """Declares an assistant of this name: a model with instructions and tools, one session for each conversation.

        model: as in `hf.llm`; without one, a script explains how to choose one. planner: a model or an async function
        that first makes a plan of tool calls; the assistant executes it and shows the outcomes to the model.
        context_tokens_max: when a conversation grows beyond this, it continues from a summary.
        """
        from holdfast.agents.assistant import CONTEXT_TOKENS_MAX, Assistant

        assistant = Assistant(
            name,
            model=model,
            instructions=instructions,
            tools=tools,
            planner=planner,
            context_tokens_max=context_tokens_max or CONTEXT_TOKENS_MAX,
            queue=queue,
            priority=priority,
            host=self.host,
        )
        self._must_be_new(assistant.name)
        self.sessions[assistant.name] = assistant
        return assistant

    def schedule(
        self,
        cron: str,
        *,
        tz: str = "UTC",
        catch_up: str = "skip",
        id: str | None = None,  # noqa: A002 - as users say it
        given: Mapping[str, Any] | None = None,
    ) -> Callable[[A], A]:
        """Declares a schedule: any worker of this application starts the agent by cron, once for each instant.

        cron: minute, hour, day, month, weekday, in the time zone `tz`. catch_up: what happens to instants at which no
        worker was running: `skip` leaves them out, `one` starts one job for all of them, `all` starts one job for
        each. id: the schedule's id; by default the agent's name. given: the agent's arguments.
        """

        def declare(agent: A) -> A:
            from holdfast.engine.cron import compile_cron

            draft = agent.draft(agent.check_arguments(given or {}))
            schedule = Schedule(
                schedule_id=id or agent.name,
                kind=draft.kind,
                cron=cron,
                next_at=compile_cron(cron, tz)(0),
                time_zone=tz,
                catch_up=parse_catch_up(catch_up),
                input=draft.input,
                queue=draft.queue,
                priority=draft.priority,
                budget=draft.budget,
                python_version=draft.python_version,
            )
            _add(self.schedules, schedule.schedule_id, check_schedule(schedule), "schedule", "id")
            return agent

        return declare

    def _must_be_new(self, name: str) -> None:
        if name in self.agents or name in self.sessions:
            msg = f"there are two agents called {name!r}"
            raise InvalidSetting(msg, hint="Give one of them another name with name=….")

    @overload
    def tool(self, function: Callable[P, Awaitable[R]], /) -> Tool[P, R]: ...

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def tool(
        self,
        /,
        *,
        effect: str | None = None,
        name: str | None = None,
        key_lifetime: Duration | None = None,
        probe: Probe | None = None,
        timeout: Duration | None = None,
        receiver_delay: Duration = 0,
        approve: Callable[..., bool] | bool | None = None,
        approval_lifetime: Duration = "7d",
        on_resume: str | None = None,
        output: Probe | None = None,
        raises: tuple[type[Exception], ...] = (),
        retry: Retry | None = None,
        sent_nothing: tuple[type[Exception], ...] = (),
    ) -> DeclareTool: ...

    def tool(
        self,
        function: Any = None,
        /,
        *,
        effect: str | None = None,
        name: str | None = None,
        key_lifetime: Duration | None = None,
        probe: Probe | None = None,
        timeout: Duration | None = None,
        receiver_delay: Duration = 0,
        approve: Callable[..., bool] | bool | None = None,
        approval_lifetime: Duration = "7d",
        on_resume: str | None = None,
        output: Probe | None = None,
        raises: tuple[type[Exception], ...] = (),
        retry: Retry | None = None,
        sent_nothing: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Declares a tool: calls of the function are recorded, and recovered by the declared effect.

        effect: `read_only`, `idempotent`, `verifiable` or `unsafe`. The default is `unsafe`: never repeated
        automatically. key_lifetime: how long the receiver of an `idempotent` call remembers its key; by default, for
        ever. probe: `probe(key, args)` of a `verifiable` call returns Happened(result), NotHappened() or
        CannotTell(). timeout: how long one call may take, by default a minute; after that its outcome is uncertain. A
        read that exceeds a declared timeout raises TimeoutError; a read without one may take any time.
        receiver_delay: how long after the call the probe may still not see it. approve: True, or a condition on the
        arguments: then a person must approve before the call. on_resume: "relaunch" for a black box that is simply
        started again, unless `output(key, args)` finds its output. raises: the errors that code may catch by their
        class; they are not retried unless `retry` says so. retry: how many attempts a call gets when it fails; the
        default covers an outage of a minute. An unsafe call is retried only if it certainly did nothing.
        sent_nothing: the errors that prove this, such as ConnectionRefusedError.
        """
        terms = terms_of(
            effect=effect,
            key_lifetime=key_lifetime,
            probe=probe,
            timeout=timeout,
            receiver_delay=receiver_delay,
            approve=approve,
            approval_lifetime=approval_lifetime,
            on_resume=on_resume,
            output=output,
            retry=retry,
            raises=tuple(raises),
            sent_nothing=sent_nothing,
        )

        def declare(function: Callable[..., Any]) -> Tool[..., Any]:
            tool: Tool[..., Any] = Tool(
                function, name=name or function.__name__, terms=terms, raises=tuple(raises)
            )
            _add(self.tools, tool.name, tool, "tool")
            return tool

        return declare if function is None else declare(function)

    step = tool
    """A step is a tool that is not offered to models: a piece of the agent's own work."""


def _add(registry: dict[str, Any], name: str, thing: Any, noun: str, word: str = "name") -> None:
    if name in registry:
        msg = f"there are two {noun}s called {name!r}"
        raise InvalidSetting(msg, hint=f"Give one of them another {word} with {word}=….")
    registry[name] = thing
