"""An application whose jobs sleep, call, and begin by the clock.

holdfast worker clocks_app.py
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")


async def tell(call: str, item: str) -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(json.dumps({"call": call, "item": item, "key": ""}).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


@hf.tool(effect="read_only")
async def look(item: str) -> str:
    return str(await tell("look", item))


@hf.tool(effect="unsafe")
async def fax(item: str) -> str:
    return str(await tell("fax", item))


app = hf.App()


@app.agent
async def looker(item: str) -> str:
    return await look(item)


@app.agent
async def faxing(item: str) -> str:
    return await fax(item)


@app.agent
async def sleeper(duration: str, item: str) -> str:
    await hf.sleep(duration)
    return await look(item)


@app.schedule("* * * * *")
@app.agent
async def minutely() -> str:
    return await look("minute")
