"""Agents that are configured, not written."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.configured_agents import HostedAgent
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.page import Page


class ConfiguredAgents(Protocol):
    async def create(self, agent: HostedAgent) -> HostedAgent:
        """The agent exists; the answer is what is stored.

        One of the same name, kind and configuration is this one, and keeps the id it has. Another agent under the same
        name or id is a Conflict, and nothing changes.
        """
        ...

    async def get(self, agent_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent:
        """The agent, or NotFound."""
        ...

    async def find(self, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> HostedAgent | None:
        """The agent of this name."""
        ...

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[HostedAgent]:
        """Agents by name. The cursor of one page leads to the next."""
        ...
