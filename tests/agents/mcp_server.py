"""A real MCP server, over stdio or HTTP. What it really did stands in a file, one line for each call.

python mcp_server.py stdio|http LOG
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

LOG = Path(sys.argv[2])

server = MCPServer("shop")


class Receipt(BaseModel):
    order: str
    cents: int


def did(*words: object) -> None:
    with LOG.open("a", encoding="utf-8") as log:
        print(os.getpid(), *words, file=log, flush=True)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def lookup(what: str) -> str:
    """Look something up."""
    did("lookup", what)
    return what.upper()


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def pay(order: str, cents: Annotated[int, Field(ge=1)], idempotency_key: str) -> Receipt:
    """Pay for an order.

    At once, and for good.
    """
    did("pay", order, idempotency_key)
    return Receipt(order=order, cents=cents)


@server.tool()
def send(to: str, ctx: Context[Any, Any]) -> str:
    """Send a letter."""
    meta = ctx.request_context.meta or {}
    did("send", to, meta.get("example.com/key", "-"))
    return f"sent to {to}"


@server.tool()
def fail(words: str) -> str:
    did("fail")
    raise ToolError(words)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def long(size: int) -> str:
    return "x" * size


@server.tool()
async def deaf() -> None:
    """Be so busy that the end of stdin is not heard."""
    did("deaf")
    time.sleep(600)  # noqa: ASYNC251 - that is the point


@server.tool()
async def block(mark: str) -> str:
    """Begin, and never end."""
    did("block", mark)
    await anyio.sleep_forever()
    return "never"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=0)
