"""An application that is killed. Its arguments: the store, what to do, where the witness writes, the model's address.

A call that must be cut off waits for a file that the test makes before the second process starts."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import anthropic

import holdfast as hf

STORE, WHAT, FOLDER, MODELS = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
GO_ON = FOLDER / "go-on"
app = hf.App(store=STORE)


def note(line: str) -> None:
    """One line in the witness's file: what really happened, whoever remembers it."""
    with (FOLDER / "witness").open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


async def let_go() -> None:
    if not GO_ON.exists():
        await asyncio.get_running_loop().create_future()


# ── a stream ──────────────────────────────────────────────────────────────────────────────────────


@app.agent
async def reader() -> str:
    async with anthropic.AsyncAnthropic(base_url=MODELS, api_key="test") as plain:
        claude = hf.wrap(plain)
        first = await claude.messages.create(
            model="first", max_tokens=50, messages=[{"role": "user", "content": "one"}]
        )
        async with claude.messages.stream(
            model="second", max_tokens=50, messages=[{"role": "user", "content": "two"}]
        ) as stream:
            answer = await stream.get_final_text()
        return f"{first.content[0].text} / {answer}"  # type: ignore[union-attr]


# ── parallel tools ────────────────────────────────────────────────────────────────────────────────


@app.tool(effect="unsafe")
async def mail(to: str) -> str:
    """Send a mail."""
    note(f"mail {to}")
    return "sent"


@app.tool(effect="idempotent")
async def pay(cents: int, *, key: hf.Key) -> str:  # the same key again is the same payment
    """Pay."""
    note(f"pay {cents} {key}")
    await let_go()
    return "paid"


llm = hf.llm(
    [
        {
            "turn": 0,
            "calls": [
                {"tool": "mail", "args": {"to": "ada"}},
                {"tool": "mail", "args": {"to": "bob"}},
                {"tool": "pay", "args": {"cents": 5}},
            ],
        },
        "All done.",
    ]
)


@app.agent
async def worker() -> str:
    said: list[Any] = [hf.user("go")]
    while True:
        reply = await llm.ask(said, tools=[mail, pay])
        if not reply.calls:
            return reply.text
        said += [reply.message, await hf.run_tools(reply, [mail, pay])]


# ── a sub-agent ───────────────────────────────────────────────────────────────────────────────────


@app.step(effect="unsafe")
async def begin() -> None:
    note("child began")


@app.step(effect="read_only")
async def wait_there() -> str:
    note("child waits")
    await let_go()
    return "child done"


@app.agent
async def child() -> str:
    await begin()
    return await wait_there()


@app.agent
async def parent() -> str:
    said = await hf.spawn(child)
    return f"parent heard: {said}"


# ── a conversation that outgrew its model ─────────────────────────────────────────────────────────

assistant = app.assistant(
    "talker",
    model=[
        {"when": "Summarise", "text": "Ada said her name.", "pace": "10ms" if GO_ON.exists() else "1h"},
        {"when": "again", "text": "I know: {first}"},
        "Hello. " * 50,
    ],
    context_tokens_max=50,
)


async def main() -> None:
    async with app.running() as process:
        if WHAT == "talker":
            session = assistant.session("ada")
            await session.send("I am Ada", id="m-1")
            await (await session.post("again?", id="m-2")).result()
            return
        started = {"reader": reader, "worker": worker, "parent": parent}[WHAT]
        await (await started.start(id=WHAT)).result()
        await process.store.info()


asyncio.run(main())
