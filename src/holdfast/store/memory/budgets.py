"""Budgets: accounts that whole trees of jobs share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.budget import LIMITS, Budget, BudgetAccount, Charge, Raise
from holdfast.model.jobs import JobDraft
from holdfast.store.memory.state import MemoryState, MemoryWorkRow


class MemoryBudgets:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def find(self, budget_ids: Sequence[str]) -> list[BudgetAccount]:
        accounts = self._state.tables.accounts
        return [accounts[one] for one in sorted(set(budget_ids)) if one in accounts]


def open_account(work: MemoryWorkRow, job_id: str, draft: JobDraft) -> None:
    """What the job declares has an account; a job that declares nothing has none."""
    if draft.budget is not None:
        work.tables.accounts[job_id] = BudgetAccount(
            budget_id=job_id,
            namespace=draft.namespace,
            depth=draft.depth,
            created_at=work.wall,
            limits=draft.budget,
        )


def charge(work: MemoryWorkRow, part: Charge) -> None:
    account = work.tables.accounts.get(part.budget_id)
    if account is not None:
        work.tables.accounts[part.budget_id] = msgspec.structs.replace(
            account,
            usd_micros=account.usd_micros + part.usd_micros,
            tokens=account.tokens + part.tokens,
            tool_calls=account.tool_calls + part.tool_calls,
        )


def raise_limits(work: MemoryWorkRow, one: Raise) -> None:
    """Every limit is the larger of what it was and what it is raised to; where there is none, there is none."""
    account = work.tables.accounts.get(one.budget_id)
    if account is None:
        return
    limits = {}
    for name in LIMITS:
        was, to = getattr(account.limits, name), getattr(one.limits, name)
        limits[name] = was if was is None or to is None or to < was else to
    work.tables.accounts[one.budget_id] = msgspec.structs.replace(account, limits=Budget(**limits))
