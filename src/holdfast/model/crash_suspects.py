"""Suspicion: which jobs run isolated in a child process, and when the death of that process makes a dead letter.

A worker runs many jobs in one process. Its death means that one of them may have killed it, but not which. So a death
alone convicts no job:

    its worker died               the job is taken over at once, and runs among others
    its workers died twice        without progress between: the job is a suspect, and runs alone in a child process
    the child died, its parent    convicted: dead letter
    lives
    parent and child died, or     nothing is proven: still a suspect, it runs alone again
    the child was told to drain

A signal that other processes send (SIGKILL: an operator, or the kernel when memory runs out) proves less than a crash:
it convicts at the third death in such a child. The name of the child's worker says that it runs one job alone, and for
which parent: the parent has seen how the child died, and it alone records that while it lives.

Workers that cannot start a child process skip suspects. A suspect that no worker claims is shown to a person.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from holdfast.model.events import Event, JobClaimed, JobReleased, JobRequeued
from holdfast.model.jobs import JobHead
from holdfast.model.states import Status
from holdfast.model.time import DAY, MINUTE

SUSPECT_AT: Final = 2
"""Workers that a job loses without progress before it runs alone."""

DEATHS_PER_DAY: Final = 10
"""Workers that a job loses within a day, with or without progress, before it runs alone."""

KILLS_ALONE_MAX: Final = 3

UNCLAIMED_US: Final = MINUTE
"""A suspect that has been ready for this long without a claim is shown to a person."""

STORE_AWAY: Final = 75
"""Exit status of a child that could not reach the store: proves nothing about the job."""

CLEARED: Final = "made progress alone"
DIED_ALONE: Final = "its process died while it ran alone"

_SIGNALS: Final = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
_SENT_BY_OTHERS: Final = frozenset({"SIGHUP", "SIGINT", "SIGQUIT", "SIGKILL", "SIGTERM"})
_LONE: Final = re.compile(r".*~alone~(?P<parent>[0-9]{1,10})(?:@.*)?", re.DOTALL)


class SuspicionVerdict(StrEnum):
    """What the death of a child process proves about the job that it ran alone."""

    CONVICTED = "convicted"
    SUSPECT = "suspect"
    UNPROVEN = "unproven"


def is_suspect(takeovers: int) -> bool:
    """Whether a job that lost so many workers since its last progress runs alone."""
    return takeovers >= SUSPECT_AT


def is_unclaimed(head: JobHead, changed_at: int, now: int) -> bool:
    """Whether a suspect has been ready for so long that a person is told: no worker here can run it alone, or no worker
    runs. `changed_at` is the time of its newest event."""
    if not is_suspect(head.takeovers) or head.status not in {Status.PENDING, Status.WAITING}:
        return False
    ready_at = head.ready_at if head.status is Status.PENDING else head.wake_at
    return ready_at is not None and max(ready_at, changed_at) <= now - UNCLAIMED_US


def count_deaths(events: Iterable[tuple[int, Event]], *, since: int) -> int:
    """How many workers the job has lost since then. `events` are the journal's events with their times."""
    return sum(at >= since and _is_death(event) for at, event in events)


def dies_daily(events: Iterable[tuple[int, Event]], now: int) -> bool:
    """Whether a job that makes progress loses workers so often that it runs alone nevertheless."""
    return count_deaths(events, since=now - DAY) >= DEATHS_PER_DAY


def _is_death(event: Event) -> bool:
    return isinstance(event, JobClaimed | JobRequeued) and event.takeover


def count_kills_alone(events: Iterable[tuple[int, Event]]) -> int:
    """How often the job's process has died while it ran alone, since it last made progress or was requeued."""
    count = 0
    for _, event in events:
        match event:
            case JobRequeued(takeover=True, why=why):
                count += why.startswith(DIED_ALONE)
            case JobRequeued() | JobReleased(why="made progress alone"):
                count = 0
            case _:
                pass
    return count


def judge_death(status: int, kills_alone: int, *, is_draining: bool, has_decision: bool) -> SuspicionVerdict:
    """What a child's exit status proves, if it still held its job. A status below 0 is a signal, as in `subprocess`.
    `has_decision`: a person has cancelled or requeued the job and the child has not read that; then the job is not
    convicted. Other mail changes no verdict: otherwise a job that dies before it records its mail would be tried for
    ever."""
    if is_draining or status == STORE_AWAY:
        return SuspicionVerdict.UNPROVEN
    if has_decision:
        return SuspicionVerdict.SUSPECT
    if _SIGNALS.get(-status) in _SENT_BY_OTHERS and kills_alone + 1 < KILLS_ALONE_MAX:
        return SuspicionVerdict.SUSPECT
    return SuspicionVerdict.CONVICTED


def describe_exit(status: int) -> str:
    """How a process ended: `killed by SIGSEGV`, `ended with status 9`."""
    if status >= 0:
        return f"ended with status {status}"
    name = _SIGNALS.get(-status, f"signal {-status}")
    hint = " (an operator, or the kernel when memory ran out)" if name == "SIGKILL" else ""
    return f"was killed by {name}{hint}"


def lone_label(label: str, parent_pid: int) -> str:
    """The label of a worker that runs one job alone, for its parent."""
    return f"{label}~alone~{parent_pid}"


def find_parent(worker: str) -> int | None:
    """The pid of the parent of a worker that runs one job alone; None for an ordinary worker."""
    found = _LONE.fullmatch(worker)
    return None if found is None else int(found["parent"])
