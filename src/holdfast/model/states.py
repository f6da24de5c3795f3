"""State machine of a job: its statuses, the events that change them, and the mail that wakes it, as tables.

The journal is the truth and `fold` reads it; these tables say which event may follow which. A worker checks them before
it writes, `verify` checks them afterwards, and the documentation draws its picture from them.

                    ┌──────────────── job_requeued · job_released ───────────────┐
                    ▼                                                            │
    job_created ─▶ pending ──job_claimed──▶ running ──job_waiting · job_parked──▶ waiting ──job_claimed──▶ running
                                              │         job_dead_lettered · job_stalled  │
                                              └──▶ completed · failed · cancelled ◀──────┘ (by a short hold,
                                                                                            also from pending)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from holdfast.errors import InvalidPayload


class Status(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class WaitReason(StrEnum):
    """Why a waiting job waits. The reason decides what may wake it.

    SUSPECT is in no journal: the job is ready, and only a worker that can isolate it claims it
    (`model.crash_suspects`).
    """

    TIMER = "timer"
    SIGNAL = "signal"
    APPROVAL = "approval"
    RECONCILE = "reconcile"
    CHILD = "child"
    DRIFT = "drift"
    STALLED = "stalled"
    BUDGET = "budget"
    DEAD_LETTER = "dead_letter"
    RESTORE_REVIEW = "restore_review"
    JOINED = "joined"
    SUSPECT = "suspect"


class MailKind(StrEnum):
    """Kinds of mail: what senders other than the holder may send to a job."""

    SIGNAL = "signal"
    CANCEL = "cancel"
    APPROVAL = "approval"
    RECONCILE = "reconcile"
    BUDGET = "budget"
    CHILD = "child"
    RESUME = "resume"


class Slot(StrEnum):
    """A session job either owns the session's turn or waits behind the one that does."""

    LIVE = "live"
    BEHIND = "behind"


TERMINAL: Final = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})

HELD: Final = frozenset(
    {WaitReason.DRIFT, WaitReason.STALLED, WaitReason.DEAD_LETTER, WaitReason.RESTORE_REVIEW}
)
"""Reasons that only a person ends: a stray signal must not start such a job again."""

FOR_A_PERSON: Final = HELD | {
    WaitReason.RECONCILE,
    WaitReason.APPROVAL,
    WaitReason.BUDGET,
    WaitReason.SUSPECT,
}
"""Reasons that a person is asked to end: by a decision, an answer or a larger budget."""

_UNHOLDING: Final = frozenset({MailKind.RESUME, MailKind.CANCEL})

NOWHERE: Final = None
MOVES: Final[dict[str, dict[Status | None, Status]]] = {
    "job_created": {NOWHERE: Status.PENDING},
    "job_claimed": {
        Status.PENDING: Status.RUNNING,
        Status.WAITING: Status.RUNNING,
        Status.RUNNING: Status.RUNNING,
    },
    "job_released": {Status.RUNNING: Status.PENDING},
    "job_waiting": {
        Status.RUNNING: Status.WAITING,
        Status.PENDING: Status.WAITING,
        Status.WAITING: Status.WAITING,
    },
    "job_parked": {Status.RUNNING: Status.WAITING},
    "job_stalled": {Status.RUNNING: Status.WAITING},
    "job_requeued": {
        Status.RUNNING: Status.PENDING,
        Status.WAITING: Status.PENDING,
        Status.PENDING: Status.PENDING,
    },
    "job_dead_lettered": {
        Status.RUNNING: Status.WAITING,
        Status.WAITING: Status.WAITING,
        Status.PENDING: Status.WAITING,
    },
    "job_completed": {
        Status.RUNNING: Status.COMPLETED,
        Status.WAITING: Status.COMPLETED,
        Status.PENDING: Status.COMPLETED,
    },
    "job_failed": {
        Status.RUNNING: Status.FAILED,
        Status.WAITING: Status.FAILED,
        Status.PENDING: Status.FAILED,
    },
    "job_cancelled": {
        Status.RUNNING: Status.CANCELLED,
        Status.WAITING: Status.CANCELLED,
        Status.PENDING: Status.CANCELLED,
    },
}
"""Event type → {status before: status after}. Any other event leaves the status and requires a job that has not ended.

A job that joined a turn before any worker claimed it has only `job_created` in its journal, and completes with that
turn: hence from pending to completed.
"""

DRIVEN: Final = frozenset(
    {
        "plan_generated",
        "node_started",
        "node_finished",
        "step_finished",
        "call_cancelled",
        "call_moved",
        "call_retried",
        "llm_requested",
        "llm_responded",
        "llm_repurchased",
        "tool_called",
        "checkpoint_saved",
        "turn_committed",
        "inputs_claimed",
        "timer_set",
        "signal_taken",
        "question_asked",
        "approval_requested",
        "child_started",
        "budget_reached",
        "progress_reported",
    }
)
"""Events that only the holder of the job writes: they leave the status and require a running job.

So no intent and no result of the job's own code ever follows the event that gave the job back. Events that mail or a
short hold may cause (a cancel, a reconciled call, a signal, a due timer, a checkpoint of the kit) are not among them.
"""


def next_status(status: Status | None, event_type: str) -> Status | None:
    """The status after `event_type`, or None when the journal may not continue with it."""
    table = MOVES.get(event_type)
    if table is not None:
        return table.get(status)
    if status is None or status in TERMINAL or (event_type in DRIVEN and status is not Status.RUNNING):
        return None
    return status


def wakes(reason: WaitReason | None, kind: MailKind) -> bool:
    """Whether mail of this kind makes a job that waits for `reason` claimable again.

    A joined job waits behind another turn of its session: only the end of that turn frees it.
    """
    if reason is WaitReason.JOINED:
        return False
    if reason in HELD:
        return kind in _UNHOLDING
    return True


_SPELLINGS: Final = {
    "canceled": "cancelled",
    "in-progress": "running",
    "in_progress": "running",
    "queued": "pending",
}


def parse_status(text: str) -> Status:
    """The status for any spelling that other systems use (`CANCELLED`, `in-progress`)."""
    spelling = text.strip().lower()
    try:
        return Status(_SPELLINGS.get(spelling, spelling))
    except ValueError:
        msg = f"{text!r} is not a status"
        raise InvalidPayload(msg, hint=f"Use one of {', '.join(Status)}.") from None
