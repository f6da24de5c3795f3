"""A job stays with the Python it began on.

A replay must go the way of the first run, and what asyncio does between two steps is Python's own: a minor version may
change it. So a job remembers the version it was made with, and a worker on another one does not drive it. The job is
parked with a report that says which Python it needs; a person may accept that it goes on with the one at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any, Final

HERE: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The minor version of this Python."""

FOUND: Final = "found_python"


def misfit(pinned: str | None, here: str, accepted: Collection[str] = ()) -> dict[str, Any] | None:
    """Why this Python does not drive the job; None if it may. A job without a version may run anywhere."""
    if pinned is None or pinned == here or here in accepted:
        return None
    return {
        "why": f"the job belongs to Python {pinned}, and this worker runs {here}",
        "needs_python": pinned,
        FOUND: here,
        "hint": f"Run a worker on Python {pinned} and resume the job; or accept that it goes on with {here}.",
    }
