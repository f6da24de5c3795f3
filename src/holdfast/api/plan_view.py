"""Plan view: the plans of a job from its journal, with the state of every node, including those not reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from holdfast.api.job_records import NodeView, PlanView
from holdfast.errors import HoldfastError
from holdfast.model import events as e
from holdfast.model.plan import Plan

OPEN: Final = "open"
TO_COME: Final = "to come"
NOT_REACHED: Final = "not reached"


def plans_of(facts: Iterable[tuple[int, e.Event]], *, over: bool) -> tuple[PlanView, ...]:
    """The plans of (instant, event) pairs, in the order in which they were recorded."""
    recorded: dict[str, tuple[int, Any]] = {}
    states: dict[tuple[str, str], str] = {}
    for at, event in facts:
        match event:
            case e.PlanGenerated(plan_id=plan_id, plan=plan):
                recorded[plan_id] = (at, plan)
            case e.NodeStarted(plan_id=plan_id, node=node):
                states[plan_id, node] = OPEN
            case e.NodeFinished(plan_id=plan_id, node=node, outcome=outcome):
                states[plan_id, node] = outcome
            case _:
                pass
    rest = NOT_REACHED if over else TO_COME
    return tuple(_view(plan_id, at, plan, states, rest) for plan_id, (at, plan) in recorded.items())


def _view(plan_id: str, at: int, plan: Any, states: dict[tuple[str, str], str], rest: str) -> PlanView:
    try:
        order = Plan.from_json(plan).order()
    except HoldfastError:  # a plan of another version, or an erased one
        order = ()
    nodes = tuple(
        NodeView(
            name=node.name,
            tool=node.tool,
            after=node.waits_for,
            state=states.get((plan_id, node.name), rest),
        )
        for node in order
    )
    return PlanView(plan_id=plan_id, at=at, nodes=nodes)
