"""Plans in a journal: made once, and followed by every later run.

A plan is recorded under the place in the code where it was made. Whatever a planner would answer today, and whatever
the code around it builds, a run that comes to that place gets the recorded plan. Each node leaves two events, for
people who inspect the job: which calls a resumed run does not repeat, it knows from the calls themselves.
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
    """Returns the plan of this place: the recorded one, or one that is made now and is on disk before anything follows
    from it. Call it in a separate scope, which belongs to the planner."""
    key = execution.place().scope.key("plan")
    recorded = execution.history.find(key, "")
    if recorded is None or not recorded.settled or not await execution.wait_for_outcome(recorded):
        plan = await make()
        event = PlanGenerated(_plan_id(execution, key), plan.to_json(), key)
        stamp = execution.note(event, progress=True)
        async with execution.noting_cancel(key, "", 0):
            await execution.wait_until_durable(stamp)
            await execution.turn(stamp.seq, stamp.at)
        # As a replay returns it, from the first run on.
        return Plan.from_json(event.plan, recorded_as=event.plan_id)
    return Plan.from_json(recorded.result, recorded_as=recorded.name)


async def choose_plan(execution: Execution, plan: Plan, check: Callable[[Plan], None]) -> Plan:
    """Returns the plan to follow here: this one, if it was made in this job to be followed; otherwise as recorded."""
    history = execution.history
    if history.plans.get(plan.recorded_as, True):

        async def checked() -> Plan:
            check(plan)
            return plan

        plan = await make_plan_once(execution, checked)
    check(plan)
    history.plans[plan.recorded_as] = True
    return plan


def record_node_start(execution: Execution, plan_id: str, node: str) -> None:
    """Records that the node has started."""
    if (plan_id, node) not in execution.history.nodes:
        _record(execution, NodeStarted(plan_id, node, execution.place().scope.path))


def record_node_outcome(execution: Execution, plan_id: str, node: str, outcome: str) -> None:
    """Records the outcome of the node."""
    if execution.history.nodes.get((plan_id, node)) == STARTED:
        _record(execution, NodeFinished(plan_id, node, outcome))


def _record(execution: Execution, event: NodeStarted | NodeFinished) -> None:
    execution.note(event)


def _plan_id(execution: Execution, key: str) -> str:
    """One place has one plan; equal plans at two places have two ids."""
    place = f"{execution.owner.namespace}\0{execution.owner.job_id}\0{key}"
    return f"plan_{hashlib.sha256(place.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
