"""Plans in a journal: made once, and followed by every run that comes after.

A plan is a fact under the place in the code where it was made. Whatever a planner would answer today, and whatever the
code around it builds, a run that comes to that place gets the plan that is recorded. Nodes leave two facts each, for
people who look: what a resumed run does not call again, it knows from the calls themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from holdfast.engine.execution import Execution
from holdfast.model.events import NodeFinished, NodeStarted, PlanGenerated
from holdfast.model.plan import Plan
from holdfast.model.replay_history import STARTED

CANCELLED = "cancelled"


async def make_plan_once(drive: Execution, make: Callable[[], Awaitable[Plan]]) -> Plan:
    """The plan of this place: as it is recorded, or made now and on disk before anything follows from it. Said in a
    scope of its own, which is the planner's."""
    key = drive.place().scope.key("plan")
    recorded = drive.history.find(key, "")
    if recorded is None or not recorded.settled or not await drive.past(recorded):
        plan = await make()
        event = PlanGenerated(_plan_id(drive, key), plan.to_json(), key)
        stamp = drive.note(event, progress=True)
        async with drive.noting_cancel(key, "", 0):
            await drive.on_disk(stamp)
            await drive.turn(stamp.seq, stamp.at)
        # As a replay gives it, from the first time on.
        return Plan.from_json(event.plan, recorded_as=event.plan_id)
    return Plan.from_json(recorded.result, recorded_as=recorded.name)


async def to_follow(drive: Execution, plan: Plan, check: Callable[[Plan], None]) -> Plan:
    """The plan that is followed here: this one, if it was made in this job to be followed; otherwise as recorded."""
    history = drive.history
    if history.plans.get(plan.recorded_as, True):

        async def checked() -> Plan:
            check(plan)
            return plan

        plan = await make_plan_once(drive, checked)
    check(plan)
    history.plans[plan.recorded_as] = True
    return plan


def node_started(drive: Execution, plan_id: str, node: str) -> None:
    """It is a fact that the node is under way."""
    if (plan_id, node) not in drive.history.nodes:
        _record(drive, NodeStarted(plan_id, node, drive.place().scope.path))


def node_finished(drive: Execution, plan_id: str, node: str, outcome: str) -> None:
    """It is a fact how the node came out."""
    if drive.history.nodes.get((plan_id, node)) == STARTED:
        _record(drive, NodeFinished(plan_id, node, outcome))


def _record(drive: Execution, event: NodeStarted | NodeFinished) -> None:
    drive.note(event)


def _plan_id(drive: Execution, key: str) -> str:
    """One place has one plan, and the same content at two places is two."""
    place = f"{drive.owner.namespace}\0{drive.owner.job_id}\0{key}"
    return f"plan_{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
