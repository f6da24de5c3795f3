"""Journal checks: invariants that need a journal read from its first event: the hash chain, the state machine, and the
rows derived from it.

The head, the ledger and the timers are the fold of the journal, kept up to date by the transaction that appends; so
are the accounts of budgets, of many journals. Here the fold is computed again. A journal from which retention has
erased bodies still has its chain, and the order of its events; the content of the bodies can no longer be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.engine.verify.budget_checks import Bill, bill_of, by_account
from holdfast.engine.verify.call_checks import by_calls
from holdfast.engine.verify.checkpoint_checks import by_commits
from holdfast.engine.verify.concurrency_checks import LeaseSpan, by_worker, holds_of
from holdfast.engine.verify.journal_view import Facts, InvariantViolation, facts_of, is_erased
from holdfast.engine.verify.lifecycle_checks import by_life, fold_journal
from holdfast.engine.verify.projection_checks import by_attempts, by_head, by_ledger, by_timers, by_waiting
from holdfast.engine.verify.report import Violation
from holdfast.errors import HoldfastError
from holdfast.model import job_state
from holdfast.model.envelope import is_sealed
from holdfast.model.hash_chain import SealedEvent, first_break
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import Mail
from holdfast.model.states import TERMINAL, Status, move
from holdfast.store.executor import Row, Transaction
from holdfast.store.tables.job_heads import head_of
from holdfast.store.tables.journal import read_in

PAGE = 500


class JournalCounts(msgspec.Struct):
    jobs: int = 0
    events: int = 0
    unread: int = 0


class JournalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits that the workers of this store declared. The store itself does not know them; None is not checked.

    `concurrency` is one number for all workers, or one for each by name.
    """

    attempts: int | None = None
    concurrency: int | Mapping[str, int] | None = None


class Beside(msgspec.Struct, frozen=True):
    """The rows that belong to a journal."""

    calls: Sequence[Row] = ()
    timers: Sequence[Row] = ()
    mail: Sequence[Row] = ()


async def by_journal(tx: Transaction, counted: JournalCounts, limits: JournalLimits) -> list[Violation]:
    """Violations of all journals, job by job."""
    violations: list[Violation] = []
    holds: list[LeaseSpan] = []
    bills: list[Bill] = []
    after = ""
    while heads := [head_of(row) for row in await tx.rows("list_all_heads", after=after, limit=PAGE)]:
        for head in heads:
            events = await read_in(tx, head.job_id)
            counted.jobs += 1
            counted.events += len(events)
            unread = sum(is_sealed(event.body) for event in events)
            if unread:
                counted.unread += unread
                violations.extend(_by_digests(head, events))
            else:
                violations.extend(judge(head, events, await _beside(tx, head), limits, holds, bills=bills))
        after = heads[-1].job_id
    violations += by_worker(holds, limits.concurrency)
    if counted.unread:
        return violations  # the cost of journals that cannot be read is unknown
    return [*violations, *by_account(bills, await tx.rows("list_all_budgets"))]


def _by_digests(head: JobHead, events: Sequence[SealedEvent]) -> Iterator[Violation]:
    """Violations of a journal whose payload key is not available: its chain covers digests, and its events have an
    order."""
    without_bodies = [
        msgspec.structs.replace(event, body=None) if is_sealed(event.body) else event for event in events
    ]
    broken = first_break(head.job_id, without_bodies)
    if broken is not None:
        yield Violation("I6", head.job_id, f"the hash chain breaks at event {broken}")
        return
    yield from _by_order(head, without_bodies, erased=False)


async def _beside(tx: Transaction, head: JobHead) -> Beside:
    job_id = head.job_id
    return Beside(
        await tx.rows("list_calls", job_id=job_id, status=None),
        await tx.rows("list_timers", job_id=job_id),
        await tx.rows("list_mail_kinds", job_id=job_id) if head.mail_seq else (),
    )


def judge_alone(
    head: JobHead, events: list[SealedEvent], letters: Sequence[Mail] = ()
) -> Iterator[Violation]:
    """Violations of one journal alone, without its rows; `letters` tell when each message was sent."""
    sent_at = {letter.mail_seq: letter.sent_at for letter in letters}
    return judge(head, events, None, JournalLimits(), [], sent_at)


def judge(
    head: JobHead,
    events: list[SealedEvent],
    beside: Beside | None,
    limits: JournalLimits,
    holds: list[LeaseSpan],
    sent_at: Mapping[int, int] = {},
    bills: list[Bill] | None = None,
) -> Iterator[Violation]:
    """Violations of one journal and its rows. Adds the holds of the job to `holds`, and its cost to `bills`."""
    broken = first_break(head.job_id, events)
    if broken is not None:
        yield Violation("I6", head.job_id, f"the hash chain breaks at event {broken}")
        return
    if is_erased(events):
        yield from _by_order(head, events)
        return
    try:
        facts = facts_of(events)
    except HoldfastError as error:
        yield Violation("I7", head.job_id, str(error))
        return
    holds += holds_of(head.job_id, facts)
    bill = bill_of(head.job_id, facts)
    if bill is not None and bills is not None:
        bills.append(bill)
    job = fold_journal(facts)
    for finding in _against(facts, job, beside, sent_at):
        yield Violation(finding.invariant, head.job_id, finding.detail)
    if isinstance(job, job_state.JobState) and facts:
        for finding in by_commits(facts, events[0].body_digest.hex()):
            yield Violation(finding.invariant, head.job_id, finding.detail)
        yield from by_head(head, job, facts)
        yield from by_waiting(head, job)
        yield from by_attempts(head, facts, limits.attempts)
        if beside is not None:
            yield from by_timers(head, facts, beside.timers)
            yield from by_ledger(head, job, facts, beside.calls)


def _against(
    facts: Facts,
    job: job_state.JobState | InvariantViolation,
    beside: Beside | None,
    sent_at: Mapping[int, int],
) -> list[InvariantViolation]:
    """Every rule that the journal breaks. An event that the fold rejects is reported by its specific rule, if there is
    one."""
    mail = () if beside is None else beside.mail
    letters = None if beside is None else {number: kind for number, kind, _ in mail}
    sent_at = sent_at or {number: at for number, _, at in mail}
    violations = [*by_life(facts, letters), *by_calls(facts, sent_at)]
    if isinstance(job, InvariantViolation) and job.seq not in {finding.seq for finding in violations}:
        violations.append(job)
    return violations


def _by_order(head: JobHead, events: Sequence[SealedEvent], *, erased: bool = True) -> Iterator[Violation]:
    """Violations of an erased journal: its job must have ended, and its events must have an allowed order."""
    status: Status | None = None
    for sealed in events:
        after = move(status, sealed.type)
        if after is None:
            detail = f"{sealed.type} at event {sealed.seq} cannot follow status {status}"
            yield Violation("I7", head.job_id, detail)
            return
        status = after
    if status not in TERMINAL and erased:
        yield Violation("I6", head.job_id, f"bodies are erased, and the job is {status}")
    elif head.status is not status and status in TERMINAL:
        yield Violation("I8", head.job_id, f"the head says {head.status}, the journal {status}")
