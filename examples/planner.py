"""A planner: a model says what to do, once; then it is done, in parallel, and never thought up again.

python examples/planner.py "a beach holiday"
"""

from __future__ import annotations

import asyncio
import sys

import holdfast as hf

PLAN = {
    "nodes": [
        {"name": "tides", "tool": "look_up", "args": {"what": "tides"}},
        {"name": "trains", "tool": "look_up", "args": {"what": "trains"}},
        {
            "name": "letter",
            "tool": "write_letter",
            "args": {"about": {"$ref": "tides"}, "and_also": {"$ref": "trains"}},
        },
    ]
}

llm = hf.llm([{"calls": [{"tool": "submit_plan", "args": PLAN}]}])  # or hf.llm("anthropic:claude-sonnet-5")


@hf.tool(effect="read_only")
async def look_up(what: str) -> str:
    """Look something up."""
    return f"the {what} are fine"


@hf.tool(effect="read_only")
async def write_letter(about: str, and_also: str) -> str:
    """Write a letter."""
    return f"Dear Ada, {about}, and {and_also}."


@hf.agent
async def planner(goal: str) -> str:
    plan = await hf.plan(llm, goal, tools=[look_up, write_letter])
    outcomes = await hf.execute(plan, tools=[look_up, write_letter])
    return str(outcomes["letter"].value)


if __name__ == "__main__":
    print(asyncio.run(planner(" ".join(sys.argv[1:]) or "a beach holiday")))
