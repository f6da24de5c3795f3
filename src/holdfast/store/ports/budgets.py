"""Budgets: what whole trees of jobs may use, and what they have used.

An account is opened with the job that declares the budget, charged and raised by the appends of the tree's jobs
(`Extras.spend`, `Extras.raises`), and removed with its job. So there is one way to write here, and it is the journal's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.budget import BudgetAccount


class Budgets(Protocol):
    async def find(self, budget_ids: Sequence[str]) -> list[BudgetAccount]:
        """These accounts as of the last commit, by id. One that does not exist is not in the answer.

        What an append says it costs is in them as soon as the append is durable, and once, however often it was sent.
        A charge to an account that is not there is no error: nothing is left that it could count for. Limits are only
        ever raised: the larger one stays, in whichever order two appends say theirs, and a thing without a limit gets
        none.
        """
        ...
