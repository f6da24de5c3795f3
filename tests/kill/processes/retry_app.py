"""An application whose calls fail: receivers that are down, too slow, or not to be reached.

holdfast worker retry_app.py
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")
UP = Path("receiver-is-up")
"""A test makes this file when the outage is over."""


async def tell(call: str, item: str, key: str = "") -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(json.dumps({"call": call, "item": item, "key": key}).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


async def tell_if_up(call: str, item: str, key: str = "") -> str:
    answer = await tell(call, item, key)
    if not UP.exists():
        msg = f"{item} is down"
        raise ConnectionResetError(msg)
    return str(answer)


@hf.tool(effect="read_only")
async def look_up(item: str) -> str:
    return await tell_if_up("look_up", item)


@hf.tool(effect="idempotent", key_lifetime="24h")
async def pay(item: str, *, key: hf.Key = hf.KEY) -> str:
    return await tell_if_up("pay", item, key)


@hf.tool(sent_nothing=(ConnectionRefusedError,), retry=hf.Retry(initial="1s", maximum="1s"))
async def fax(item: str) -> str:
    """Unsafe: it is sent once. The machine refuses the connection at first, and then gets nothing."""
    await tell("dial", f"number of {item}")
    if not UP.exists():
        msg = "nothing was sent"
        raise ConnectionRefusedError(msg)
    return str(await tell("fax", item))


@hf.tool(sent_nothing=(ConnectionRefusedError,), retry=hf.Retry(initial="100ms"))
async def telex(item: str) -> str:
    """Unsafe: the first connection is refused, the second breaks after everything was sent."""
    await tell("telex", item)
    if not UP.exists():
        UP.touch()
        msg = "nothing was sent"
        raise ConnectionRefusedError(msg)
    msg = "the line broke"
    raise ConnectionResetError(msg)


@hf.tool(effect="read_only", retry=hf.Retry(attempts=4, initial="1s", maximum="1s", jitter=0))
async def hopeless(item: str) -> str:
    await tell("hopeless", item)
    msg = f"{item} is away"
    raise ConnectionResetError(msg)


async def nothing_happened(_key: str, args: dict[str, Any]) -> hf.NotHappened:
    await tell("probe", args["item"])
    return hf.NotHappened()


@hf.tool(effect="verifiable", probe=nothing_happened, timeout="300ms", retry=hf.Retry(attempts=2))
async def book(item: str) -> str:
    """It always takes longer than it may."""
    await tell("book", item)
    await asyncio.sleep(5)
    return item


@hf.agent
async def outage() -> list[str]:
    return [await look_up("register"), await pay("invoice"), await fax("receipt")]


@hf.agent
async def faxes() -> str:
    return await fax("receipt")


@hf.agent
async def telexes() -> str:
    return await telex("offer")


@hf.agent
async def gives_up() -> str:
    try:
        return await hopeless("shop")
    except ConnectionError as error:
        return f"gave up: {error}"


@hf.agent
async def too_slow() -> str:
    return await book("table")


@hf.agent
async def wrong_code() -> str:
    await look_up("first")
    return len(5)  # type: ignore[arg-type,return-value]
