"""Ordinary asyncio code, of every kind that people write. Each program's way depends on the order of its results."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio

from tests.engine.replay.stage import Program, World


async def serial(world: World) -> Any:
    seen = [await world.look(f"a{n}") for n in range(4)]
    await world.act("mail", *seen)
    return [*seen, await world.look("after")]


async def gathered(world: World) -> Any:
    """Two coroutines of two steps each, and what one does between them shows in the other."""

    async def branch(name: str) -> str:
        world.see(f"{name} starts")
        first = await world.look(f"{name}1")
        world.see(first)
        second: str = await world.look(f"{name}2", len(world.trace))
        world.see(second)
        return second

    return await asyncio.gather(branch("x"), branch("y"))


async def task_group(world: World) -> Any:
    async def branch(name: str, steps: int) -> None:
        for n in range(steps):
            world.see(await world.look(name, n, len(world.trace)))

    async with asyncio.TaskGroup() as group:
        for name in "pqr":
            group.create_task(branch(name, 3))
    return world.trace


async def failing_group(world: World) -> Any:
    """One branch fails, its siblings are cancelled in the middle of what they do."""

    async def branch(name: str) -> None:
        for n in range(3):
            world.see(await world.look(name, n))

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(branch("fine"))
            group.create_task(branch("bad"))
            group.create_task(branch("good"))
    except* LookupError as errors:
        world.see(len(errors.exceptions))
    return await world.look("afterwards", *world.trace)


async def first_come(world: World) -> Any:
    calls = [asyncio.create_task(world.look(name)) for name in "klmn"]
    for finished in asyncio.as_completed(calls):
        world.see(await finished)
        world.see(await world.look("between", len(world.trace)))
    return world.trace


async def fastest(world: World) -> Any:
    """The first of several decides, the others are given up."""
    calls = {asyncio.create_task(world.look(name)) for name in "stu"}
    done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    for call in pending:
        call.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    world.see(sorted(call.result() for call in done))
    return await world.look("won", *world.trace)


async def impatient(world: World) -> Any:
    for n in range(4):
        try:
            world.see(await asyncio.wait_for(world.look(f"slow{n}"), 0.3))
        except TimeoutError:
            world.see(f"late {n}")
            world.see(await world.look("instead", n))
    return world.trace


async def patient_block(world: World) -> Any:
    async def other() -> None:
        for n in range(4):
            world.see(await world.look("other", n))

    beside = asyncio.create_task(other())
    for n in range(3):
        try:
            async with asyncio.timeout(0.7):
                world.see(await world.look(f"block{n}"))
                world.see(await world.look("second", n))
        except TimeoutError:
            world.see(f"out of time {n}")
    await beside
    return world.trace


async def any_io(world: World) -> Any:
    send, receive = anyio.create_memory_object_stream[str](2)

    async def produce(name: str) -> None:
        for n in range(3):
            await send.send(await world.look(name, n))

    async def consume() -> None:
        for _ in range(6):
            world.see(await receive.receive())

    async with send, receive, anyio.create_task_group() as group:
        for name in ("one", "two"):
            group.start_soon(produce, name)
        group.start_soon(consume)
    with anyio.move_on_after(0.6) as scope:
        await world.look("final")
    return [*world.trace, scope.cancelled_caught]


async def nested(world: World) -> Any:
    """Agents that call agents that call agents, two at a time."""

    async def agent(depth: int, name: str) -> list[str]:
        plan = await world.look("plan", name)
        world.see(plan)
        if depth == 0:
            return [plan]
        parts = await asyncio.gather(agent(depth - 1, name + "l"), agent(depth - 1, name + "r"))
        return [await world.look("sum", *parts[0], *parts[1])]

    return await agent(2, "root")


async def forgiving(world: World) -> Any:
    for n in range(3):
        try:
            await world.look(f"bad{n}")
        except LookupError as error:
            world.see(error)
            await world.look("consolation", n)
    return world.trace


async def locked(world: World) -> Any:
    """Tasks that hand things to each other without any call in between."""
    lock, queue = asyncio.Lock(), asyncio.Queue[str]()

    async def writer(name: str) -> None:
        for n in range(2):
            item = await world.look(name, n)
            async with lock:
                world.see(item)
                await queue.put(await world.look("locked", item))

    async def reader() -> None:
        for _ in range(6):
            world.see(await queue.get())

    await asyncio.gather(writer("u"), writer("v"), writer("w"), reader())
    return world.trace


async def acting(world: World) -> Any:
    """Effects in parallel, between reads."""

    async def branch(name: str) -> str:
        found = await world.look("find", name)
        world.see(found)
        sent = await world.act(f"send_{name}", found)
        world.see(sent)
        return str(await world.look("check", sent))

    return await asyncio.gather(branch("a"), branch("b"), branch("c"))


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        serial,
        gathered,
        task_group,
        failing_group,
        first_come,
        fastest,
        impatient,
        patient_block,
        any_io,
        nested,
        forgiving,
        locked,
        acting,
    )
}
