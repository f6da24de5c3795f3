"""An application in a storm: all effect classes, parallel branches, sleeps, timeouts, children; poison, blocking code.

holdfast worker app.py

Each item is the subject of one call. Its receiver answers with a receipt, and what an agent returns are receipts.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import time
from typing import Any

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")
BLOCK_S = float(os.environ.get("BLOCK_S", "40"))
"""How long blocking code blocks the event loop: longer than a lease."""

SOON = hf.Retry(attempts=10, initial="200ms", maximum="2s")


async def tell(call: str, item: str, key: str = "", reference: str = "") -> str:
    """Send one request; the receipt."""
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        request = {"call": call, "item": item, "key": key, "reference": reference}
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        msg = f"the receiver hung up during {call} {item}"
        raise ConnectionResetError(msg)
    return str(json.loads(line))


# ── tools of every class ──────────────────────────────────────────────────────────────────────────


@hf.tool(effect="read_only", timeout="5s", retry=SOON)
async def look(item: str) -> str:
    """Read."""
    return await tell("look", item)


@hf.tool(effect="idempotent", key_lifetime="24h", timeout="2s", retry=SOON)
async def pay(item: str, reference: str, *, key: hf.Key = hf.KEY) -> str:
    """Pay: the same key again is the same payment."""
    return await tell("pay", item, key, reference)


async def find_mail(_key: str, args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    receipt = await tell("probe", args["item"])
    return hf.Happened(receipt) if receipt else hf.NotHappened()


@hf.tool(effect="verifiable", probe=find_mail, timeout="2s")
async def mail(item: str) -> str:
    """Mail: it arrives as often as it is sent, and its receiver can be asked."""
    return await tell("mail", item)


@hf.tool(effect="unsafe", timeout="2s")
async def fax(item: str) -> str:
    """Fax: it arrives as often as it is sent, and its receiver cannot be asked."""
    return await tell("fax", item)


@hf.step(effect="read_only")
async def add_up(*parts: str) -> int:
    """Compute: a step that touches nothing outside."""
    return sum(len(part) for part in parts)


# ── healthy agents ────────────────────────────────────────────────────────────────────────────────


@hf.agent
async def order(number: int) -> list[str]:
    """Effects one after the other, then in parallel branches with sleeps and timeouts, then a child."""
    name = f"order-{number}"
    reference = str(hf.uuid())
    price = await look(f"{name}/price")
    deposit = await pay(f"{name}/deposit", reference)

    async def notify() -> str:
        await asyncio.sleep(0.2)
        return await mail(f"{name}/notice")

    async def insure() -> str:
        try:
            async with asyncio.timeout(0.4):
                await hf.wait("never")
        except TimeoutError:
            return await pay(f"{name}/insurance", reference)
        return "signalled"

    async def label() -> str:
        await add_up(price, deposit)
        await hf.sleep("300ms")
        return await fax(f"{name}/label")

    branches = await asyncio.gather(notify(), insure(), label())
    delivery = await hf.spawn(parcel, number)
    rest = await pay(f"{name}/rest", reference)
    return [deposit, *branches, *delivery, rest]


@hf.agent
async def parcel(number: int) -> list[str]:
    """A child: an unsafe call, reads in a task group, a verifiable call."""
    name = f"parcel-{number}"
    pickup = await fax(f"{name}/pickup")
    async with asyncio.TaskGroup() as group:
        for place in ("depot", "van", "door"):
            group.create_task(look(f"{name}/{place}"))
    return [pickup, await mail(f"{name}/delivery")]


@hf.agent
async def survey(number: int) -> list[str]:
    """Questions as they are answered, two at a time, each within a time limit; then a report."""
    name = f"survey-{number}"
    two = asyncio.Semaphore(2)

    async def question(person: str) -> str:
        async with two:
            await look(f"{name}/{person}")
            await asyncio.sleep(0.1)
            return await pay(f"{name}/{person}", str(hf.uuid()))

    people = ("ada", "bob", "cleo", "dan")
    answers = [await answer for answer in asyncio.as_completed([question(person) for person in people])]
    try:
        await asyncio.wait_for(hf.sleep("1h"), 0.3)
    except TimeoutError:
        report = await fax(f"{name}/report")
    else:
        report = "an hour passed"
    await hf.sleep("200ms")
    return [*sorted(answers), report, await mail(f"{name}/thanks")]


# ── trouble ───────────────────────────────────────────────────────────────────────────────────────


@hf.tool(effect="read_only")
async def leave(item: str) -> str:
    """End the worker's process."""
    await tell("look", item)
    os._exit(9)


@hf.tool(effect="idempotent", key_lifetime="24h")
async def crash(item: str, *, key: hf.Key = hf.KEY) -> str:
    """Crash the worker's process in native code."""
    receipt = await tell("pay", item, key)
    ctypes.string_at(0)
    return receipt


@hf.agent
async def poison(number: int) -> str:
    """A job that ends every process that runs it."""
    return await (leave if number % 2 else crash)(f"poison-{number}/pill")


def block_and_tell(call: str, item: str) -> str:
    """Send one request with a client that blocks, after it has slept; the receipt."""
    time.sleep(BLOCK_S)
    with socket.create_connection((HOST, int(PORT))) as line, line.makefile("rwb") as stream:
        stream.write(json.dumps({"call": call, "item": item, "key": "", "reference": ""}).encode() + b"\n")
        stream.flush()
        answer = stream.readline()
    if not answer:
        msg = f"the receiver hung up during {call} {item}"
        raise ConnectionResetError(msg)
    return str(json.loads(answer))


@hf.tool(effect="unsafe", timeout="5s")
async def block_and_fax(item: str) -> str:
    """Block the event loop, then send."""
    return block_and_tell("fax", item)


@hf.tool(effect="verifiable", probe=find_mail, timeout="5s")
async def block_and_mail(item: str) -> str:
    """Block the event loop, then send."""
    return block_and_tell("mail", item)


@hf.agent(queue="slow")
async def blocking(number: int) -> list[str]:
    """Code that blocks the event loop for longer than a lease lasts, before it sends."""
    name = f"blocking-{number}"
    await look(f"{name}/before")
    receipt = await (block_and_fax if number % 2 else block_and_mail)(f"{name}/stamp")
    return [receipt, await pay(f"{name}/after", str(hf.uuid()))]
