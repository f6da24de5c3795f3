"""An application that does things in its own code that belong into a tool. Its provider and receiver are in the
environment.

holdfast worker undurable_app.py
python undurable_app.py AGENT
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import socket
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import openai

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")
PROVIDER = os.environ.get("PROVIDER", "http://127.0.0.1:1/v1")
MODEL = "gpt-local"

app = hf.App(on_undurable=cast("Any", os.environ.get("APP_ON_UNDURABLE")))
bare = openai.AsyncOpenAI(base_url=PROVIDER, api_key="key", max_retries=0)
wrapped = hf.wrap(bare)
blocking = hf.wrap(openai.OpenAI(base_url=PROVIDER, api_key="key"))


async def tell(item: str) -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))  # SOCKET
    try:
        writer.write(json.dumps({"call": "tell", "item": item, "key": ""}).encode() + b"\n")
        return json.loads(await reader.readline())
    finally:
        writer.close()


def tell_blocking(item: str) -> str:
    with socket.create_connection((HOST, int(PORT))) as connection:  # THREAD SOCKET
        connection.sendall(json.dumps({"call": "tell", "item": item, "key": ""}).encode() + b"\n")
        return connection.makefile().readline()


def write(name: str) -> None:
    with Path(name).open("a") as file:  # FILE
        file.write("x")


@app.tool(effect="read_only")
async def look(item: str) -> Any:
    """A socket, a file and a process where they belong."""
    write(f"{item}.txt")
    subprocess.run(["/bin/true"], check=True)  # noqa: ASYNC221 - it ends at once
    return await tell(item)


@app.tool(effect="read_only")
def look_blocking(item: str) -> str:
    return tell_blocking(item)


async def ask(client: openai.AsyncOpenAI, question: str) -> str:
    completion = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": question}]
    )
    return str(completion.choices[0].message.content)


# ── agents that are noticed ───────────────────────────────────────────────────────────────────────


@app.agent
async def connects(item: str) -> str:
    return str(await tell(item))


@app.agent
async def connects_in_a_thread(item: str) -> str:
    return await asyncio.to_thread(tell_blocking, item)


@app.agent
async def writes(item: str) -> str:
    write(f"{item}.txt")
    return item


@app.agent
async def runs(item: str) -> str:
    process = await asyncio.create_subprocess_exec("/bin/true")  # PROCESS
    await process.wait()
    return item


@app.agent
async def keeps(item: str) -> str:
    with sqlite3.connect(f"{item}.db"):  # DATABASE
        return item


@app.agent
async def asks_bare(item: str) -> str:
    return await ask(bare, item)  # BARE CLIENT


def framework_tool(item: str) -> str:
    """What a framework calls a tool: a plain function."""
    write(f"{item}.txt")
    return item


@app.agent
async def calls_framework(item: str) -> str:
    tools: dict[str, Callable[[str], str]] = {"framework_tool": framework_tool}
    return tools["framework_tool"](item)


@app.agent
async def twice(item: str) -> str:
    for _ in range(3):
        write(f"{item}.txt")
    return item


# ── agents that are not ───────────────────────────────────────────────────────────────────────────


@app.agent
async def behaves(item: str) -> str:
    await look(item)
    await look_blocking(item)
    import importlib

    sys.dont_write_bytecode = False
    Path("fresh_module.py").exists()
    importlib.import_module("fresh_module")  # its bytecode is written
    handler = logging.FileHandler(f"{item}.log", delay=True)
    logger = logging.getLogger("app")
    logger.addHandler(handler)
    logger.warning("a line in a file")
    logger.removeHandler(handler)
    handler.close()
    Path(__file__).read_text(encoding="utf-8")
    return await ask(wrapped, item)


# ── requests that differ in every run, and clients in the wrong place ─────────────────────────────

CHANGES: dict[str, Callable[[], str]] = {
    "uuid": lambda: str(uuid.uuid4()),
    "time": lambda: repr(time.time()),
    "random": lambda: repr(random.random()),
}


@app.agent
async def buys_again(item: str) -> str:
    answer = await ask(wrapped, f"{item} {CHANGES[item]()}")
    await look(item)
    return answer


@app.agent
async def asks_in_a_thread(item: str) -> str:
    return await asyncio.to_thread(lambda: asyncio.run(ask(wrapped, item)))


@app.agent
async def asks_blocking(item: str) -> str:
    completion = blocking.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": item}])
    return str(completion.choices[0].message.content)


async def main(agent: str, item: str) -> None:
    logging.basicConfig(level=logging.INFO)
    called = cast("Callable[[str], Awaitable[str]]", app.agents[agent])
    await called(item)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
