"""A parent with sub-agents: each is a job of its own, started once, found again by a parent that was resumed.

python examples/research.py tides storms rocks
"""

from __future__ import annotations

import asyncio
import sys

import holdfast as hf

llm = hf.llm(
    [
        {"when": "Summarise", "text": "In short: {said}"},
        "Three things are known about it, and the third is disputed.",
    ]
)


@hf.step(effect="read_only")
def read_library(topic: str) -> str:
    """What the library has; blocking work may be a plain function."""
    return f"a shelf of books about {topic}"


@hf.agent
async def researcher(topic: str) -> str:
    found = await read_library(topic)
    reply = await llm.ask([hf.user(f"What is known about {topic}? There is {found}.")])
    return f"{topic}: {reply.text}"


@hf.agent
async def editor(topics: list[str]) -> str:
    parts = await asyncio.gather(*(hf.spawn(researcher, topic) for topic in topics))
    reply = await llm.ask([hf.user("Summarise this. " + " ".join(parts))])
    return reply.text


if __name__ == "__main__":
    print(asyncio.run(editor(sys.argv[1:] or ["tides", "storms"])))
