"""Python pin: a job stays with the Python version that it started on.

A replay must take the path of the first run, and what asyncio does between two steps depends on Python: a minor version
may change it. So a job records the version it was created with, and a worker on another version does not run it. The
job is parked with a report that names the version it needs; a person may accept that it continues on the one at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any, Final

HERE: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The minor version of this Python."""

FOUND: Final = "found_python"


def find_misfit(pinned: str | None, here: str, accepted: Collection[str] = ()) -> dict[str, Any] | None:
    """Why this Python version does not run the job; None if it may. A job without a version runs on any."""
    if pinned is None or pinned == here or here in accepted:
        return None
    return {
        "why": f"the job belongs to Python {pinned}, and this worker runs {here}",
        "needs_python": pinned,
        FOUND: here,
        "hint": f"Run a worker on Python {pinned} and resume the job; or accept that it goes on with {here}.",
    }
