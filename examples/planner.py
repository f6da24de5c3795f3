"""A model makes the plan, once; the job follows it, whatever becomes of its process.

python examples/planner.py                                  # offline, with a script for a model
HOLDFAST_MODEL=anthropic:NAME python examples/planner.py    # a real one
"""

from __future__ import annotations

import asyncio
import os
import uuid
from typing import Any

import holdfast as hf

PLAN: list[dict[str, Any]] = [
    {"name": "weather", "tool": "weather", "args": {"city": "Turin"}},
    {"name": "trains", "tool": "trains", "args": {"to": "Turin"}},
    {
        "name": "book",
        "tool": "book",
        "args": {"train": {"$ref": "trains", "path": [0, "number"]}, "seats": 2},
        "after": ["weather"],
    },
    {
        "name": "letter",
        "tool": "letter",
        "args": {"forecast": {"$ref": "weather"}, "booking": {"$ref": "book"}},
    },
]
SCRIPT = [{"calls": [{"tool": "submit_plan", "args": {"nodes": PLAN}}]}]

llm = hf.llm(os.environ.get("HOLDFAST_MODEL") or SCRIPT)


@hf.tool(effect="read_only")
async def weather(city: str) -> str:
    """The forecast for a city."""
    return f"sunny in {city}"


@hf.tool(effect="read_only")
async def trains(to: str) -> list[dict[str, Any]]:
    """Trains to a city, the next one first: a list of {number, departs}."""
    return [{"number": f"{to[:2].upper()} 9512", "departs": "08:10"}, {"number": "R 17", "departs": "09:40"}]


@hf.tool(effect="idempotent", key_lifetime="24h")
async def book(train: str, seats: int, *, key: hf.Key = hf.KEY) -> str:
    """Seats on a train, by its number. Returns the booking."""
    return f"{seats} seats on {train} ({key[-6:] or 'no key'})"


@hf.tool(effect="read_only")
async def letter(forecast: str, booking: str) -> str:
    """A short note that tells of the weather and the booking."""
    return f"It will be {forecast}. You have {booking}."


@hf.agent
async def journey(goal: str) -> str:
    plan = await hf.plan(llm, goal, tools=[weather, trains, book, letter])
    outcomes = await hf.execute(plan, on_failure="skip_dependents")
    last = plan.order()[-1].name
    return str(outcomes[last].value) if outcomes[last].succeeded else f"not done: {outcomes}"


async def main() -> None:
    job_id = f"journey-{uuid.uuid4()}"
    print(await journey.run("Two seats to Turin, and a note about the weather there.", id=job_id))
    print(f"the plan: holdfast trace {job_id}")


if __name__ == "__main__":
    asyncio.run(main())
