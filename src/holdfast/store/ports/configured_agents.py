"""Configured agents: a model, instructions and tools in the store, without code of their own."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.configured_agents import HostedAgent
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page


class ConfiguredAgents(Protocol):
    async def create(self, agent: HostedAgent) -> HostedAgent:
        """Store the agent; returns the stored one.

        An agent of the same name, kind and configuration is the same agent, and keeps the id it has. Another agent
        under the same name or id raises Conflict, and nothing changes.
        """
        ...

    async def get(self, agent_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent:
        """The agent. Raises NotFound."""
        ...

    async def find(self, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent | None:
        """The agent of this name, if there is one."""
        ...

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[HostedAgent]:
        """Agents by name, a page at a time; pass the cursor of a page to get the next."""
        ...
