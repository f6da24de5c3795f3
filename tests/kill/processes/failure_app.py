"""An application whose code raises, hangs and blocks.

holdfast worker failure_app.py
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import holdfast as hf

PRICES = {"tea": 3}
SECRET = "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2"


def find_price(item: str) -> int:
    return PRICES[item]  # KEY ERROR


@hf.tool(effect="read_only")
async def look(item: str) -> int:
    """Read the price of something."""
    return find_price(item)


@hf.tool(effect="unsafe")
async def fax(item: str) -> str:
    """Fax: the line refuses."""
    raise ConnectionError("refused: nothing was sent")  # REFUSED


@hf.tool(effect="unsafe", timeout="1s")
async def dial(item: str) -> str:
    """Dial: the other side never answers."""
    await asyncio.sleep(60)  # HANGS
    return item


@hf.tool(effect="unsafe")
async def draw(item: str) -> Any:
    """Draw: what it returns cannot be stored."""
    return object()


@hf.tool(effect="unsafe")
async def hang(item: str) -> str:
    """Hang: its worker is killed meanwhile."""
    Path(os.environ["MARK"]).touch()
    await asyncio.sleep(60)
    return item


@hf.tool(effect="read_only")
async def block(item: str) -> str:
    """Block the event loop."""
    time.sleep(60)  # noqa: ASYNC251 - what the watchdog reports  # BLOCKS
    return item


def login(password: str) -> None:
    raise ValueError(f"{password} is no password")


@hf.agent
async def buys() -> int:
    return await look("nope")


@hf.agent
async def leaks() -> None:
    login(SECRET)


@hf.agent
async def grouped() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(look("nope"))


@hf.agent
async def faxes() -> str:
    return await fax("order")


@hf.agent
async def dials() -> str:
    return await dial("order")


@hf.agent
async def draws() -> Any:
    return await draw("order")


@hf.agent
async def hangs() -> str:
    return await hang("order")


@hf.agent
async def blocks() -> str:
    return await block("loop")
