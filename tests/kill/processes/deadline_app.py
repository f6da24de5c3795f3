"""An application whose jobs take longer than they may. The receiver is in the environment.

holdfast worker deadline_app.py
python deadline_app.py
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")
app = hf.App()


async def tell(call: str, item: str) -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(json.dumps({"call": call, "item": item, "key": ""}).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


@app.tool(effect="read_only")
async def look(item: str) -> str:
    return str(await tell("look", item))


@app.tool(effect="unsafe")
async def fax(item: str) -> str:
    try:
        return str(await tell("fax", item))
    except asyncio.CancelledError:
        Path("cancelled").touch()
        raise


@app.agent(timeout="3s")
async def waits() -> str:
    await look("before")
    return str(await hf.wait("what nobody says"))


@app.agent(timeout="10s")
async def looks(item: str) -> str:
    return await look(item)


@app.agent(timeout="8s")
async def faxes(item: str) -> str:
    return await fax(item)


@app.agent(timeout="3s", retry=hf.Retry(attempts=100, initial="100ms", maximum="1h", multiplier=4))
async def fails() -> None:
    raise OSError("away")


@app.agent
async def parent() -> str:
    try:
        return await hf.spawn(waits)
    except hf.JobTimedOut as error:
        return f"too late: {error}"


@app.agent
async def by_policy() -> str:
    return str(await hf.wait("what nobody says"))


async def main() -> None:
    try:
        await waits.run(id="job")
    except hf.JobTimedOut as error:
        Path("raised").write_text(f"{error.job_id}: {error}", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
