"""An application of ordinary asyncio code. Its tools talk to the receiver that the environment names.

holdfast worker app.py
python app.py interrupted | unfinished
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Any

import holdfast as hf

HOST, _, PORT = os.environ["RECEIVER"].partition(":")


def request(call: str, item: str, key: str) -> bytes:
    return json.dumps({"call": call, "item": item, "key": key}).encode() + b"\n"


async def tell(call: str, item: str, key: str = "") -> Any:
    reader, writer = await asyncio.open_connection(HOST, int(PORT))
    try:
        writer.write(request(call, item, key))
        return json.loads(await reader.readline())
    finally:
        writer.close()


@hf.tool(effect="read_only")
async def look(item: str) -> str:
    """Read something."""
    return str(await tell("look", item))


@hf.tool(effect="idempotent", key_lifetime="24h")
async def pay(item: str, reference: str = "", *, key: hf.Key = hf.KEY) -> str:
    """Pay: the same key again is the same payment."""
    return str(await tell("pay", item, f"{key} {reference}"))


async def was_mailed(_key: str, args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    item = args["item"]
    return hf.Happened(f"mail {item}") if await tell("probe", item) else hf.NotHappened()


@hf.tool(effect="verifiable", probe=was_mailed, timeout="2s")
async def mail(item: str) -> str:
    """Mail: it arrives as often as it is sent, and its receiver can be asked."""
    return str(await tell("mail", item))


@hf.tool(effect="unsafe")
async def fax(item: str) -> str:
    """Fax: it arrives as often as it is sent, and its receiver cannot be asked."""
    return str(await tell("fax", item))


# ── 1: a sleep that is pending ────────────────────────────────────────────────────────────────────

EFFECTS = {"idempotent": pay, "verifiable": mail, "unsafe": fax}


@hf.agent
async def siblings(effect: str) -> list[list[str]]:
    send: Any = EFFECTS[effect]

    async def first() -> list[str]:
        return [await send(f"{effect}-a1"), await send(f"{effect}-a2")]

    async def second() -> list[str]:
        await asyncio.sleep(0.3)
        return [await send(f"{effect}-b1")]

    return list(await asyncio.gather(first(), second()))


# ── 2: sets of coroutines and of tasks ────────────────────────────────────────────────────────────


@hf.agent
async def completed_first(numbers: int) -> list[str]:
    async def order(number: int) -> str:
        page = await look(f"page-{number}")
        reference = hf.uuid()
        return f"{page}, {await pay(f'order-{number}', str(reference))}"

    return sorted([await one for one in asyncio.as_completed([order(number) for number in range(numbers)])])


@hf.agent
async def every_done(numbers: int) -> list[str]:
    tasks = [asyncio.create_task(look(f"part-{number}")) for number in range(numbers)]
    done, _ = await asyncio.wait(tasks)
    paid = [await pay(f"for {task.result()}") for task in done]
    await pay("last")
    return sorted(paid)


# ── 3: time limits around durable waits ───────────────────────────────────────────────────────────


@hf.agent
async def limited_wait() -> str:
    await look("wait begins")
    try:
        async with asyncio.timeout(2):
            await hf.wait("never")
    except TimeoutError:
        await look("wait is over")
        return "timed out"
    return "signalled"


@hf.agent
async def sleeper() -> str:
    await hf.wait("never")
    return "signalled"


@hf.agent
async def limited_spawn() -> str:
    await look("spawn begins")
    try:
        return await asyncio.wait_for(hf.spawn(sleeper), 2)
    except TimeoutError:
        await look("spawn is over")
        return "timed out"


@hf.agent
async def ticking() -> str:
    async def tick() -> None:
        for number in range(3):
            await asyncio.sleep(0.3)
            await look(f"tick-{number}")

    await asyncio.gather(hf.wait("go"), tick())
    return "went"


# ── 4: timers that are recorded, and threads ──────────────────────────────────────────────────────


@hf.agent
async def sleeps() -> int:
    for number in range(20):
        await asyncio.sleep(0.2)
        await pay(f"slept-{number}")
    await pay("sleeps end")
    return 20


@hf.agent
async def cancel_scopes() -> int:
    import anyio

    for number in range(4):
        with anyio.move_on_after(1):
            await anyio.sleep_forever()
        await pay(f"moved-{number}")
    await pay("cancel_scopes end")
    return 4


@hf.agent
async def callbacks() -> int:
    loop = asyncio.get_running_loop()

    def set_later(done: asyncio.Future[None]) -> None:
        loop.call_later(0.5, done.set_result, None)

    for number in range(4):
        done = loop.create_future()
        loop.call_later(0.5, set_later, done)
        await done
        await pay(f"called-{number}")
    await pay("callbacks end")
    return 4


def measure(item: str) -> str:
    with socket.create_connection((HOST, int(PORT))) as line, line.makefile("rwb") as stream:
        stream.write(request("measure", item, ""))
        stream.flush()
        return str(json.loads(stream.readline()))


@hf.agent
async def threaded() -> list[str]:
    async def signalled() -> str:
        await hf.wait("one")
        await look("after one")
        await hf.wait("two")
        return await look("after two")

    return list(await asyncio.gather(asyncio.to_thread(measure, "thread"), signalled()))


# ── 5: the end of a process ───────────────────────────────────────────────────────────────────────


@hf.agent
async def eight(name: str) -> list[str]:
    return await asyncio.gather(*(pay(f"{name}-{number}") for number in range(8)))


async def unfinished() -> None:
    """A script that ends while jobs run that it called in tasks: one under an id, and one without."""
    started = asyncio.create_task(eight.run("started", id="started"))
    calling = asyncio.create_task(eight("called"))
    await tell("script", "the end")
    assert not started.done()
    assert not calling.done()


# ── 6: polling ────────────────────────────────────────────────────────────────────────────────────


@hf.agent
async def polling() -> list[str]:
    async def polled(call: Any) -> str:
        task: asyncio.Task[str] = asyncio.create_task(call)
        while not task.done():  # noqa: ASYNC110 - polling is what is tried here
            await asyncio.sleep(0)
        return task.result()

    return [await polled(look("polled read")), await polled(pay("polled payment"))]


@hf.tool(effect="read_only")
async def wait_and_look(item: str) -> str:
    await asyncio.sleep(0.3)
    return str(await tell("look", item))


@hf.agent
async def polling_beside_timers() -> list[str]:
    """One task polls with `sleep(0)`; another one sets a timer of a millisecond, over and over."""

    async def tick() -> list[str]:
        found = asyncio.create_task(look_often())
        while not found.done():
            await asyncio.wait({found}, timeout=0.001)
        return found.result()

    async def look_often() -> list[str]:
        return [await wait_and_look(f"page {number}") for number in range(4)]

    ticking = asyncio.create_task(tick())
    while not ticking.done():  # noqa: ASYNC110 - polling is what is tried here
        await asyncio.sleep(0)
    return ticking.result()


# ── 7: a helper that another version of this file calls by another name ───────────────────────────

llm = hf.llm("anthropic:writer", base_url=os.environ.get("MODELS", "http://localhost"), api_key="none")


async def write_chapter(number: int) -> str:
    facts = await look(f"facts-{number}")
    return (await llm.ask([hf.user(f"Chapter {number}, from: {facts}")])).text


async def print_chapter(number: int) -> str:
    return await pay(f"printed-{number}")


@hf.agent
async def written() -> list[str]:
    chapters = await asyncio.gather(write_chapter(0), write_chapter(1))
    await look("proofs")
    return list(chapters)


@hf.agent
async def printed() -> list[str]:
    return list(await asyncio.gather(print_chapter(0), print_chapter(1), print_chapter(2)))


if __name__ == "__main__":
    match sys.argv[1]:
        case "interrupted":
            asyncio.run(eight("gathered"))
        case "unfinished":
            asyncio.run(unfinished())
