"""A chat assistant with a tool. Each conversation outlives the process: run it again and it remembers.

python examples/chat.py            # three messages, one after the other
python examples/chat.py --talk     # talk to it yourself; an empty line ends
"""

from __future__ import annotations

import asyncio
import sys

import holdfast as hf

STOCK = {"kelp": 12, "dulse": 0, "nori": 40}


@hf.tool(effect="read_only")
async def in_stock(plant: str) -> str:
    """How much of a plant is in stock."""
    return f"{STOCK.get(plant, 0)} bundles of {plant}"


gardener = hf.Assistant(
    "gardener",
    model=[  # or model="anthropic:claude-sonnet-5"
        {"when": "stock", "calls": [{"tool": "in_stock", "args": {"plant": "kelp"}}]},
        {"after": "in_stock", "text": "There are {result}."},
        {"when": "name", "text": "The first thing you told me was: {first}"},
        "Good to hear from you.",
    ],
    instructions="You keep the sea garden. Be brief.",
    tools=[in_stock],
)


async def main() -> None:
    session = gardener.session("ada")
    if "--talk" not in sys.argv:
        for said in ("I am Ada.", "How much kelp is in stock?", "What is my name?"):
            print(f"> {said}\n{await session.send(said)}")
        return
    while said := (await asyncio.to_thread(input, "> ")).strip():
        print(await session.send(said))


if __name__ == "__main__":
    asyncio.run(main())
