"""Budget accounts (I8): an account is the fold of many journals, those of every job in the tree of the job that
declared it.

The events of a journal determine its cost, see `model.budget.cost`. The history that a fork copied was paid for by its
original, and an intent that was sent again under its key was paid for the first time. Limits are the declared ones, or
those that a person has raised them to, whichever is more.

A tree from which retention has removed a job cannot be added up any more, and is not checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.engine.verify.journal_view import Facts
from holdfast.engine.verify.report import Violation
from holdfast.errors import HoldfastError
from holdfast.model import budget as money
from holdfast.model import events as e
from holdfast.model.budget import NOTHING, SHARED, Budget, BudgetAccount, Spent
from holdfast.model.fork import HOLDER
from holdfast.store.executor import Row
from holdfast.store.tables.budgets import account_of


class JobCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of one job, and the budgets that it counts against."""

    job_id: str
    declared: Budget | None
    depth: int
    created_at: int
    payers: tuple[str, ...]
    spent: Spent
    raises: tuple[tuple[str, Budget], ...]
    children: frozenset[str]


def compute_cost(job_id: str, facts: Facts) -> JobCost | None:
    """The bill of a job that has budgets."""
    created = facts[0].event if facts else None
    if not isinstance(created, e.JobCreated) or (created.budget is None and not created.budgets):
        return None
    spent, sent, is_taken_over = NOTHING, set[tuple[str, int]](), False
    raises: list[tuple[str, Budget]] = []
    for fact in facts:
        event = fact.event
        if isinstance(event, e.JobClaimed):
            is_taken_over = created.forked_from is not None and event.worker == HOLDER
        elif isinstance(event, e.BudgetRaised):
            raises.append((event.budget_id, money.read(event.limits)))
        elif isinstance(event, e.ToolCalled) and (event.step_key, event.generation) in sent:
            continue
        elif not is_taken_over:
            spent = money.add(spent, money.cost(event))
        if isinstance(event, e.ToolCalled):
            sent.add((event.step_key, event.generation))
    declared = None if created.budget is None else money.read(created.budget)
    return JobCost(
        job_id=job_id,
        declared=declared,
        depth=created.depth,
        created_at=facts[0].at,
        payers=created.budgets if declared is None else (*created.budgets, job_id),
        spent=spent,
        raises=tuple(raises),
        children=frozenset(
            fact.event.child_job_id for fact in facts if isinstance(fact.event, e.ChildStarted)
        ),
    )


def check_accounts(bills: Sequence[JobCost], rows: Sequence[Row]) -> Iterator[Violation]:
    """Violations of accounts: an account exists if its job does, and equals what the journals say."""
    by_job = {bill.job_id: bill for bill in bills}
    trees: dict[str, list[JobCost]] = defaultdict(list)
    for bill in bills:
        for payer in bill.payers:
            trees[payer].append(bill)
    account_ids = {row[0] for row in rows}
    for bill in bills:
        if bill.declared is not None and bill.job_id not in account_ids:
            yield Violation("I8", bill.job_id, "declares a budget, and has no account")
    for row in rows:
        tree = trees[row[0]]
        if row[0] not in by_job or any(bill.children - by_job.keys() for bill in tree):
            continue  # a job of the tree is erased or removed
        try:
            account = account_of(row)
        except (HoldfastError, msgspec.ValidationError) as error:
            yield Violation("I8", row[0], f"the limits of its account cannot be read: {error}")
            continue
        yield from _compare_account(account, by_job[row[0]], tree)


def _compare_account(account: BudgetAccount, owner: JobCost, tree: Sequence[JobCost]) -> Iterator[Violation]:
    for limit in SHARED:
        expected, stored = sum(getattr(bill.spent, limit) for bill in tree), getattr(account, limit)
        if expected != stored:
            detail = f"the account says {stored} of {limit}, the journals of its tree {expected}"
            yield Violation("I8", account.budget_id, detail)
    limits = owner.declared or Budget()
    for _, least in (raised for bill in tree for raised in bill.raises if raised[0] == account.budget_id):
        limits = money.raise_limits(limits, least)
    if (limits, owner.depth, owner.created_at) != (account.limits, account.depth, account.created_at):
        detail = (
            f"the account is of {money.to_json(account.limits)}, the journals say {money.to_json(limits)}"
        )
        yield Violation("I8", account.budget_id, detail)
