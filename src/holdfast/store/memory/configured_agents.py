"""Configured agents in memory."""

from __future__ import annotations

import msgspec

from holdfast.errors import Conflict, NotFound
from holdfast.model.configured_agents import HostedAgent, check_agent
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.store.memory.state import MemoryState

_CURSOR = "agents"


class MemoryAgents:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def create(self, agent: HostedAgent) -> HostedAgent:
        agent = check_agent(agent)
        with self._state.transaction() as work:
            work.need_namespace(agent.namespace)
            stored = self._find_by_name(agent.name, agent.namespace)
            if stored is not None:
                if (stored.kind, stored.configuration) == (agent.kind, agent.configuration):
                    return stored
                raise Conflict(f"there is another agent called {agent.name!r}", hint="Choose another name.")
            if (agent.namespace, agent.agent_id) in work.tables.agents:
                raise Conflict(f"there is another agent {agent.agent_id!r}", hint="Choose another id.")
            created = msgspec.structs.replace(agent, created_at=work.wall)
            work.tables.agents[agent.namespace, agent.agent_id] = created
            return created

    async def get(self, agent_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent:
        agent = self._state.tables.agents.get((namespace, agent_id))
        if agent is None:
            raise NotFound(f"there is no agent {agent_id!r}", hint="Create it first.")
        return agent

    async def find(self, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent | None:
        return self._find_by_name(name, namespace)

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[HostedAgent]:
        found = [agent for (owner, _), agent in self._state.tables.agents.items() if owner == namespace]
        found.sort(key=lambda agent: agent.name)
        if cursor is not None:
            (last,) = decode_cursor(_CURSOR, cursor, keys=1)
            found = [agent for agent in found if agent.name > str(last)]
        page = tuple(found[:limit])
        return Page(page, encode_cursor(_CURSOR, page[-1].name) if page and len(found) > limit else None)

    def _find_by_name(self, name: str, namespace: str) -> HostedAgent | None:
        agents = self._state.tables.agents.values()
        return next((agent for agent in agents if (agent.namespace, agent.name) == (namespace, name)), None)
