"""A small application, so that the deployment does something at once. Put your own in its place.

POST /api/jobs {"kind": "greet", "input": {"name": "Ada"}} finds a worker with it.
"""

from __future__ import annotations

import holdfast as hf


@hf.tool(effect="read_only")
async def look_up(name: str) -> str:
    return name.title()


@hf.agent
async def greet(name: str) -> str:
    return f"Hello, {await look_up(name)}."
