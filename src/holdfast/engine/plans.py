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


async def make_plan_once(execution: Execution, make: Callable[[], Awaitable[Plan]]) -> Plan:
    """The plan of this place: as it is recorded, or made now and on disk before anything follows from it. Said in a
    scope of its own, which is the planner's."""
    key = execution.place().scope.key("plan")
    recorded = execution.history.find(key, "")
    if recorded is None or not recorded.settled or not await execution.past(recorded):
        plan = await make()
        event = PlanGenerated(_plan_id(execution, key), plan.to_json(), key)
        stamp = execution.note(event, progress=True)
        async with execution.noting_cancel(key, "", 0):
            await execution.on_disk(stamp)
            await execution.turn(stamp.seq, stamp.at)
        # As a replay gives it, from the first time on.
        return Plan.from_json(event.plan, recorded_as=event.plan_id)
    return Plan.from_json(recorded.result, recorded_as=recorded.name)


async def to_follow(execution: Execution, plan: Plan, check: Callable[[Plan], None]) -> Plan:
    """The plan that is followed here: this one, if it was made in this job to be followed; otherwise as recorded."""
    history = execution.history
    if history.plans.get(plan.recorded_as, True):

        async def checked() -> Plan:
            check(plan)
            return plan

        plan = await make_plan_once(execution, checked)
    check(plan)
    history.plans[plan.recorded_as] = True
    return plan


def node_started(execution: Execution, plan_id: str, node: str) -> None:
    """It is a fact that the node is under way."""
    if (plan_id, node) not in execution.history.nodes:
        _record(execution, NodeStarted(plan_id, node, execution.place().scope.path))


def node_finished(execution: Execution, plan_id: str, node: str, outcome: str) -> None:
    """It is a fact how the node came out."""
    if execution.history.nodes.get((plan_id, node)) == STARTED:
        _record(execution, NodeFinished(plan_id, node, outcome))


def _record(execution: Execution, event: NodeStarted | NodeFinished) -> None:
    execution.note(event)


def _plan_id(execution: Execution, key: str) -> str:
    """One place has one plan, and the same content at two places is two."""
    place = f"{execution.owner.namespace}\0{execution.owner.job_id}\0{key}"
    return f"plan_{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
