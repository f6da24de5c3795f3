"""An application whose jobs are submitted, called and served. Its tools talk to the receiver in the environment.

holdfast worker submit_app.py
python submit_app.py start | call | run | together | send | give_up | wait
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, Literal, cast

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")

app = hf.App(
    durability=cast("Literal['output', 'strict']", os.environ.get("APP_DURABILITY", "output")),
    concurrency=int(os.environ.get("APP_CONCURRENCY", "16")),
)


async def tell(call: str, item: str, key: str = "") -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(json.dumps({"call": call, "item": item, "key": key}).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


@app.tool(effect="read_only")
async def look(item: str) -> str:
    """Read something."""
    return str(await tell("look", item))


@app.tool(effect="idempotent", key_lifetime="24h")
async def pay(item: str, *, key: hf.Key = hf.KEY) -> str:
    """Pay: the same key again is the same payment."""
    return str(await tell("pay", item, key))


@app.tool(effect="unsafe")
async def fax(item: str) -> str:
    """Fax: it arrives as often as it is sent, and its receiver cannot be asked."""
    return str(await tell("fax", item))


@app.agent
async def faxing(item: str) -> str:
    return await fax(item)


@app.agent
async def paying(item: str) -> str:
    first = await pay(f"{item}-1")
    return f"{first}, {await pay(f'{item}-2')}"


@app.agent
async def family(item: str, children: int = 1) -> list[str]:
    return await asyncio.gather(*(hf.spawn(looking, f"{item}-{number}") for number in range(children)))


@app.agent
async def looking(item: str) -> str:
    return await look(item)


@app.agent
async def reading(pages: int) -> int:
    async def book(name: str) -> None:
        for number in range(pages):
            await look(f"{name}-{number}")

    await asyncio.gather(*(book(name) for name in ("a", "b", "c")))
    return pages


@app.session
async def clerk(turn: hf.Turn) -> str:
    return await pay(str(turn.said[-1]["content"]))


async def start() -> None:
    """A script that submits, and goes on with something else."""
    await paying.start("mine", id="mine")
    await tell("script", "has submitted")


async def call() -> None:
    await tell("script", f"returned {await family('mine')}")


async def run() -> None:
    await tell("script", f"returned {await paying.run('mine', id='mine')}")


async def together() -> None:
    """Two calls in this process under one id."""
    results = await asyncio.gather(paying.run("mine", id="mine"), paying.run("mine", id="mine"))
    await tell("script", f"returned {results[0]}")
    await tell("script", f"returned {results[1]}")


async def send(text: str) -> None:
    await tell("script", f"returned {await clerk.session('ada').send(text)}")


async def give_up() -> None:
    """A script that stops waiting for a call, and lives on."""
    try:
        async with asyncio.timeout(1):
            await paying.run("mine", id="mine")
    except TimeoutError:
        await tell("script", "gave up")


async def wait() -> None:
    job = await paying.start("mine", id="mine")
    await tell("script", f"returned {(await asyncio.gather(job.result(), job.result()))[0]}")


if __name__ == "__main__":
    scripts = {one.__name__: one for one in (start, call, run, together, send, give_up, wait)}
    asyncio.run(cast("Any", scripts[sys.argv[1]](*sys.argv[2:])))
