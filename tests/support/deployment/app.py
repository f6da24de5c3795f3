"""The application of the deployments that tests make; the environment says where its outside world is."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx2
import openai

import holdfast as hf

OUTSIDE = os.environ["RELEASE_OUTSIDE"]
FOLDER = Path(os.environ["RELEASE_FOLDER"])

app = hf.App()


async def tell(what: str, key: str = "") -> str:
    async with httpx2.AsyncClient(timeout=300, trust_env=False) as http:
        response = await http.post(f"{OUTSIDE}/{what}", headers={"Idempotency-Key": key})
        return str(response.json()["did"])


@app.tool(effect="idempotent", key_lifetime="24h")
async def first(*, key: hf.Key = hf.KEY) -> str:
    """The first thing to do."""
    return await tell("first", key)


@app.tool(effect="idempotent", key_lifetime="24h")
async def second(*, key: hf.Key = hf.KEY) -> str:
    """The second thing to do."""
    return await tell("second", key)


@app.tool(effect="idempotent", key_lifetime="24h")
async def third(*, key: hf.Key = hf.KEY) -> str:
    """The third thing to do."""
    return await tell("third", key)


PLAN = [
    {"name": "a", "tool": "first", "args": {}},
    {"name": "b", "tool": "second", "args": {}, "after": ["a"]},
    {"name": "c", "tool": "third", "args": {}, "after": ["b"]},
]
planner = hf.llm([{"calls": [{"tool": "submit_plan", "args": {"nodes": PLAN}}]}])


@app.agent
async def planned(goal: str) -> str:
    plan = await hf.plan(planner, goal, tools=[first, second, third])
    outcomes = await hf.execute(plan)
    return " ".join(str(outcomes[node.name].value) for node in plan.order())


@app.tool(effect="unsafe")
async def once(what: str) -> str:
    """Never repeated by itself: who is called twice, was called twice."""
    return await tell(f"once/{what}")


@app.agent
async def one_step(what: str) -> str:
    return await once(what)


@app.tool(effect="idempotent", key_lifetime="24h")
async def pay(what: str, *, key: hf.Key = hf.KEY) -> str:
    """The same key again is the same payment."""
    return await tell(f"pay/{what}", key)


async def was_mailed(_key: str, args: dict[str, Any]) -> hf.Happened | hf.NotHappened:
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as http:
        response = await http.get(f"{OUTSIDE}/mail/{args['what']}")
    return hf.Happened("mailed") if response.json()["arrived"] else hf.NotHappened()


@app.tool(effect="verifiable", probe=was_mailed, timeout="2s")
async def mail(what: str) -> str:
    """It arrives as often as it is sent; but it can be asked for."""
    return await tell(f"mail/{what}")


@app.step(effect="read_only")
async def look(what: str) -> str:
    return what


@app.agent
async def order(what: str) -> str:
    """A read, a payment and a mail: each of them a moment to be killed in."""
    found = await look(what)
    await pay(found)
    return await mail(found)


@app.step(effect="read_only")
async def nothing() -> None:
    """A step as short as steps get."""


@app.agent
async def short() -> str:
    await nothing()
    return "done"


@app.agent
async def speaks() -> str:
    async with openai.AsyncOpenAI(base_url=f"{OUTSIDE}/v1", api_key="none") as client:
        words = 0
        async for _ in await hf.wrap(client).chat.completions.create(
            model="endless", stream=True, messages=[{"role": "user", "content": "speak"}]
        ):
            words += 1
        return f"{words} words"


@app.tool(effect="unsafe")
async def toil() -> None:
    """A tool that runs a program which does not end."""
    program = await asyncio.create_subprocess_exec("sleep", "1000")
    (FOLDER / "pid").write_text(str(program.pid))
    try:
        await tell("toil")
        await program.wait()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


@app.agent
async def toils() -> None:
    await toil()
