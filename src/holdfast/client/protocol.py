"""What anybody may ask of Holdfast and say to it. The docstrings are the contract, for every implementation.

Every write takes an `operation_id`. The same one again, with the same content, is answered like the first time and
writes nothing (`repeated`); with other content it raises KeyReused. Without one the client makes one up, so a caller
that wants to repeat a call after a lost answer brings its own.

A word to a job (cancel, signal, reconcile, approve, resume, a raised budget) is durable when the call returns. If
nobody drives the job and no code is needed, it is also done (`Accepted.at_once`); otherwise whoever drives the job next
reads it first.

A refused call leaves nothing behind. Jobs of another namespace are NotFound.
"""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.client.following_protocol import Following
from holdfast.client.hosting_protocol import Hosting
from holdfast.client.operating_protocol import Operating
from holdfast.client.records import Accepted, Checked, EventView, JobView, Need, Trace
from holdfast.client.work_protocol import Working
from holdfast.model.budget import Budget
from holdfast.model.jobs import DEFAULT_QUEUE, JobFilter, JobRecord, Submitted
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT
from holdfast.model.page import Page


class Client(Hosting, Operating, Following, Working, Protocol):
    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 -- the word for it everywhere else
        *,
        job_id: str | None = None,
        request_key: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: int = PRIORITY_DEFAULT,
        session_id: str | None = None,
        ready_at: int = 0,
    ) -> Submitted:
        """A durable job exists for this request. Its id or its request key stands for the request: sent again, it is
        the same job; with other content, KeyReused."""
        ...

    async def get(self, job_id: str) -> JobView:
        """The job as it stands now, or NotFound."""
        ...

    async def list(
        self,
        which: JobFilter | None = None,
        *,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[JobRecord]:
        """Jobs, newest first. The cursor of one page leads to the next."""
        ...

    async def events(self, job_id: str, *, after: int = 0, limit: int | None = None) -> tuple[EventView, ...]:
        """The facts after this seq, in order. A fact that this version does not know is shown all the same."""
        ...

    async def trace(self, job_id: str) -> Trace:
        """The job's life: its calls, who drove it when, and what recovery did and why."""
        ...

    async def verify(self, job_id: str) -> Checked:
        """The job's chain and grammar, recomputed from its first event, and its head against them."""
        ...

    async def result(self, job_id: str, *, timeout_s: float | None = None) -> JobView:
        """The job once it is over, whichever way. NotOver when the time is up first; the job goes on."""
        ...

    # ── words to a job ────────────────────────────────────────────────────────────────────────────

    async def cancel(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """The job will do nothing more to the outside and ends `cancelled`. InvalidMove if it is over."""
        ...

    async def signal(
        self, job_id: str, name: str, body: Any = None, *, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """The signal is in the job's mail. InvalidMove if the job is over."""
        ...

    async def answer(
        self,
        job_id: str,
        said: Any,
        *,
        question_id: str | None = None,
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        """The answer to what the job asks is in its mail. `said` is a value, or text as somebody typed it. Without a
        `question_id` it is the only question that is open.

        Raises:
            NotFound: No such question.
            InvalidPayload: It does not fit.
            InvalidMove: Nobody waits for it, or several questions are open.
            Conflict: Somebody was quicker.
        """
        ...

    async def reconcile(
        self,
        job_id: str,
        step_key: str,
        decision: str,
        *,
        why: str,
        by: str,
        result: Any = None,
        generation: int | None = None,
        operation_id: str | None = None,
    ) -> Accepted:
        """A person has said what became of an uncertain call; the job goes on from there.

        `happened` (with the call's result), `not_happened` (it is made again, under a new key), `skip` (the code gets
        `result` instead), `fail` (the code gets an error). Without a generation the newest is meant.

        Raises:
            NotFound: No such call.
            InvalidMove: It is not uncertain; or `not_happened` before the last instant at which the old worker could
                still have sent it, which the message names.
            Conflict: Somebody has decided already.
        """
        ...

    async def approve(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """The call may be made. `approval` is its id, or the id of a job with one open approval (or with `step_key`).

        Raises:
            NotFound: No such approval.
            Conflict: It was decided already.
        """
        ...

    async def deny(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """The call may not be made. As `approve`."""
        ...

    async def resume(
        self,
        job_id: str,
        *,
        choice: str = "continue",
        why: str = "",
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        """A job that is held for a person (parked, stalled, restored, dead) may go on, with attempts and takeovers from
        nothing.

        `continue` goes on from the last commit of state with the code as it is; `accept` lets recorded calls that the
        code does not ask for any more rest. InvalidMove if the job is not held.
        """
        ...

    async def raise_budget(
        self,
        job_id: str,
        limits: Budget,
        *,
        budget_id: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        """A budget that counts for this job has at least these limits; whoever waits for it goes on.

        Limits are totals, and are only raised. Without a `budget_id` it is the budget that stopped the job; if none
        did, its own, or the nearest of its ancestors'.

        Raises:
            NotFound: No such job, or no such budget counts for it.
            InvalidMove: The job is over, or no budget counts for it.
            InvalidPayload: Nothing would be more than it is.
        """
        ...

    # ── what needs a person ───────────────────────────────────────────────────────────────────────

    async def waiting_for_person(self) -> tuple[Need, ...]:
        """Everything that a person is asked to decide, longest waiting first: of jobs that wait for it, and of running
        jobs that have an uncertain call, an approval or a question open beside other work."""
        ...

    async def dead_letters(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Need]:
        """Work that used up its attempts, newest first, with causes."""
        ...

    async def requeue(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """The dead letter is tried again: same job, same journal, same keys. InvalidMove if it is none."""
        ...

    async def discard(
        self, job_id: str, *, why: str, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        """The dead letter is over, cancelled by name and reason. InvalidMove if it is none."""
        ...
