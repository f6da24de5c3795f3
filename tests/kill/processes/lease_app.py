"""An application that blocks its event loop, and one that leaves it.

holdfast worker lease_app.py
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")


def tell(call: str, item: str, key: str = "") -> str:
    """Blocks until the receiver answers."""
    with socket.create_connection((HOST, int(PORT))) as connection:
        connection.sendall(json.dumps({"call": call, "item": item, "key": key}).encode() + b"\n")
        with connection.makefile() as answers:
            return str(json.loads(answers.readline()))


async def find_mail(key: str, _args: object) -> hf.Happened | hf.NotHappened | hf.CannotTell:
    found = tell("find", key, key)
    return hf.Happened(found) if found.startswith("sent") else hf.NotHappened()


@hf.tool(effect="verifiable", probe=find_mail, timeout="5s")
async def mail(item: str, *, key: hf.Key = hf.KEY) -> str:
    return tell("mail", item, key)


@hf.tool
async def fax(item: str) -> str:
    return tell("fax", item)


@hf.tool(effect="read_only")
async def read(item: str) -> str:
    return tell("read", item)


@hf.tool(effect="read_only")
async def read_without_blocking(item: str) -> str:
    return await asyncio.to_thread(tell, "read", item)


@hf.agent
async def mails(item: str) -> str:
    return await mail(item)


@hf.agent
async def faxes(item: str) -> str:
    return await fax(item)


@hf.tool
async def fax_without_blocking(item: str) -> str:
    return await asyncio.to_thread(tell, "fax", item)


@hf.agent
async def waits_for_fax(item: str) -> str:
    return await fax_without_blocking(item)


@hf.agent
async def reads(item: str) -> str:
    return await read(item)


@hf.agent
async def waits(item: str) -> str:
    return await read_without_blocking(item)


def leave_the_loop() -> None:
    """The loop is closed while a job runs on it, and the process goes on."""
    loop = asyncio.new_event_loop()
    loop.create_task(waits.run("left", id="job"))  # noqa: RUF006 - it is left on purpose
    arrived = loop.run_in_executor(None, sys.stdin.readline)
    loop.run_until_complete(arrived)
    loop.close()
    print("closed", file=sys.stderr, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    leave_the_loop()
