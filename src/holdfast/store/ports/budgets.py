"""Budgets: what whole trees of jobs may use, and what they have used.

An account is opened with the job that declares the budget, charged and raised by the appends of the tree's jobs
(`Extras.spend`, `Extras.raises`), and removed with its job. So only the journal writes budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.budget import BudgetAccount


class Budgets(Protocol):
    async def find(self, budget_ids: Sequence[str]) -> list[BudgetAccount]:
        """These accounts as of the last commit, by id. An account that does not exist is left out.

        A charge counts once the append that carries it is durable, and once only, however often the append was sent. A
        charge to an account that does not exist is ignored. Limits are only ever raised: of two appends the larger
        limit stays, in whichever order they arrive, and a quantity without a limit stays without one.
        """
        ...
