"""Agents to kill: right ones, and ones that are wrong on purpose. `World` is what they do things to, and its memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from typing import Any

import holdfast as hf
from holdfast.agents.agents import Agent

NO_KEY = hf.Key("")


class World:
    """The outside, with a log of its own."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.kept: dict[str, str] = {}
        self.entries: Iterator[int] = itertools.count()

    def reset(self) -> None:
        self.log.clear()
        self.kept.clear()
        self.entries = itertools.count()

    def do(self, what: str, key: str = "") -> str:
        """Done once under one key, and every time without one."""
        if not key or key not in self.kept:
            self.log.append(what)
        if key:
            self.kept[key] = what
        return what


def right_agents(world: World) -> dict[str, Agent[..., Any]]:
    """One for each thing that an agent can do."""
    app = hf.App()

    @app.tool(effect="read_only")
    async def look(what: str) -> str:
        return f"seen {what}"

    @app.tool
    def send(to: str) -> str:
        return world.do(f"mail to {to}")

    @app.tool(effect="idempotent")
    async def pay(cents: int, *, key: hf.Key = NO_KEY) -> str:
        return world.do(f"paid {cents}", key)

    @app.tool(effect="verifiable", probe=lambda key, _args: found(key))
    async def book(room: str, *, key: hf.Key = NO_KEY) -> str:
        return world.do(f"booked {room}", key)

    def found(key: str) -> hf.Happened | hf.NotHappened:
        return hf.Happened(world.kept[key]) if key in world.kept else hf.NotHappened()

    @app.tool(effect="idempotent", approve=True)
    async def refund(cents: int, *, key: hf.Key = NO_KEY) -> str:
        return world.do(f"refunded {cents}", key)

    @app.tool(on_resume="relaunch")
    async def research(topic: str) -> str:
        return f"all about {topic}"

    @app.agent
    async def mails(name: str) -> str:
        await look(name)
        return await send(name)

    @app.agent
    async def pays(name: str) -> list[str]:
        return [await pay(100), await pay(100), await book(name)]

    @app.agent
    async def sleeps(name: str) -> str:
        await hf.sleep("3d")
        said = await send(name)
        await hf.sleep("1h")
        return said

    @app.agent
    async def waits(name: str) -> Any:
        paid = await hf.wait("paid:42")
        try:
            await hf.wait("never", timeout="2d")
        except TimeoutError:
            return [paid, await send(name)]

    @app.agent
    async def asks(name: str) -> str:
        return await refund(300)

    @app.agent
    async def delegates(name: str) -> list[str]:
        found, one, other = await asyncio.gather(
            research(name), hf.spawn(mails, f"{name} 1"), hf.spawn(mails, f"{name} 2")
        )
        return [found, one, other]

    @app.agent
    async def at_once(name: str) -> list[str]:
        return list(await asyncio.gather(send(f"{name} 1"), pay(5), book(name), look(name)))

    @app.agent
    async def chooses(name: str) -> str:
        day = hf.now().day
        return await (send(f"{name} {day}") if hf.random() < 0.5 else pay(day))

    @app.agent
    async def goes_on(name: str) -> str:
        done = await hf.restore(0)
        while done < 2:
            await send(f"{name} {done}")
            done += 1
            await hf.checkpoint(done)
        return f"{done} mails"

    return dict(app.agents)


def wrong_agents(world: World) -> dict[str, Agent[..., Any]]:
    """Each has one fault that an author might well make."""
    app = hf.App()

    @app.tool
    async def file(name: str) -> str:
        return f"filed {name}"

    @app.tool(effect="idempotent")
    async def charge(cents: int, *, key: hf.Key = NO_KEY) -> str:
        return world.do(f"charged {cents}")  # the key stays at home

    @app.tool(effect="read_only")
    async def greet(name: str) -> str:
        return world.do(f"greeting to {name}")  # that is no read

    @app.tool(effect="verifiable", probe=lambda _key, _args: hf.NotHappened())  # it never finds anything
    async def book(room: str) -> str:
        return world.do(f"booked {room}")

    @app.agent
    async def own_code(name: str) -> str:
        world.do(f"mail to {name}")  # not in a tool
        return await file(name)

    @app.agent
    async def no_key(name: str) -> str:
        return await charge(100)

    @app.agent
    async def no_read(name: str) -> str:
        return await file(await greet(name))

    @app.agent
    async def bad_probe(name: str) -> str:
        return await book(name)

    @app.agent
    async def tosses(name: str) -> str:
        return await (file(name) if next(world.entries) else charge(100))

    @app.agent
    async def forgets(name: str) -> str:
        return f"{await file(name)}, the {next(world.entries) + 1}st time"

    return dict(app.agents)
