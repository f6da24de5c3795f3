"""What the workers of these tests run: things that fail, wait, ask, are held up, and are written down when they happen.

mail(...)       unsafe: one line in `mails` for each that went out; while `hold` is there it never comes back
tidy(...)       read-only, and quick
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import holdfast as hf

FOLDER = Path(os.environ["HOLDFAST_UI_FOLDER"])

app = hf.App()


@app.tool(effect="read_only")
async def tidy(what: str) -> str:
    """Tidied up."""
    return f"{what} is tidy"


@app.tool(effect="unsafe")
async def mail(to: str, text: str) -> str:
    """Send a letter."""
    with (FOLDER / "mails").open("a") as sent:
        sent.write(f"{to}: {text}\n")
    if (FOLDER / "hold").exists():
        await asyncio.get_running_loop().create_future()
    return f"sent to {to}"


@app.tool(effect="idempotent", approve=lambda **_: True)
async def pay(to: str, cents: int, *, key: hf.Key = hf.KEY) -> str:
    """Send money."""
    return f"paid {cents} to {to}"


@app.agent
async def clerk(to: str) -> str:
    """Two looks side by side, and a letter."""
    async with hf.scope("looking"):
        first, second = await asyncio.gather(tidy("the desk"), tidy("the shelf"))
    return f"{first}, {second}, {await mail(to, 'Dear friend')}"


@app.agent
async def treasurer(to: str, cents: int) -> str:
    return await pay(to, cents)


@app.agent
async def hopeless() -> str:
    msg = "this never works"
    raise LookupError(msg)


@app.agent
async def sleeper() -> None:
    await hf.sleep("1h")


gardener = app.assistant(
    "gardener",
    model=[{"when": "name", "text": "The first thing you told me was: {first}"}, "Good to hear from you."],
    instructions="Be brief.",
)
