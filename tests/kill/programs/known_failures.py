"""Known failures: programs that people wrote, each of which an earlier engine parked, repeated or left stuck."""

from __future__ import annotations

from typing import Final

GATHER_BESIDE_SLEEP: Final = """
async def first():
    return [await pay("a1"), await pay("a2")]


async def second():
    await asyncio.sleep(0.3)
    return [await pay("b1")]


@app.agent
async def main():
    return await asyncio.gather(first(), second())
"""

AS_COMPLETED: Final = """
async def settle(n):
    x = await look(f"r-{n}")
    return await pay(f"p-{x}")


@app.agent
async def main():
    out = []
    for next_one in asyncio.as_completed([settle(n) for n in range(4)]):
        out.append(await next_one)
    return sorted(out)
"""

AS_COMPLETED_BODY: Final = """
@app.agent
async def main():
    out = []
    for next_one in asyncio.as_completed([look(f"r{n}") for n in range(4)]):
        out.append(await pay(f"p-{await next_one}"))
    return sorted(out)
"""

DONE_OF_WAIT: Final = """
@app.agent
async def main():
    tasks = [asyncio.create_task(look(f"r{n}")) for n in range(4)]
    done, pending = await asyncio.wait(tasks)
    out = []
    for task in done:
        out.append(await pay(f"p-{task.result()}"))
    return sorted(out)
"""

TIMEOUT_AROUND_WAIT: Final = """
@app.agent
async def main():
    try:
        async with asyncio.timeout(2):
            await hf.wait("never")
    except TimeoutError:
        await pay("late")
    return "over"
"""

TIMEOUT_AROUND_SPAWN: Final = """
@app.agent
async def child():
    await hf.wait("never")


@app.agent
async def main():
    try:
        await asyncio.wait_for(hf.spawn(child), 2)
    except TimeoutError:
        await pay("late")
    return "over"
"""

TICKS_BESIDE_WAIT: Final = """
SIGNALS = {"paid": 3600.0}


async def tick():
    for n in range(3):
        await asyncio.sleep(1)
        await pay(f"tick{n}")


@app.agent
async def main():
    ticking = asyncio.create_task(tick())
    await hf.wait("paid")
    return ticking.done()
"""

MOVE_ON_AFTER: Final = """
@app.agent
async def main():
    with anyio.move_on_after(4) as scope:
        await hf.wait("never")
    await pay("a")
    with anyio.move_on_after(4) as scope:
        await look("slow", seconds=100000)
    await pay("b")
    return scope.cancelled_caught
"""

TIMER_FROM_CALLBACK: Final = """
@app.agent
async def main():
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.call_later(1, lambda: loop.call_later(1, over.set))
    await pay("a")
    await over.wait()
    await pay("b")
    return "over"
"""

THREAD_BESIDE_WAIT: Final = """
SIGNALS = {"paid": 30.0}


@app.agent
async def main():
    thread = asyncio.create_task(asyncio.to_thread(crunch, "four"))
    body = await hf.wait("paid")
    return [body, await thread]
"""

SLOW_CALLS: Final = """
async def fetch(n):
    return await look(f"r{n}", seconds=20)


@app.agent
async def main():
    return await asyncio.gather(*[fetch(n) for n in range(8)])
"""

POLLING: Final = """
@app.agent
async def main():
    task = asyncio.create_task(look("r"))
    while not task.done():
        await asyncio.sleep(0)
    return [task.result(), await pay("p")]
"""

RENAMED: Final = """
async def fetch(n):
    return await look(f"r{n}")


async def settle(n):
    return await pay(f"p{n}")


@app.agent
async def main():
    first = await asyncio.gather(fetch(1), fetch(2))
    return [first, await asyncio.gather(settle(1), settle(2)), await mail("m")]
"""

KNOWN: Final = {
    name.lower(): source
    for name, source in list(globals().items())
    if name.isupper() and isinstance(source, str)
}
"""Name → source."""
