"""A support agent: it asks a model, looks an order up, and refunds it once, however often it is killed.

    python examples/support.py

It runs offline: the model is a small script beside this file. For a real one change one line.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import holdfast as hf

llm = hf.llm(f"scripted:{Path(__file__).with_suffix('.toml')}")  # or hf.llm("anthropic:claude-sonnet-5")


@hf.tool(effect="read_only")
async def lookup(order: str) -> str:
    """Where an order is, and in which state."""
    return f"order {order}: delivered on Monday, broken"


@hf.tool(effect="idempotent", key_lifetime="24h")
async def refund(order: str, cents: int, *, key: hf.Key = hf.KEY) -> str:
    """Give the money for an order back."""
    return f"refunded {cents / 100:.2f} for order {order}, receipt {key[-6:]}"


@hf.agent
async def support(question: str) -> str:
    messages = [hf.user(question)]
    while True:
        reply = await llm.ask(messages, tools=[lookup, refund])
        if not reply.calls:
            return reply.text
        messages += [reply.message, await hf.run_tools(reply, [lookup, refund])]


if __name__ == "__main__":
    print(asyncio.run(support(" ".join(sys.argv[1:]) or "Order 42 came broken. I want my money back.")))
