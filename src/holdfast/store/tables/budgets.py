"""Budgets over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model.budget import BudgetAccount, Charge, LimitRaise
from holdfast.model.jobs import JobDraft
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.payloads import read_json


class SqlBudgets:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def find(self, budget_ids: Sequence[str]) -> list[BudgetAccount]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("find_budgets", budget_ids=list(budget_ids))

        return [account_of(row) for row in await self._executor.read(work, brief=True)]


def account_of(row: Row) -> BudgetAccount:
    """Convert a row, whose columns are in the order of the fields, to an account."""
    values = dict(zip(BudgetAccount.__struct_fields__, row, strict=True))
    values["limits"] = money.read(read_json(row[4], f"budget {row[0]}"))
    return BudgetAccount(**values)


async def open_in(tx: Transaction, draft: JobDraft, created_at: int) -> None:
    """Open an account for the job's own budget, if it has one."""
    if draft.budget is not None:
        await tx.run(
            "create_budget",
            budget_id=draft.job_id,
            namespace=draft.namespace,
            depth=draft.depth,
            created_at=created_at,
            limits=canonical.encode(money.to_json(draft.budget)),
        )


async def charge_in(tx: Transaction, spend: Sequence[Charge]) -> None:
    """Charge the accounts, each once, in the order in which every transaction locks them."""
    for budget_id in sorted({charge.budget_id for charge in spend}):
        parts = [charge for charge in spend if charge.budget_id == budget_id]
        await tx.run(
            "charge_budget",
            budget_id=budget_id,
            usd_micros=sum(part.usd_micros for part in parts),
            tokens=sum(part.tokens for part in parts),
            tool_calls=sum(part.tool_calls for part in parts),
        )


async def raise_in(tx: Transaction, raises: Sequence[LimitRaise]) -> None:
    """Raise the limits of these budgets to at least these."""
    for change in sorted(raises, key=lambda change: change.budget_id):
        row = await tx.row("lock_budget", budget_id=change.budget_id)
        if row is not None:
            before = money.read(read_json(row[0], f"budget {change.budget_id}"))
            limits = canonical.encode(money.to_json(money.raise_limits(before, change.limits)))
            await tx.run("set_budget_limits", budget_id=change.budget_id, limits=limits)
