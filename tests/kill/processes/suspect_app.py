"""An application in which one job ends the process that drives it, among jobs that do nothing wrong.

holdfast worker suspect_app.py
python suspect_app.py             # a worker, too, that cannot start its code anew
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")


async def tell(call: str, item: str, key: str = "") -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(json.dumps({"call": call, "item": item, "key": key}).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


@hf.tool(effect="read_only")
async def look(item: str) -> str:
    """Read: the receiver holds it as long as a test likes."""
    return str(await tell("look", item))


@hf.tool(effect="idempotent", key_lifetime="24h")
async def pay(item: str, *, key: hf.Key = hf.KEY) -> str:
    return str(await tell("pay", item, key))


@hf.tool(effect="read_only")
async def crash(item: str, how: str) -> str:
    """Crash: end this process at once, unless the test has mended it."""
    await tell("crash", item)
    if not Path("mended").exists():
        match how:
            case "exit":
                os._exit(9)
            case "segfault":
                ctypes.string_at(0)
            case _:
                os.kill(os.getpid(), signal.SIGKILL)
    return item


@hf.agent
async def healthy(item: str) -> list[str]:
    return [await look(f"look {item}"), await pay(f"pay {item}")]


@hf.agent
async def crashes(item: str, how: str) -> str:
    return await crash(item, how)


async def main() -> None:
    app = hf.App()
    app.agent(crashes.function)
    async with app.running():
        print("serving", file=sys.stderr, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
