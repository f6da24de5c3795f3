"""The application of a deployment whose workers take work beside agents that live elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast as hf

app = hf.App()


@app.step(effect="read_only")
async def toil(seconds: float) -> None:
    """So long is a moment to be killed in."""
    await asyncio.sleep(seconds)


async def done(work: hf.Work) -> dict[str, Any]:
    await toil(work.context_data["seconds"])
    return {"task": work.description, "by": "worker"}


@app.agent(capability="either")
async def either(work: hf.Work) -> dict[str, Any]:
    return await done(work)


@app.agent(capability="near")
async def near(work: hf.Work) -> dict[str, Any]:
    return await done(work)
