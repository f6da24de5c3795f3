"""The client over an open store: no server, no worker needed to look or to speak.

What is said to a job goes one of two ways. If nobody drives the job and no code of it has to run, a short hold writes
the fact at once; its operation id is part of the fact. Otherwise it goes as a letter, whose id the mail keeps.
Either way the id is looked for before anything is decided, so a repeat is answered and not judged a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.client import budget_raise, command_checks, job_view, needs
from holdfast.client.job_snapshot import Loaded, loaded
from holdfast.client.job_view import view_of
from holdfast.client.questions import answered, check_answer
from holdfast.client.records import Accepted, EventView, JobView, Need
from holdfast.client.sender_liveness import check_not_standing_still
from holdfast.client.short_hold import needs_its_worker, unless_moved
from holdfast.client.working import EmbeddedWorking
from holdfast.engine.short_journals import journal_of
from holdfast.errors import InvalidMove, NotFound, NotOver
from holdfast.model.append import Move
from holdfast.model.budget import Budget
from holdfast.model.events import CancelRequested, JobCancelled
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ids import check_name
from holdfast.model.jobs import (
    DEFAULT_QUEUE,
    JobDraft,
    JobFilter,
    JobHead,
    JobRecord,
    Submitted,
)
from holdfast.model.limits import PRIORITY_DEFAULT, ROWS_PER_PAGE_DEFAULT, ROWS_PER_PAGE_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.page import Page
from holdfast.model.states import HELD, TERMINAL, MailKind, Status, WaitReason
from holdfast.store.ports.journal import Ruling
from holdfast.store.store_clock import to_store_us

POLL_S: Final = 1.0
"""How long a hint may be late before the store is asked without one."""

JUST_ENDED: Final = 100
_OPEN: Final = (Status.WAITING, Status.PENDING, Status.RUNNING)


class EmbeddedClient(EmbeddedWorking):
    """See `holdfast.client.protocol.Client`. The store stays the caller's to close."""

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
        draft = JobDraft(
            kind=kind,
            input=input,
            namespace=self._namespace,
            queue=queue,
            priority=priority,
            request_key=request_key,
            session_id=session_id,
            ready_at=to_store_us(self._store.clock, ready_at) if ready_at else 0,
            # Named before it is sent, so that a request without a key can be sent again after a lost reply, too.
            job_id=self._ids.new("job") if (job_id, request_key) == (None, None) else job_id,
        )
        return await self._store.jobs.submit(draft)

    async def get(self, job_id: str) -> JobView:
        return view_of(await self._load(job_id))

    async def list(
        self,
        which: JobFilter | None = None,
        *,
        limit: int = ROWS_PER_PAGE_DEFAULT,
        cursor: str | None = None,
    ) -> Page[JobRecord]:
        which = JobFilter() if which is None else which
        mine = msgspec.structs.replace(which, namespace=self._namespace)
        return await self._store.jobs.list(mine, limit=limit, cursor=cursor)

    async def events(self, job_id: str, *, after: int = 0, limit: int | None = None) -> tuple[EventView, ...]:
        await self._head(job_id)
        sealed = await self._store.journal.read(job_id, after=after, limit=limit)
        return tuple(map(job_view.shown, sealed))

    async def result(self, job_id: str, *, timeout_s: float | None = None) -> JobView:
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        topics = frozenset({f"job:{job_id}"})
        head, sealed = await self._look(job_id)
        while head.status not in TERMINAL:
            left = POLL_S if deadline is None else min(POLL_S, deadline - loop.time())
            if left <= 0:
                msg = f"job {job_id} is {command_checks.state(head)}"
                raise NotOver(msg)
            if await self._store.wakeups.wait(topics, left):
                head, sealed = await self._look(job_id)
            else:
                head, sealed = await self._head(job_id), ()
        return view_of(await self._load_behind(head, sealed))

    # ── words to a job ────────────────────────────────────────────────────────────────────────────

    async def cancel(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        job = await self._load(job_id)
        asked = command_checks.cancel(why, by, self._operation(operation_id))
        if (earlier := command_checks.earlier_cancel(job, asked)) is not None:
            return earlier
        return await self._cancel(job, asked)

    async def _cancel(self, job: Loaded, asked: CancelRequested) -> Accepted:
        job_id = job.head.job_id
        if not needs_its_worker(job):
            ruling = Ruling((asked, JobCancelled(asked.why)), Move(status=Status.CANCELLED))
            if await self._store.journal.hold(job_id, unless_moved(job, ruling)) is not None:
                return Accepted(job_id=job_id, operation_id=asked.operation_id, at_once=True)
        try:
            return await self._send(job, command_checks.cancel_letter(asked, job_id), "cancel")
        except InvalidMove:
            # It ended a moment ago; perhaps by this very operation, which somebody sent twice at once.
            earlier = command_checks.earlier(await self._load(job_id), asked)
            if earlier is None:
                raise
            return earlier

    async def signal(
        self, job_id: str, name: str, body: Any = None, *, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        job = await self._load(job_id)
        check_name(name, "signal name")
        letter = MailDraft(
            job_id=job_id,
            kind=MailKind.SIGNAL,
            operation_id=self._operation(operation_id),
            name=name,
            body=body,
            sender=by,
        )
        if (earlier := command_checks.repeated(job, letter)) is not None:
            return earlier
        check_answer(job, name, body, now=self._clock.wall_us())
        return await self._send(job, letter, "signal")

    async def answer(
        self,
        job_id: str,
        said: Any,
        *,
        question_id: str | None = None,
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        question_id, body = answered(await self._load(job_id), said, question_id, operation_id)
        return await self.signal(job_id, question_id, body, by=by, operation_id=operation_id)

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
        job = await self._load(job_id)
        operation_id = self._operation(operation_id)
        if generation is None:
            generation = command_checks.meant_generation(job, step_key, operation_id)
        word = command_checks.word(step_key, generation, decision, why=why, by=by, result=result)
        letter = MailDraft(
            job_id=job_id, kind=MailKind.RECONCILE, operation_id=operation_id, body=word, sender=by
        )
        if (earlier := command_checks.repeated(job, letter)) is not None:
            return earlier
        if decision in command_checks.RESENDS:
            await check_not_standing_still(self._store, job, step_key, generation)
        command_checks.check_reconcile(job, word, now=self._clock.wall_us())
        need = needs.uncertain_need(job, step_key, generation)
        accepted = await self._send(job, letter, "reconcile")
        command_checks.must_be_first(needs.word_on(await self._load(job_id), need), letter)
        return accepted

    async def approve(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        return await self._decide(approval, step_key, "approved", why, by, operation_id)

    async def deny(
        self,
        approval: str,
        *,
        step_key: str | None = None,
        why: str = "",
        by: str,
        operation_id: str | None = None,
    ) -> Accepted:
        return await self._decide(approval, step_key, "denied", why, by, operation_id)

    async def _decide(
        self, approval: str, step_key: str | None, decision: str, why: str, by: str, operation_id: str | None
    ) -> Accepted:
        job, approval_id = await self._approval(approval, step_key, operation_id)
        letter = MailDraft(
            job_id=job.head.job_id,
            kind=MailKind.APPROVAL,
            operation_id=self._operation(operation_id),
            body={"approval_id": approval_id, "decision": decision, "why": why},
            sender=check_name(by, "by"),
        )
        if (earlier := command_checks.repeated(job, letter)) is not None:
            return earlier
        command_checks.check_approval(job, approval_id, now=self._clock.wall_us())
        accepted = await self._send(job, letter, decision)
        command_checks.must_be_first(needs.answer_to(await self._load(job.head.job_id), approval_id), letter)
        return accepted

    async def resume(
        self,
        job_id: str,
        *,
        choice: str = "continue",
        why: str = "",
        by: str = "",
        operation_id: str | None = None,
    ) -> Accepted:
        job = await self._load(job_id)
        command_checks.check_choice(choice)
        letter = MailDraft(
            job_id=job_id,
            kind=MailKind.RESUME,
            operation_id=self._operation(operation_id),
            body={"choice": choice, "why": why},
            sender=by,
        )
        if (earlier := command_checks.repeated(job, letter)) is not None:
            return earlier
        if job.head.wait_reason is WaitReason.DEAD_LETTER:
            return await self.requeue(job_id, why=why, by=by, operation_id=letter.operation_id)
        if (
            earlier := command_checks.earlier(job, command_checks.requeue(why, by, letter.operation_id))
        ) is not None:
            return earlier
        if job.head.wait_reason not in HELD:
            raise command_checks.not_held(job)
        return await self._send(job, letter, "resume")

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
        job, operation_id = await self._load(job_id), self._operation(operation_id)
        letter = budget_raise.letter(job, budget_id, limits, why=why, by=by, operation_id=operation_id)
        if (earlier := command_checks.repeated(job, letter)) is not None:
            return earlier
        budget_raise.check(job, letter)
        accepted = await self._send(job, letter, "raise a budget of")
        async for record in self._all(JobFilter(wait_reason=WaitReason.BUDGET)):
            other = await self._load(record.job_id)
            if budget_raise.waits_for(other, letter):
                await self._store.post.send(msgspec.structs.replace(letter, job_id=record.job_id))
        return accepted

    # ── what needs a person ───────────────────────────────────────────────────────────────────────

    async def waiting_for_person(self) -> tuple[Need, ...]:
        return await needs.list_needs(self._store.jobs, self._namespace, self._load)

    async def dead_letters(
        self, *, limit: int = ROWS_PER_PAGE_DEFAULT, cursor: str | None = None
    ) -> Page[Need]:
        page = await self.list(JobFilter(wait_reason=WaitReason.DEAD_LETTER), limit=limit, cursor=cursor)
        jobs = [await self._load(record.job_id) for record in page]
        dead = (WaitReason.DEAD_LETTER,)
        return Page(
            tuple(need for job in jobs for need in needs.needs_of(job) if need.reason in dead), page.next
        )

    async def requeue(
        self, job_id: str, *, why: str = "", by: str = "", operation_id: str | None = None
    ) -> Accepted:
        asked = command_checks.requeue(why, by, self._operation(operation_id))
        ruling = Ruling((asked,), Move(status=Status.PENDING, anew=True))
        while True:
            job = await self._load(job_id)
            if (earlier := command_checks.earlier(job, asked)) is not None:
                return earlier
            if job.head.wait_reason is not WaitReason.DEAD_LETTER:
                raise command_checks.not_dead(job)
            # If it moved while we looked, the next look says where to.
            if await self._store.journal.hold(job_id, unless_moved(job, ruling)) is not None:
                return Accepted(job_id=job_id, operation_id=asked.operation_id, at_once=True)

    async def discard(
        self, job_id: str, *, why: str, by: str = "", operation_id: str | None = None
    ) -> Accepted:
        asked = command_checks.cancel(command_checks.reason(why), by, self._operation(operation_id))
        job = await self._load(job_id)
        if (earlier := command_checks.earlier_cancel(job, asked)) is not None:
            return earlier
        if job.head.wait_reason is not WaitReason.DEAD_LETTER:
            raise command_checks.not_dead(job)
        return await self._cancel(job, asked)

    # ── reading and sending ───────────────────────────────────────────────────────────────────────

    async def _load(self, job_id: str) -> Loaded:
        return await self._load_behind(*await self._look(job_id))

    async def _load_behind(self, head: JobHead, sealed: Sequence[SealedEvent]) -> Loaded:
        sealed = await journal_of(self._store, head, sealed)
        letters = await self._store.post.read(head.job_id) if head.mail_seq else ()
        job = loaded(head, sealed, letters)
        accounts = await self._store.budgets.find(job.budgets) if job.budgets else ()
        return msgspec.structs.replace(job, accounts=tuple(accounts), now=self._store.clock.wall_us())

    async def _approval(
        self, approval: str, step_key: str | None, operation_id: str | None
    ) -> tuple[Loaded, str]:
        """The job and the id of an approval that is named by its own id, or by its job's."""
        try:
            job = await self._load(approval)
        except NotFound:
            return await self._asking(approval, operation_id), approval
        return job, command_checks.decided_before(job, operation_id) or command_checks.only_approval(
            job, step_key
        )

    async def _asking(self, approval_id: str, operation_id: str | None) -> Loaded:
        """The job that has asked this. Looked for among those that are not over, the waiting ones first; and, for an
        answer that may be a repeat, among those that have just ended."""
        for which in (JobFilter(wait_reason=WaitReason.APPROVAL), *(JobFilter(status=one) for one in _OPEN)):
            async for record in self._all(which):
                job = await self._load(record.job_id)
                if approval_id in needs.approvals_of(job):
                    return job
        for status in TERMINAL if operation_id is not None else ():
            for record in await self.list(JobFilter(status=status), limit=JUST_ENDED):
                letters = await self._store.post.read(record.job_id)
                if any(letter.operation_id == operation_id for letter in letters):
                    return await self._load(record.job_id)
        msg = f"there is no open approval and no job {approval_id!r}"
        raise NotFound(
            msg, hint="`holdfast jobs --reason approval` lists jobs that wait for one; a job's id will do."
        )

    async def _all(self, which: JobFilter) -> AsyncIterator[JobRecord]:
        cursor: str | None = None
        while True:
            page = await self.list(which, limit=ROWS_PER_PAGE_MAX, cursor=cursor)
            for record in page:
                yield record
            cursor = page.next
            if cursor is None:
                return

    async def _send(self, job: Loaded, letter: MailDraft, what: str) -> Accepted:
        """The letter is in the job's mail. What could be said against it has been looked at; here only: is it over?"""
        sent = await self._store.post.send(letter)
        if not sent.accepted:
            raise command_checks.over(await self._head(job.head.job_id), what)
        return Accepted(
            job_id=letter.job_id,
            operation_id=letter.operation_id,
            at_once=False,
            repeated=sent.repeated,
        )

    def _operation(self, operation_id: str | None) -> str:
        return self._ids.new("op") if operation_id is None else check_name(operation_id, "operation id")
