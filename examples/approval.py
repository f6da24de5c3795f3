"""A payment that a person must agree to, if it is large. The question is about exactly these arguments.

python examples/approval.py 8000       # asks; answer in another terminal, as it says
python examples/approval.py 500        # small enough: nobody is asked
"""

from __future__ import annotations

import asyncio
import sys
import uuid

import holdfast as hf

LARGE_CENTS = 50_00


@hf.tool(effect="idempotent", approve=lambda **given: given["cents"] > LARGE_CENTS)
async def transfer(to: str, cents: int, *, key: hf.Key = hf.KEY) -> str:
    """Send money."""
    return f"sent {cents / 100:.2f} to {to} ({key[-6:]})"


@hf.agent
async def treasurer(to: str, cents: int) -> str:
    try:
        return await transfer(to, cents)
    except hf.Denied as no:
        return f"not sent: {no}"


async def main(cents: int) -> None:
    job_id = f"transfer-{uuid.uuid4()}"
    if cents > LARGE_CENTS:
        print(f"It waits for an approval. In another terminal: holdfast job {job_id}", flush=True)
    print(await treasurer.run("ada", cents, id=job_id))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
