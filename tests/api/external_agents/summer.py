"""An external agent in a process of its own: python summer.py URL HANDLE [--hold FILE] [--grace SECONDS]

Its work takes until FILE is there; without one it takes no time.
"""

from __future__ import annotations

import argparse
import logging
import threading
from pathlib import Path
from typing import Any

from holdfast.client import ExternalAgent, WorkAssignment

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("handle")
parser.add_argument("--hold", type=Path)
parser.add_argument("--grace", type=float, default=20.0)
given = parser.parse_args()

agent = ExternalAgent(given.url, handle=given.handle, lease_seconds=4, wait_seconds=2, grace_s=given.grace)


@agent.serves("summarize")
def summarize(work: WorkAssignment) -> dict[str, Any]:
    print("begun", work.id, work.attempt, flush=True)
    pause = threading.Event()
    while given.hold is not None and not given.hold.exists():
        pause.wait(0.02)
    return {"summary": work.description.partition(".")[0], "by": given.handle}


logging.basicConfig(level=logging.INFO)
agent.run()
