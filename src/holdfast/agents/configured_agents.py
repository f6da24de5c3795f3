"""Configured agents: one program takes the turns of all agents that are a configuration in the store.

    holdfast agent create helper --model anthropic:claude-sonnet-4-5 --tool lookup

A message to such an agent is a job of kind `assistant` that names the agent. Its turn reads the configuration once,
as a step, so a replay uses the configuration of the first run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.agents import context
from holdfast.agents.assistant import CONTEXT_TOKENS_MAX, Assistant
from holdfast.agents.context import Context
from holdfast.agents.conversation import Session
from holdfast.agents.job_handle import Host
from holdfast.agents.models.model import Model, llm
from holdfast.agents.schemas import Callee
from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.execution import Execution
from holdfast.errors import InvalidMove, InvalidSetting
from holdfast.model import canonical
from holdfast.model.configured_agents import ASSISTANT, Configuration, HostedAgent, check_agent
from holdfast.model.ids import check_name
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT

REMEMBERED: Final = 64


class AgentSettings(msgspec.Struct, frozen=True):
    """The configuration of an agent as a turn records it."""

    name: str
    configuration: Configuration


class HostedAssistants:
    """Takes the turns of every configured assistant, with the tools of one application."""

    def __init__(self, tools: Mapping[str, Callee], host: Callable[[], Awaitable[Host]]) -> None:
        self._tools = tools
        self._host = host
        self._made: OrderedDict[bytes, Assistant] = OrderedDict()
        self._models: dict[str, Model] = {}

    async def program(self, execution: Execution, job_input: Any) -> Any:
        """The program that a worker runs for a message to a configured agent."""
        context.enter(execution, Context(execution.owner.job_id, execution.owner.namespace, ASSISTANT))
        agent_id = job_input.get("agent") if isinstance(job_input, dict) else None
        if not isinstance(agent_id, str):
            msg = f"job {execution.owner.job_id} does not name its agent"
            raise InvalidMove(msg, hint='Its input is {"agent": ID}; `holdfast agent list` shows the ids.')
        return await self._assistant(await _told(execution, agent_id)).program(execution, job_input)

    def _assistant(self, settings: AgentSettings) -> Assistant:
        """The assistant of this configuration, from a cache: it keeps what it remembers of its conversations."""
        key = canonical.encode(msgspec.to_builtins(settings))
        if key not in self._made:
            configuration = settings.configuration
            self._made[key] = Assistant(
                settings.name,
                model=None if configuration.model is None else self._model(configuration.model),
                instructions=configuration.instructions,
                tools=select_tools(configuration.tools, self._tools),
                context_tokens_max=configuration.context_tokens_max or CONTEXT_TOKENS_MAX,
                host=self._host,
            )
        self._made.move_to_end(key)
        if len(self._made) > REMEMBERED:
            self._made.popitem(last=False)
        return self._made[key]

    def _model(self, name: str) -> Model:
        """One client for each model, shared by all agents that use it."""
        if name not in self._models:
            self._models[name] = llm(name)
        return self._models[name]


async def _told(execution: Execution, agent_id: str) -> AgentSettings:
    """Reads the agent's configuration as a recorded step: a replay gets the recorded one."""

    async def run(_key: str) -> Any:
        if execution.store is None:
            msg = f"job {execution.owner.job_id} is of a configured agent, and there is no store here to read it from"
            raise InvalidMove(msg, hint="Replay it where its store is.")
        agent = await execution.store.agents.get(agent_id, namespace=execution.owner.namespace)
        return msgspec.to_builtins(AgentSettings(agent.name, agent.configuration))

    return msgspec.convert(
        await execution.call(DurableCall("agent", {"agent": agent_id}, run, READS)), AgentSettings
    )


def select_tools(names: tuple[str, ...], tools: Mapping[str, Callee]) -> list[Callee]:
    """The tools of these names; raises an error that names the missing ones."""
    missing = [name for name in names if name not in tools]
    if missing:
        msg = f"the application has no tool called {', '.join(map(repr, missing))}"
        raise InvalidSetting(msg, hint=f"There are: {', '.join(sorted(tools)) or 'none'}.")
    return [tools[name] for name in names]


def check_hosted(agent: HostedAgent, tools: Mapping[str, Callee] | None = None) -> HostedAgent:
    """Checks that the agent can take a turn, as far as this process can see; without `tools`, the turn itself checks
    its tools."""
    check_agent(agent)
    if agent.configuration.model is not None:
        llm(agent.configuration.model)
    if tools is not None:
        select_tools(agent.configuration.tools, tools)
    return agent


class Contact(msgspec.Struct, frozen=True):
    """A configured agent as the recipient of messages."""

    given: Any
    name: str = ASSISTANT
    queue: str = DEFAULT_QUEUE
    priority: int = PRIORITY_DEFAULT


def session_with(agent: HostedAgent, session_id: str, host: Callable[[], Awaitable[Host]]) -> Session:
    """The conversation of this name with a configured agent. It begins with its first message."""
    contact = Contact(given={"agent": agent.agent_id})
    return Session(check_name(session_id, "session id"), contact, host)
