"""Tasks of the kit: a job whose journal is written by short holds, while a program with its own loop does the work.

No worker serves its queue, so only the kit writes to it, and each write is one transaction that acquires the job,
appends and gives it back. Any number of processes may do so at once; the journal puts them in one order.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from holdfast.errors import InvalidMove, InvalidName
from holdfast.kit.blocking_portal import Database
from holdfast.model.append import NOTHING, Extras, Move
from holdfast.model.events import Event, JobCompleted, JobFailure
from holdfast.model.hash_chain import Head
from holdfast.model.ids import check_name
from holdfast.model.jobs import JobDraft, JobHead
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.states import TERMINAL, Status
from holdfast.store.ports.journal import Decide, Ruling

TASK_KIND: Final = "kit.task"
TASK_QUEUE: Final = "kit.tasks"
ITEMS_QUEUE: Final = "kit"
TASK_ID_MAX: Final = 150

_WORDS: Final = {
    Status.COMPLETED: "succeeded",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


def task_job(task_id: str) -> str:
    """The id of the task's job."""
    check_name(task_id, "task id")
    if len(task_id) > TASK_ID_MAX:
        msg = f"the task id has {len(task_id)} characters; allowed are 1 to {TASK_ID_MAX}"
        raise InvalidName(msg)
    return f"kit-task:{task_id}"


def items_queue(task_id: str | None) -> str:
    """The queue of the work items of a task: one per task, so that a worker may serve one task only."""
    return ITEMS_QUEUE if task_id is None else f"{ITEMS_QUEUE}/{task_job(task_id).removeprefix('kit-task:')}"


def task_of_queue(queue: str) -> str | None:
    """The task of a queue of work items."""
    head, slash, task_id = queue.partition("/")
    return task_id if head == ITEMS_QUEUE and slash else None


class Tasks:
    """Tasks of one store: created when first needed, written to, ended."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._known: set[str] = set()

    def ensure(self, task_id: str) -> str:
        """Create the task's job if there is none; returns its id."""
        job_id = task_job(task_id)
        self.ensure_job(job_id, {"task_id": task_id})
        return job_id

    def ensure_job(self, job_id: str, input_data: Any = None) -> None:
        if job_id not in self._known:
            draft = JobDraft(
                kind=TASK_KIND, queue=TASK_QUEUE, job_id=job_id, input=input_data, priority=PRIORITY_DEFAULT
            )
            self._db.run(self._db.store.jobs.submit(draft))
            self._known.add(job_id)

    def write(self, job_id: str, events: tuple[Event, ...], extras: Extras = NOTHING) -> Head:
        """Append the events to the job's journal, after whatever is there; InvalidMove if the job has ended."""

        def decide(head: JobHead) -> Ruling:
            return Ruling(events, keep_status(head), extras)

        return self.hold(job_id, decide)

    def hold(self, job_id: str, decide: Decide) -> Head:
        written = self._db.run(self._db.store.journal.hold(job_id, decide))
        if written is None:
            msg = f"task {job_id.removeprefix('kit-task:')!r} is over: {self.status_of(job_id)}"
            raise InvalidMove(msg, hint="Use a new task id for new work.")
        return written

    def finish(self, task_id: str, *, success: bool, output: Any = None, error: Any = None) -> None:
        """End the task. The same call again has no effect; a different result is rejected."""
        job_id = self.ensure(task_id)
        move = Move(status=Status.COMPLETED if success else Status.FAILED)
        event: Event = JobCompleted(output) if success else JobFailure(error)
        written = self._db.run(self._db.store.journal.hold(job_id, lambda _head: Ruling((event,), move)))
        if written is None and self.status_of(job_id) != _WORDS[move.status]:
            msg = f"task {task_id!r} is over already: {self.status_of(job_id)}"
            raise InvalidMove(msg)

    def status(self, task_id: str) -> str:
        """`running`, or how the task ended: `succeeded`, `failed`, `cancelled`. NotFound for an unknown task."""
        return self.status_of(task_job(task_id))

    def status_of(self, job_id: str) -> str:
        head = self._db.look(self._db.store.jobs.head(job_id))
        return _WORDS[head.status] if head.status in TERMINAL else "running"


def keep_status(head: JobHead) -> Move:
    """A status change that leaves the status as it is."""
    return Move(status=Status.PENDING, ready_at=head.ready_at)


def digest_text(*parts: str) -> str:
    """A digest of several names, whatever their length: 32 hexadecimal digits."""
    joined = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(joined).hexdigest()[:32]
