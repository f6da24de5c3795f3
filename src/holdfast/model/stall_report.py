"""Stall report: where the code of a stalled job stands, with the author's own lines first.

The engine writes a report as `{"why": …, "tasks": [{"task": …, "stack": ["file:line in function", …]}]}`, each stack
from the outermost frame to the innermost. The innermost frames often belong to asyncio or to a library; the line to
look at is the last one of the author's code. A file's path decides whether it belongs to a library, because the reader
of a report may run on another machine than the worker that wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

_STANDARD_LIBRARY: Final = re.compile(
    r"[\\/]lib(?:64)?[\\/]python3[^\\/]*[\\/]|[\\/]python3\d+[\\/]lib[\\/]|^<frozen ", re.IGNORECASE
)
_PACKAGES: Final = re.compile(r"[\\/](?:site|dist)-packages[\\/]")


def arrange_report(report: Any) -> dict[str, Any]:
    """The report for a person: each task with `at`, the author's line where it stands. A part that cannot be read is
    left out."""
    report = report if isinstance(report, dict) else {}
    tasks = report.get("tasks")
    arranged = []
    for task in tasks if isinstance(tasks, list) else []:
        if isinstance(task, dict) and isinstance(stack := task.get("stack"), list):
            lines = [str(line) for line in stack]
            arranged.append(
                {"task": str(task.get("task", "")), "at": find_author_line(lines), "stack": lines}
            )
    return {"why": str(report.get("why", "")), "tasks": arranged}


def find_author_line(stack: Sequence[str]) -> str:
    """The innermost line of the author's own code; without one the innermost line of an installed package, then of
    anything. Empty, if there is no line at all."""
    authored = [line for line in stack if not is_library(line)]
    installed = [line for line in stack if _PACKAGES.search(line)]
    lines = authored or installed or list(stack)
    return lines[-1] if lines else ""


def is_library(line: str) -> bool:
    """Whether a line of a stack is in the standard library or in an installed package."""
    return bool(_PACKAGES.search(line) or _STANDARD_LIBRARY.search(line))


def is_installed(line: str) -> bool:
    """Whether a line of a stack is in an installed package."""
    return bool(_PACKAGES.search(line))


def summarize_report(report: Any) -> str:
    """Why the job is stalled and the first of the author's lines, in one line."""
    arranged = arrange_report(report)
    places = [task["at"] for task in arranged["tasks"] if task["at"]]
    why: str = arranged["why"]
    return f"{why} ({places[0]})" if places else why
