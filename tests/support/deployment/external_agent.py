"""An external agent, in a process of its own: python external_agent.py URL HANDLE BEGUN

It has begun a work item when the file BEGUN says so, and takes as long for it as its context data say; or dies of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.client import ExternalAgent, WorkAssignment

url, handle, begun = sys.argv[1:]
agent = ExternalAgent(
    url, handle=handle, max_concurrent_tasks=2, lease_seconds=2, wait_seconds=2, heartbeat_s=1.0
)


def note(line: str) -> None:
    with Path(begun).open("ab", buffering=0) as log:
        log.write(line.encode())


async def done(work: WorkAssignment) -> dict[str, Any]:
    note(f"{work.id} {work.item.fence} {handle}\n")
    if work.context_data["deadly"]:
        os.kill(os.getpid(), signal.SIGKILL)
    seconds = work.context_data["seconds"]
    await asyncio.sleep(seconds / 2)
    await work.progress(50, handle)
    await asyncio.sleep(seconds / 2)
    return {"task": work.description, "by": handle, "fence": work.item.fence}


for capability in ("far", "either"):
    agent.serves(capability)(done)
logging.basicConfig(level=logging.INFO)
agent.run()
