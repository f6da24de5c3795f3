"""Orphan tasks: tasks of job code that still run when the agent's function has returned.

The job has ended then, and they are cancelled: their remaining work is never done. That is rarely intended, so the log
names each such place of the code once per process.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable
from typing import Any, Final

from holdfast.engine.stall_detector import format_waits, is_library_file

_PLACES_MAX: Final = 1000

_named: set[tuple[str, str]] = set()

log = logging.getLogger("holdfast.tasks")


def warn_about_orphans(job_id: str, tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Logs the tasks that the function of a job has left running. Tasks that it has cancelled are not reported."""
    for task in tasks:
        coroutine = task.get_coro()
        if task.done() or task.cancelling() or not inspect.iscoroutine(coroutine):
            continue
        if is_library_file(coroutine.cr_code.co_filename):
            continue
        (report,) = format_waits({task})
        name = report["task"]
        place = next((line for line in reversed(report["stack"]) if not is_library_file(line)), "")
        if (name, place) in _named:
            continue
        if len(_named) < _PLACES_MAX:
            _named.add((name, place))
        log.warning(
            "job %s returned while its task %s was not done%s. The task is cancelled, and what it had left to do is"
            " not done. Await it before the function returns, in an asyncio.TaskGroup for instance, or cancel it.",
            job_id,
            name,
            f" (at {place})" if place else "",
        )
