"""Journal checks: invariants that need a journal read from its first event: the hash chain, the state machine, and the
rows derived from it.

The head, the ledger and the timers are the fold of the journal, kept up to date by the transaction that appends; so
are the accounts of budgets, of many journals. Here the fold is computed again. A journal from which retention has
erased bodies still has its chain, and the order of its events; the content of the bodies can no longer be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.engine.verify.budget_checks import JobCost, check_accounts, compute_cost
from holdfast.engine.verify.call_checks import check_calls
from holdfast.engine.verify.checkpoint_checks import check_commits
from holdfast.engine.verify.concurrency_checks import LeaseSpan, check_concurrency, holds_of
from holdfast.engine.verify.journal_view import Facts, InvariantViolation, facts_of, is_erased
from holdfast.engine.verify.lifecycle_checks import check_lifecycle, fold_journal
from holdfast.engine.verify.projection_checks import (
    check_attempts,
    check_head,
    check_ledger,
    check_timers,
    check_wait_reason,
)
from holdfast.engine.verify.report import Violation
from holdfast.errors import HoldfastError
from holdfast.model import job_state
from holdfast.model.envelope import is_sealed
from holdfast.model.hash_chain import SealedEvent, find_break
from holdfast.model.jobs import JobHead
from holdfast.model.mailbox import Mail
from holdfast.model.states import TERMINAL, Status, next_status
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


class JournalRows(msgspec.Struct, frozen=True):
    """The rows that belong to a journal."""

    calls: Sequence[Row] = ()
    timers: Sequence[Row] = ()
    mail: Sequence[Row] = ()


async def check_journals(tx: Transaction, counted: JournalCounts, limits: JournalLimits) -> list[Violation]:
    """Violations of all journals, job by job."""
    violations: list[Violation] = []
    holds: list[LeaseSpan] = []
    bills: list[JobCost] = []
    after = ""
    while heads := [head_of(row) for row in await tx.rows("list_all_heads", after=after, limit=PAGE)]:
        for head in heads:
            events = await read_in(tx, head.job_id)
            counted.jobs += 1
            counted.events += len(events)
            unread = sum(is_sealed(event.body) for event in events)
            if unread:
                counted.unread += unread
                violations.extend(_check_digests(head, events))
            else:
                violations.extend(
                    check_journal(head, events, await _read_rows(tx, head), limits, holds, bills=bills)
                )
        after = heads[-1].job_id
    violations += check_concurrency(holds, limits.concurrency)
    if counted.unread:
        return violations  # the cost of journals that cannot be read is unknown
    return [*violations, *check_accounts(bills, await tx.rows("list_all_budgets"))]


def _check_digests(head: JobHead, events: Sequence[SealedEvent]) -> Iterator[Violation]:
    """Violations of a journal whose payload key is not available: its chain covers digests, and its events have an
    order."""
    without_bodies = [
        msgspec.structs.replace(event, body=None) if is_sealed(event.body) else event for event in events
    ]
    broken = find_break(head.job_id, without_bodies)
    if broken is not None:
        yield Violation("I6", head.job_id, f"the hash chain breaks at event {broken}")
        return
    yield from _check_order(head, without_bodies, erased=False)


async def _read_rows(tx: Transaction, head: JobHead) -> JournalRows:
    job_id = head.job_id
    return JournalRows(
        await tx.rows("list_calls", job_id=job_id, status=None),
        await tx.rows("list_timers", job_id=job_id),
        await tx.rows("list_mail_kinds", job_id=job_id) if head.mail_seq else (),
    )


def check_journal_alone(
    head: JobHead, events: list[SealedEvent], letters: Sequence[Mail] = ()
) -> Iterator[Violation]:
    """Violations of one journal alone, without its rows; `letters` tell when each message was sent."""
    sent_at = {letter.mail_seq: letter.sent_at for letter in letters}
    return check_journal(head, events, None, JournalLimits(), [], sent_at)


def check_journal(
    head: JobHead,
    events: list[SealedEvent],
    beside: JournalRows | None,
    limits: JournalLimits,
    holds: list[LeaseSpan],
    sent_at: Mapping[int, int] = {},
    bills: list[JobCost] | None = None,
) -> Iterator[Violation]:
    """Violations of one journal and its rows. Adds the holds of the job to `holds`, and its cost to `bills`."""
    broken = find_break(head.job_id, events)
    if broken is not None:
        yield Violation("I6", head.job_id, f"the hash chain breaks at event {broken}")
        return
    if is_erased(events):
        yield from _check_order(head, events)
        return
    try:
        facts = facts_of(events)
    except HoldfastError as error:
        yield Violation("I7", head.job_id, str(error))
        return
    holds += holds_of(head.job_id, facts)
    bill = compute_cost(head.job_id, facts)
    if bill is not None and bills is not None:
        bills.append(bill)
    job = fold_journal(facts)
    for finding in _find_violations(facts, job, beside, sent_at):
        yield Violation(finding.invariant, head.job_id, finding.detail)
    if isinstance(job, job_state.JobState) and facts:
        for finding in check_commits(facts, events[0].body_digest.hex()):
            yield Violation(finding.invariant, head.job_id, finding.detail)
        yield from check_head(head, job, facts)
        yield from check_wait_reason(head, job)
        yield from check_attempts(head, facts, limits.attempts)
        if beside is not None:
            yield from check_timers(head, facts, beside.timers)
            yield from check_ledger(head, job, facts, beside.calls)


def _find_violations(
    facts: Facts,
    job: job_state.JobState | InvariantViolation,
    beside: JournalRows | None,
    sent_at: Mapping[int, int],
) -> list[InvariantViolation]:
    """Every rule that the journal breaks. An event that the fold rejects is reported by its specific rule, if there is
    one."""
    mail = () if beside is None else beside.mail
    letters = None if beside is None else {number: kind for number, kind, _ in mail}
    sent_at = sent_at or {number: at for number, _, at in mail}
    violations = [*check_lifecycle(facts, letters), *check_calls(facts, sent_at)]
    if isinstance(job, InvariantViolation) and job.seq not in {finding.seq for finding in violations}:
        violations.append(job)
    return violations


def _check_order(head: JobHead, events: Sequence[SealedEvent], *, erased: bool = True) -> Iterator[Violation]:
    """Violations of an erased journal: its job must have ended, and its events must have an allowed order."""
    status: Status | None = None
    for sealed in events:
        after = next_status(status, sealed.type)
        if after is None:
            detail = f"{sealed.type} at event {sealed.seq} cannot follow status {status}"
            yield Violation("I7", head.job_id, detail)
            return
        status = after
    if status not in TERMINAL and erased:
        yield Violation("I6", head.job_id, f"bodies are erased, and the job is {status}")
    elif head.status is not status and status in TERMINAL:
        yield Violation("I8", head.job_id, f"the head says {head.status}, the journal {status}")
