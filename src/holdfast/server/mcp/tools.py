"""The table of MCP tools: a name, the type of the arguments, and the handler.

The description of a tool is the docstring of its arguments, and its JSON schema is made from their types: what the
model reads is what is checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from holdfast.client.client import Client
from holdfast.server.mcp.lease_keeper import Keeping


class Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool. The docstring of each subclass is the tool's description for a model."""


A = TypeVar("A", bound=Args)


class McpContext(msgspec.Struct, frozen=True):
    """What a tool's handler works with."""

    client: Client
    keeping: Keeping

    @property
    def caller(self) -> str:
        """The author of a command, as the journal records it."""
        return "mcp" if self.keeping.agent is None else f"mcp:{self.keeping.agent.handle}"


Act = Callable[[McpContext, A], Awaitable[Any]]


class ServerTool(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    name: str
    description: str
    args: type[A]
    act: Act[A]
    reads: bool

    def schema(self) -> dict[str, Any]:
        """The arguments as JSON schema, an object at its root."""
        whole = msgspec.json.schema(self.args)
        root: dict[str, Any] = whole["$defs"].pop(self.args.__name__)
        for extra in ("title", "description"):
            root.pop(extra, None)
        return {**root, "$defs": whole["$defs"]} if whole["$defs"] else root


class ToolTable:
    """Tools in the order in which they are listed."""

    def __init__(self) -> None:
        self.tools: dict[str, ServerTool[Any]] = {}

    def add(self, tool: ServerTool[Any]) -> None:
        assert tool.name not in self.tools, f"two tools are called {tool.name}"
        self.tools[tool.name] = tool

    def tool(self, args: type[A], *, reads: bool = False) -> Callable[[Act[A]], Act[A]]:
        """Declares the decorated function as a tool of its name. `reads`: it changes nothing."""

        def add(act: Act[A]) -> Act[A]:
            description = " ".join((args.__doc__ or "").split())
            self.add(ServerTool(name=act.__name__, description=description, args=args, act=act, reads=reads))
            return act

        return add


TABLE: Final = ToolTable()
