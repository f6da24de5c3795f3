"""Budgets in motion: asked before anything is paid for, charged in the append that says what was done.

    before a live call      the accounts of the job and of its ancestors are read; a limit that would be broken stops it
    a fact that costs       its price goes to every account of the chain, in the same append: so none counts twice, and
                            what is replayed costs nothing
    a limit is reached      one fact; the call is not made, the job sleeps and holds nothing, a person is asked
    a limit is raised       a letter, a fact, and the account, in one append; whoever waits looks again

The accounts are a whole tree's, and every job of it looks at them by itself: nothing is reserved. So of the jobs that
run at the same time each may make one call that the others did not know of. Within one job nothing is overlooked: what
it has recorded and is not on disk yet counts, and so do its reads that are under way. The price of an answer is known
when it is there, and not before.

A job that sleeps over a budget is woken by the letter that raises it. In case that letter went to a sibling only, it
also looks again by itself, after a minute, two, four, up to an hour.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.engine.durable_call import DurableCall, Owner
from holdfast.engine.execution_context import ExecutionContext
from holdfast.engine.journal_writer import Recorder, Stamp
from holdfast.engine.loop_sleep import rest
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
    breach,
    cost,
)
from holdfast.model.events import BudgetReached, CallCancelled, Event, JobCreated, StepFinished, ToolCalled
from holdfast.model.lease import Grant
from holdfast.model.ledger import CallRow
from holdfast.model.states import WaitReason
from holdfast.model.time import HOUR, MINUTE
from holdfast.store.ports.budgets import Budgets

AGAIN_S: Final = 0.2
ONE_ANSWER: Final = Spent(usd_micros=1, tokens=1)
"""What a request to a model will cost at least, as far as anybody knows."""


class Reached(msgspec.Struct, frozen=True):
    """A limit that the next call would break."""

    budget_id: str
    limit: Limit
    allowed: int
    spent: int


class BudgetGuard:
    """What one run of a job with budgets pays from. It is the run's recorder, too: facts that cost pass here."""

    def __init__(self, execution: ExecutionContext, recorder: Recorder, accounts: Budgets) -> None:
        self._execution = execution
        self._recorder = recorder
        self._accounts = accounts
        self._chain = execution.owner.budgets
        self._charged = NOTHING
        self._settled = NOTHING
        """Of what this run has charged, the part that is certainly in the accounts."""
        self._reading: set[str] = set()
        self._sent: set[tuple[str, int]] = set()

    # ── paying ────────────────────────────────────────────────────────────────────────────────────

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
        event = self._ended(event)
        price = NOTHING if isinstance(event, ToolCalled) and self._is_sent_again(event) else cost(event)
        if price != NOTHING:
            self._charged = add(self._charged, price)
            amounts = {limit: getattr(price, limit) for limit in SHARED}
            spend = tuple(Charge(budget_id, **amounts) for budget_id in self._chain)
            extras = msgspec.structs.replace(extras, spend=spend)
        return self._recorder.record(
            event, row=row, extras=extras, guarded=guarded, progress=progress, body=body, at=at
        )

    def _ended(self, event: Event) -> Event:
        """A read that was under way has an end; that it was given up does not mean that it was not made."""
        if isinstance(event, StepFinished | CallCancelled) and event.step_key in self._reading:
            self._reading.discard(event.step_key)
            return msgspec.structs.replace(event, made=True) if isinstance(event, CallCancelled) else event
        return event

    def _is_sent_again(self, event: ToolCalled) -> bool:
        """Under the same key: what was paid for then is not paid for again."""
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
        """The read is made as soon as it can be afforded. Its price is certain from then on."""
        await self.afford(place, step_key, ONE_CALL)
        self._reading.add(step_key)
        return await self._execution.perform(call, place, step_key)

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    async def afford(self, place: TaskScope, step_key: str, ahead: Spent) -> None:
        """No limit stands against it. Until then the code waits, and if all of it does, the job sleeps."""
        while (reached := await self._reached(place, step_key, ahead)) is not None:
            self._say(reached)
            execution = self._execution
            pause_us = min(MINUTE << min(execution.history.stops.sleeps, 6), HOUR)
            due_at = execution.clock.wall_us() + pause_us
            await execution.waits.look_again(WaitReason.BUDGET, topic(reached.budget_id), due_at)

    async def _reached(self, place: TaskScope, step_key: str, ahead: Spent) -> Reached | None:
        """The limit that it would break. Nobody is stopped by what may have been counted twice, or by a limit that was
        raised by a letter of which the fact is still on its way to the disk."""
        is_sure = False
        while True:
            settled = self._settled
            with self._execution.busy(), place.within(step_key):
                accounts = await self._read()
            late = _more(self._charged, settled)
            reached = self._broken(accounts, add(late, Spent(tool_calls=len(self._reading))), ahead)
            if reached is None or (is_sure and late == NOTHING):
                return reached
            with self._execution.busy():
                await self.durable()
            is_sure = True

    async def _read(self) -> list[BudgetAccount]:
        """The accounts, as soon as the store can be asked; those of the job itself last."""
        while True:
            try:
                found = {account.budget_id: account for account in await self._accounts.find(self._chain)}
                return [found[budget_id] for budget_id in self._chain if budget_id in found]
            except Unavailable:
                await rest(AGAIN_S)

    def _broken(self, accounts: list[BudgetAccount], late: Spent, ahead: Spent) -> Reached | None:
        now = self._execution.clock.wall_us()
        for account in accounts:
            here = self._execution.owner.depth - account.depth
            spent = msgspec.structs.replace(
                add(account.spent, late),
                wall_us=now - account.created_at,
                fan_out=self._execution.history.born,
            )
            # Depth and fan-out are looked at where they grow: a job that stands where it may stand can do its work.
            deeper = here + ahead.depth if ahead.depth else 0
            if not ahead.fan_out:
                spent = msgspec.structs.replace(spent, fan_out=0)
            found = breach(account.limits, spent, msgspec.structs.replace(ahead, depth=deeper))
            if found is not None:
                used = here if found.limit == "depth" else getattr(spent, found.limit)
                return Reached(account.budget_id, found.limit, found.allowed, used)
        return None

    def _say(self, reached: Reached) -> None:
        """It is a fact that this limit stands against the job; once, however many of its tasks meet it."""
        history = self._execution.history
        if history.stops.allowed.get((reached.budget_id, reached.limit)) != reached.allowed:
            event = BudgetReached(
                reached.limit, reached.spent, allowed=reached.allowed, budget_id=reached.budget_id
            )
            stamp = self._recorder.record(event)
            history.note(stamp.seq, event, stamp.at)


ONE_CHILD: Final = Spent(depth=1, fan_out=1)


def owner_of(grant: Grant, created: JobCreated | None) -> Owner:
    """Whose calls these are, and who pays."""
    if created is None:
        return Owner(grant.namespace, grant.job_id, grant.fence)
    budgets = created.budgets if created.budget is None else (*created.budgets, grant.job_id)
    return Owner(
        grant.namespace, grant.job_id, grant.fence, created.session_id, budgets=budgets, depth=created.depth
    )


def topic(budget_id: str) -> str:
    """What rings when a limit of this budget was raised."""
    return f"budget:{budget_id}"


def _more(spent: Spent, before: Spent) -> Spent:
    return Spent(**{limit: getattr(spent, limit) - getattr(before, limit) for limit in SHARED})
