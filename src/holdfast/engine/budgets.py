"""Budget guard: checks budgets before each call, and charges them in the append that records the call.

    before a live call      reads the accounts of the job and of its ancestors; a limit that would be exceeded stops it
    an event that costs     its price is charged to every account of the chain, in the same append: so none counts
                            twice, and a replay costs nothing
    a limit is reached      one event; the call is not made, the job is suspended, and a person decides
    a limit is raised       the mail, its event and the account change in one append; the waiting code looks again

An account belongs to a whole tree of jobs, and every job of the tree checks it by itself: nothing is reserved. So of
the jobs that run at the same time each may make one call that the others did not know of. Within one job nothing is
overlooked: recorded events that are not on disk yet count, and so do reads in progress. The price of an answer is
known when it has arrived, and not before.

A job that is suspended over a budget is woken by the mail that raises it. In case that mail went to a sibling only, it
also looks again by itself, after a minute, two, four, up to an hour.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.engine.durable_call import DurableCall, Owner
from holdfast.engine.execution_context import ExecutionContext
from holdfast.engine.journal_writer import Recorder, Stamp
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.engine.task_scopes import TaskScope
from holdfast.errors import Unavailable
from holdfast.model.append import NOTHING as NO_EXTRAS
from holdfast.model.append import Extras
from holdfast.model.budget import (
    NOTHING,
    ONE_CALL,
    SHARED,
    BudgetAccount,
    Charge,
    Limit,
    Spent,
    add,
    cost,
    find_breach,
)
from holdfast.model.events import BudgetReached, CallCancelled, Event, JobCreated, StepFinished, ToolCalled
from holdfast.model.lease import Grant
from holdfast.model.ledger import CallRow
from holdfast.model.states import WaitReason
from holdfast.model.time import HOUR, MINUTE
from holdfast.store.ports.budgets import Budgets

AGAIN_S: Final = 0.2
ONE_ANSWER: Final = Spent(usd_micros=1, tokens=1)
"""The least that a request to a model costs, as far as is known before the answer."""


class ReachedLimit(msgspec.Struct, frozen=True):
    """A limit that the next call would exceed."""

    budget_id: str
    limit: Limit
    allowed: int
    spent: int


class BudgetGuard:
    """Guards the budgets of one run of a job. It is the run's recorder, too: it charges each event that costs."""

    def __init__(self, execution: ExecutionContext, recorder: Recorder, accounts: Budgets) -> None:
        self._execution = execution
        self._recorder = recorder
        self._accounts = accounts
        self._chain = execution.owner.budgets
        self._charged = NOTHING
        self._settled = NOTHING
        """The part of what this run has charged that is certainly in the accounts."""
        self._reading: set[str] = set()
        self._sent: set[tuple[str, int]] = set()

    # ── charging ──────────────────────────────────────────────────────────────────────────────────

    def record(
        self,
        event: Event,
        *,
        row: CallRow | None = None,
        extras: Extras = NO_EXTRAS,
        guarded: bool = False,
        progress: bool = False,
        body: bytes | None = None,
        at: int | None = None,
    ) -> Stamp:
        event = self._mark_ended(event)
        price = NOTHING if isinstance(event, ToolCalled) and self._is_sent_again(event) else cost(event)
        if price != NOTHING:
            self._charged = add(self._charged, price)
            amounts = {limit: getattr(price, limit) for limit in SHARED}
            spend = tuple(Charge(budget_id, **amounts) for budget_id in self._chain)
            extras = msgspec.structs.replace(extras, spend=spend)
        return self._recorder.record(
            event, row=row, extras=extras, guarded=guarded, progress=progress, body=body, at=at
        )

    def _mark_ended(self, event: Event) -> Event:
        """Marks a read as ended. A read that was cancelled was made nevertheless, and costs."""
        if isinstance(event, StepFinished | CallCancelled) and event.step_key in self._reading:
            self._reading.discard(event.step_key)
            return msgspec.structs.replace(event, made=True) if isinstance(event, CallCancelled) else event
        return event

    def _is_sent_again(self, event: ToolCalled) -> bool:
        """Whether the call is sent again under the same key: it is not charged again."""
        place = (event.step_key, event.generation)
        is_known = (
            place in self._sent or self._execution.history.next_generation(event.step_key) > event.generation
        )
        self._sent.add(place)
        return is_known

    async def durable(self) -> None:
        charged = self._charged
        await self._recorder.durable()
        self._settled = max(self._settled, charged, key=msgspec.structs.astuple)

    async def perform(
        self, call: DurableCall, place: TaskScope, step_key: str
    ) -> tuple[Any, Exception | None]:
        """Makes the read as soon as the budgets allow it. From then on its price counts."""
        await self.afford(place, step_key, ONE_CALL)
        self._reading.add(step_key)
        return await self._execution.perform(call, place, step_key)

    # ── checking ──────────────────────────────────────────────────────────────────────────────────

    async def afford(self, place: TaskScope, step_key: str, ahead: Spent) -> None:
        """Waits until no limit is exceeded by this spending. If all of the code waits, the job is suspended."""
        while (reached := await self._find_reached_limit(place, step_key, ahead)) is not None:
            self._record_reached(reached)
            execution = self._execution
            pause_us = min(MINUTE << min(execution.history.stops.sleeps, 6), HOUR)
            due_at = execution.clock.wall_us() + pause_us
            await execution.waits.wait_for_topic(WaitReason.BUDGET, budget_topic(reached.budget_id), due_at)

    async def _find_reached_limit(self, place: TaskScope, step_key: str, ahead: Spent) -> ReachedLimit | None:
        """The limit that this spending would exceed. Before a limit stops the code, everything recorded is made durable
        and the accounts are read again: no amount counts twice, and no raise is missed that was not on disk yet."""
        is_sure = False
        while True:
            settled = self._settled
            with self._execution.busy(), place.within(step_key):
                accounts = await self._read_accounts()
            late = _subtract_spent(self._charged, settled)
            reached = self._find_breach(accounts, add(late, Spent(tool_calls=len(self._reading))), ahead)
            if reached is None or (is_sure and late == NOTHING):
                return reached
            with self._execution.busy():
                await self.durable()
            is_sure = True

    async def _read_accounts(self) -> list[BudgetAccount]:
        """Reads the accounts, as soon as the store is available; the job's own account is the last."""
        while True:
            try:
                accounts = {account.budget_id: account for account in await self._accounts.find(self._chain)}
                return [accounts[budget_id] for budget_id in self._chain if budget_id in accounts]
            except Unavailable:
                await sleep_on_loop(AGAIN_S)

    def _find_breach(self, accounts: list[BudgetAccount], late: Spent, ahead: Spent) -> ReachedLimit | None:
        now = self._execution.clock.wall_us()
        for account in accounts:
            depth = self._execution.owner.depth - account.depth
            spent = msgspec.structs.replace(
                add(account.spent, late),
                wall_us=now - account.created_at,
                fan_out=self._execution.history.born,
            )
            # Depth and fan-out are checked where they grow: a job at its allowed depth can do its work.
            deeper = depth + ahead.depth if ahead.depth else 0
            if not ahead.fan_out:
                spent = msgspec.structs.replace(spent, fan_out=0)
            breached = find_breach(account.limits, spent, msgspec.structs.replace(ahead, depth=deeper))
            if breached is not None:
                used = depth if breached.limit == "depth" else getattr(spent, breached.limit)
                return ReachedLimit(account.budget_id, breached.limit, breached.allowed, used)
        return None

    def _record_reached(self, reached: ReachedLimit) -> None:
        """Records that this limit has stopped the job; once, however many of its tasks reach it."""
        history = self._execution.history
        if history.stops.allowed.get((reached.budget_id, reached.limit)) != reached.allowed:
            event = BudgetReached(
                reached.limit, reached.spent, allowed=reached.allowed, budget_id=reached.budget_id
            )
            stamp = self._recorder.record(event)
            history.note(stamp.seq, event, stamp.at)


ONE_CHILD: Final = Spent(depth=1, fan_out=1)


def owner_of(grant: Grant, created: JobCreated | None) -> Owner:
    """The owner of the job's calls, with the budgets that they count against."""
    if created is None:
        return Owner(grant.namespace, grant.job_id, grant.fence)
    budgets = created.budgets if created.budget is None else (*created.budgets, grant.job_id)
    return Owner(
        grant.namespace, grant.job_id, grant.fence, created.session_id, budgets=budgets, depth=created.depth
    )


def budget_topic(budget_id: str) -> str:
    """The topic that is rung when a limit of this budget is raised."""
    return f"budget:{budget_id}"


def _subtract_spent(spent: Spent, before: Spent) -> Spent:
    return Spent(**{limit: getattr(spent, limit) - getattr(before, limit) for limit in SHARED})
