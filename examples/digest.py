"""A digest that cron starts. The day is the job's id, so two crons, or one that fires twice, make one digest.

0 7 * * *   cd /srv/digest && python examples/digest.py
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys

import holdfast as hf

llm = hf.llm(["Today: the tide is high, nobody was hurt, and the kelp grows."])


@hf.step(effect="read_only")
def headlines(day: str) -> list[str]:
    return [f"{day}: high tide", f"{day}: no accidents", f"{day}: kelp grows"]


@hf.step(effect="idempotent")
async def publish(day: str, text: str) -> str:
    """Written under the day's name: writing it again changes nothing."""
    return f"digest of {day}: {text}"


@hf.agent
async def digest(day: str) -> str:
    news = await headlines(day)
    reply = await llm.ask([hf.user("Write a digest of: " + "; ".join(news))])
    return await publish(day, reply.text)


async def main(day: str) -> None:
    print(await digest.run(day, id=f"digest-{day}"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else dt.datetime.now(dt.UTC).date().isoformat()))
