"""Agents that are configured, not written: one program takes the turns of all of them.

    holdfast agent create helper --model anthropic:claude-sonnet-4-5 --tool lookup

A message to such an agent is a job of kind `assistant` that names the agent. Its turn reads the configuration once, as
a step, so a replay is told what the first run was told.
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
    """What a turn is told of its agent."""

    name: str
    configuration: Configuration


class HostedAssistants:
    """Takes the turns of every configured assistant, with the tools of one application."""

    def __init__(self, tools: Mapping[str, Callee], host: Callable[[], Awaitable[Host]]) -> None:
        self._tools = tools
        self._host = host
        self._made: OrderedDict[bytes, Assistant] = OrderedDict()
        self._models: dict[str, Model] = {}

    async def program(self, drive: Execution, given: Any) -> Any:
        """What a worker runs for a message to a configured agent."""
        context.enter(drive, Context(drive.owner.job_id, drive.owner.namespace, ASSISTANT))
        agent_id = given.get("agent") if isinstance(given, dict) else None
        if not isinstance(agent_id, str):
            msg = f"job {drive.owner.job_id} does not name its agent"
            raise InvalidMove(msg, hint='Its input is {"agent": ID}; `holdfast agent list` shows the ids.')
        return await self._assistant(await _told(drive, agent_id)).program(drive, given)

    def _assistant(self, told: AgentSettings) -> Assistant:
        """The assistant that is told this. It is kept, and with it what it remembers of its conversations."""
        key = canonical.encode(msgspec.to_builtins(told))
        if key not in self._made:
            configuration = told.configuration
            self._made[key] = Assistant(
                told.name,
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
        """One client for each model, however many agents ask it."""
        if name not in self._models:
            self._models[name] = llm(name)
        return self._models[name]


async def _told(drive: Execution, agent_id: str) -> AgentSettings:
    """The agent as it is configured now; in a replay, as it was then."""

    async def run(_key: str) -> Any:
        if drive.store is None:
            msg = f"job {drive.owner.job_id} is of a configured agent, and there is no store here to read it from"
            raise InvalidMove(msg, hint="Replay it where its store is.")
        agent = await drive.store.agents.get(agent_id, namespace=drive.owner.namespace)
        return msgspec.to_builtins(AgentSettings(agent.name, agent.configuration))

    return msgspec.convert(
        await drive.call(DurableCall("agent", {"agent": agent_id}, run, READS)), AgentSettings
    )


def select_tools(names: tuple[str, ...], tools: Mapping[str, Callee]) -> list[Callee]:
    """The tools of these names, or an error that names those that are not there."""
    missing = [name for name in names if name not in tools]
    if missing:
        msg = f"the application has no tool called {', '.join(map(repr, missing))}"
        raise InvalidSetting(msg, hint=f"There are: {', '.join(sorted(tools)) or 'none'}.")
    return [tools[name] for name in names]


def check_hosted(agent: HostedAgent, tools: Mapping[str, Callee] | None = None) -> HostedAgent:
    """The agent can take a turn, as far as can be seen from here; without `tools` its tools are looked for then."""
    check_agent(agent)
    if agent.configuration.model is not None:
        llm(agent.configuration.model)
    if tools is not None:
        select_tools(agent.configuration.tools, tools)
    return agent


class Contact(msgspec.Struct, frozen=True):
    """A configured agent, as those who write to it know it."""

    given: Any
    name: str = ASSISTANT
    queue: str = DEFAULT_QUEUE
    priority: int = PRIORITY_DEFAULT


def session_with(agent: HostedAgent, session_id: str, host: Callable[[], Awaitable[Host]]) -> Session:
    """The conversation of this name with a configured agent. It begins with its first message."""
    contact = Contact(given={"agent": agent.agent_id})
    return Session(check_name(session_id, "session id"), contact, host)
