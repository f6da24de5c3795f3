"""Agents: functions whose calls are jobs.

    @hf.agent
    async def support(question: str) -> str: ...

    answer = await support("where is order 42?")          # a durable job, executed by this process
    answer = await support.run("…", id="ticket-81")       # the same under an id: a repeated call continues that job
    job = await support.start("…", id="ticket-81")        # submitted, for a worker; the same id twice is one job

A call from inside another agent is part of that job, in a scope of its own; `hf.spawn` makes it a separate job.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from holdfast.agents import context
from holdfast.agents.context import Context
from holdfast.agents.job_handle import Host, Job
from holdfast.agents.signatures import Signature, plain
from holdfast.engine import children
from holdfast.engine.durable_call import check_result
from holdfast.engine.execution import Execution
from holdfast.errors import InvalidSetting
from holdfast.model.budget import Budget
from holdfast.model.ids import check_name
from holdfast.model.job_deadline import parse_timeout
from holdfast.model.jobs import JobDraft
from holdfast.model.python_pin import HERE
from holdfast.model.retry import Retry
from holdfast.model.time import Duration
from holdfast.model.work import check_kind_part

P = ParamSpec("P")
R = TypeVar("R")


class Agent(Generic[P, R]):
    """A kind of job. Made by `hf.agent`."""

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, R]],
        *,
        name: str,
        queue: str,
        priority: int,
        host: Callable[[], Awaitable[Host]],
        budget: Budget | None = None,
        capability: str | None = None,
        boundaries: Sequence[str] = (),
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            msg = f"the agent {name} is not declared with `async def`"
            raise InvalidSetting(
                msg,
                hint="Write it as `async def`; put blocking code into a tool or step, which may be a plain `def`.",
            )
        functools.update_wrapper(self, function)
        self.name = check_name(name, "agent name")
        self.function = function
        self.signature = Signature(function)
        self.queue = queue
        self.priority = priority
        self._host = host
        self.budget = budget
        self.retry = self.declared_retry = retry
        self.timeout_us = self.declared_timeout_us = None if timeout is None else parse_timeout(timeout)
        self.capability = None if capability is None else check_kind_part(capability, "capability")
        self.boundaries = tuple(check_kind_part(boundary, "boundary") for boundary in boundaries)
        if self.capability is not None and len(self.signature.names) != 1:
            msg = f"the agent {name} takes work items, and must have one parameter; it has {len(self.signature.names)}"
            raise InvalidSetting(msg, hint="Give it one: `work: hf.Work`.")

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        execution = context.find_drive()
        if execution is None:
            return await self._run(args, kwargs, None)
        arguments = self.signature.bind(args, kwargs)
        with execution.scope(self.name):
            bound = self.signature.call_with(arguments)
            return await self.function(*bound.args, **bound.kwargs)

    @overload
    async def run(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload
    async def run(self, *args: Any, id: str | None, **kwargs: Any) -> R: ...

    async def run(self, *args: Any, **kwargs: Any) -> R:
        """Submits a durable job, executes it and its children in this process, and returns the agent's result. A
        second call with the same `id` continues the same job, or waits for the process that executes it."""
        return await self._run(args, kwargs, kwargs.pop("id", None))

    @overload
    async def start(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...

    @overload
    async def start(self, *args: Any, id: str | None, **kwargs: Any) -> Job[R]: ...

    async def start(self, *args: Any, **kwargs: Any) -> Job[R]:
        """Submits a durable job for a worker: this process executes it only inside `app.running()`. A second call
        with the same `id` returns the same job."""
        host, job_id = await self._submit("start", args, kwargs, kwargs.pop("id", None))
        return Job(job_id, host, self.signature.result)

    async def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], job_id: str | None) -> R:
        host, job_id = await self._submit("run", args, kwargs, job_id)
        return cast("R", self.signature.result(await host.drive(job_id)))

    async def _submit(
        self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any], job_id: str | None
    ) -> tuple[Host, str]:
        if context.find_drive() is not None:
            msg = f"{self.name}.{method} inside a job"
            raise InvalidSetting(
                msg,
                hint=f"Use `await hf.spawn({self.name}, …)`: it starts the job once, even if this job is resumed.",
            )
        host = await self._host()
        return host, await host.start(self.draft(self.signature.bind(args, kwargs), job_id=job_id))

    def check_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checks arguments by name (from a model, a plan, a schedule) against the type hints; returns them as JSON."""
        self.signature.no_secrets(arguments)
        checked = self.signature.bind((), arguments)
        self.signature.call_with(checked)
        return checked

    async def outcome(self, arguments: dict[str, Any]) -> Any:
        """Runs these arguments as a separate job and returns its result as JSON. Inside a job it is a child."""
        execution = context.find_drive()
        if execution is not None:
            return await children.spawn(execution, self.draft(arguments))
        host = await self._host()
        return await host.drive(await host.start(self.draft(arguments)))

    def admit(self, arguments: Mapping[str, Any], unknown: AbstractSet[str]) -> None:
        """Checks that the agent accepts arguments of these names; those in `unknown` have no value yet, and may be of
        any type."""
        self.signature.no_secrets(arguments)
        self.signature.admit(arguments, unknown)

    def draft(self, arguments: dict[str, Any], *, job_id: str | None = None) -> JobDraft:
        """Builds the draft of a job with these arguments, after checking them against the type hints."""
        self.signature.call_with(arguments)
        return JobDraft(
            kind=self.name,
            input=arguments,
            queue=self.queue,
            priority=self.priority,
            job_id=job_id,
            python_version=HERE,
            budget=self.budget,
        )

    async def program(self, execution: Execution, arguments: Any) -> Any:
        """The program that a worker runs for a job of this kind."""
        context.enter(execution, Context(execution.owner.job_id, execution.owner.namespace, self.name))
        bound = self.signature.call_with(arguments or {})
        output = plain(await self.function(*bound.args, **bound.kwargs), f"the result of {self.name}")
        check_result(output)  # a parent must be able to load it, too
        return output

    async def take_work(self, execution: Execution, work_input: Any) -> Any:
        """The program that a worker runs for a work item that asks for this agent's capability."""
        (work,) = self.signature.names
        return await self.program(execution, {work: work_input})

    def __repr__(self) -> str:
        return f"<agent {self.name}>"


async def spawn(agent: Agent[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs the agent as a child job and returns its result. The child is started once: a resumed parent finds it
    again, and a cancelled parent cancels it."""
    execution = context.drive("hf.spawn")
    draft = agent.draft(agent.signature.bind(args, kwargs))
    return cast("R", agent.signature.result(await children.spawn(execution, draft)))
