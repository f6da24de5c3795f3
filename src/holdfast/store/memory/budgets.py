"""Budgets in memory: accounts that whole trees of jobs share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.budget import LIMITS, Budget, BudgetAccount, Charge, LimitRaise
from holdfast.model.jobs import JobDraft
from holdfast.store.memory.state import MemoryState, MemoryTransaction


class MemoryBudgets:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def find(self, budget_ids: Sequence[str]) -> list[BudgetAccount]:
        accounts = self._state.tables.accounts
        return [accounts[budget_id] for budget_id in sorted(set(budget_ids)) if budget_id in accounts]


def open_account(work: MemoryTransaction, job_id: str, draft: JobDraft) -> None:
    """Open an account for the job's own budget, if it has one."""
    if draft.budget is not None:
        work.tables.accounts[job_id] = BudgetAccount(
            budget_id=job_id,
            namespace=draft.namespace,
            depth=draft.depth,
            created_at=work.wall,
            limits=draft.budget,
        )


def charge(work: MemoryTransaction, part: Charge) -> None:
    account = work.tables.accounts.get(part.budget_id)
    if account is not None:
        work.tables.accounts[part.budget_id] = msgspec.structs.replace(
            account,
            usd_micros=account.usd_micros + part.usd_micros,
            tokens=account.tokens + part.tokens,
            tool_calls=account.tool_calls + part.tool_calls,
        )


def raise_limits(work: MemoryTransaction, change: LimitRaise) -> None:
    """Raise each limit to the larger of the two; a quantity without a limit stays without one."""
    account = work.tables.accounts.get(change.budget_id)
    if account is None:
        return
    limits = {}
    for name in LIMITS:
        old, new = getattr(account.limits, name), getattr(change.limits, name)
        limits[name] = old if old is None or new is None or new < old else new
    work.tables.accounts[change.budget_id] = msgspec.structs.replace(account, limits=Budget(**limits))
