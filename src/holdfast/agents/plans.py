"""Plans: what to do in which order, made once, and carried out as far in parallel as it goes.

    plan = hf.Plan(
        [
            hf.Node("find", lookup, {"order": "42"}),
            hf.Node("pay", refund, {"order": "42", "cents": hf.Ref("find", "cents")}),
            hf.Node("tell", mail, {"to": hf.Ref("find", "customer")}, after=["pay"]),
        ]
    )
    outcomes = await hf.execute(plan)

`hf.plan` has a model make the plan, or code that cannot be trusted to say the same thing twice. Either way it is a fact
before its first node runs, and that fact is what every later run follows: a planner is not asked again, and what it
would say now is not heard.

A node is a call in a scope of its name. So whichever node is faster, each finds its own calls again, and what was done
is not done twice. An agent among the tools is spawned, as a job of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Literal, TypeVar, overload

import msgspec

from holdfast.agents import context
from holdfast.agents.agents import Agent
from holdfast.agents.models.model import Model
from holdfast.agents.planner import make_plan
from holdfast.agents.schemas import Callee
from holdfast.agents.tools import Tool
from holdfast.engine import plans
from holdfast.engine.execution import Execution
from holdfast.errors import (
    HoldfastError,
    InJob,
    InvalidMove,
    InvalidPlan,
    InvalidSetting,
    Misuse,
    PlanFailed,
    Withdrawn,
)
from holdfast.model.plan import Node, Plan, find_references, resolve

OnFailure = Literal["stop", "go_on", "skip_dependents"]

_POLICIES: Final = ("stop", "go_on", "skip_dependents")
_PASS_TOOLS: Final = "Pass it in tools=[…]: a plan from a journal or a model has only names."

G = TypeVar("G")


class NodeOutcome(msgspec.Struct, frozen=True):
    """How a node came out: with a value, with an error in words, or not at all."""

    status: Literal["succeeded", "failed", "skipped"]
    value: Any = None
    error: str = ""

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


_SKIPPED: Final = NodeOutcome("skipped")


@overload
async def plan(planner: Model, goal: str, *, tools: Iterable[Callee]) -> Plan: ...


@overload
async def plan(planner: Callable[[G], Awaitable[Plan]], goal: G, *, tools: Iterable[Callee]) -> Plan: ...


async def plan(planner: Any, goal: Any, *, tools: Iterable[Callee]) -> Plan:
    """The plan for this goal: made by the planner the first time, and the same one ever after.

    The planner is a model, which is told of the tools and corrected if its plan cannot work; or an async function from
    the goal to a plan. What the planner calls on its way is not called again once there is a plan.
    """
    offered = _by_name(tools)

    async def make() -> Plan:
        def check(made: Plan) -> None:
            _check(made, offered)

        made = await (
            make_plan(planner, goal, offered, check) if isinstance(planner, Model) else planner(goal)
        )
        if not isinstance(made, Plan):
            msg = f"the planner returned a {type(made).__qualname__}"
            raise InvalidPlan(msg, hint="Return an hf.Plan.")
        check(made)
        return made

    drive = context.find_drive()
    if drive is None:
        return _with(offered, await make())
    with drive.scope("plan"):
        return _with(offered, await plans.make_plan_once(drive, make))


async def execute(
    plan: Plan,
    *,
    tools: Iterable[Callee] = (),
    on_failure: OnFailure = "stop",
) -> dict[str, NodeOutcome]:
    """Every node of the plan has come out, in the order of their dependencies; how, by name.

    tools: where the names in the plan are looked up, if it was not written with the tools themselves. on_failure: at
    "stop" nothing more is started, and when what runs has ended, PlanFailed is raised; "skip_dependents" leaves out
    what comes after the failed node; "go_on" leaves out only what needs its output.
    """
    if on_failure not in _POLICIES:
        msg = f"on_failure={on_failure!r} is not known"
        raise InvalidSetting(msg, hint=f"Say one of {', '.join(map(repr, _POLICIES))}.")
    offered = _by_name([*tools, *(node.callee for node in plan.nodes if node.callee is not None)])
    drive = context.find_drive()
    if drive is None:
        _check(plan, offered)
        return await _Execution(None, plan, offered, on_failure).outcomes()
    with drive.scope("execute"):
        plan = await plans.choose_plan(drive, plan, lambda one: _check(one, offered))
        return await _Execution(drive, plan, offered, on_failure).outcomes()


# ── before anything is done ───────────────────────────────────────────────────────────────────────


def _by_name(tools: Iterable[Any]) -> dict[str, Callee]:
    named: dict[str, Callee] = {}
    for tool in tools:
        if not isinstance(tool, Tool | Agent):
            msg = f"{tool!r} is neither a tool nor an agent"
            raise InvalidSetting(msg, hint="Declare the function with @hf.tool(effect=…).")
        if named.setdefault(tool.name, tool) is not tool:
            msg = f"there are two tools called {tool.name!r}"
            raise InvalidSetting(msg, hint="Give one of them another name with name=….")
    return named


def _with(offered: Mapping[str, Callee], made: Plan) -> Plan:
    """The same plan, with the tools themselves."""
    nodes = [Node(one.name, offered.get(one.tool, one.tool), one.args, one.after) for one in made.nodes]
    return Plan(nodes, recorded_as=made.recorded_as)


def _check(made: Plan, offered: Mapping[str, Callee]) -> None:
    """Every node names a tool that is there, with arguments that it takes; or InvalidPlan, before anything is done."""
    for node in made.nodes:
        callee = offered.get(node.tool)
        if callee is None:
            named = ", ".join(sorted(offered)) or "none"
            msg = f"node {node.name!r} calls {node.tool!r}, which is not among the tools ({named})"
            raise InvalidPlan(msg, hint=_PASS_TOOLS)
        later = {name for name, value in node.args.items() if next(find_references(value), None) is not None}
        known = {name: resolve(value, {}) for name, value in node.args.items() if name not in later}
        try:
            callee.admit({**node.args, **known}, later)
        except Misuse as error:
            msg = f"node {node.name!r}: {error}"
            raise InvalidPlan(msg, hint=error.hint) from None


# ── carrying it out ───────────────────────────────────────────────────────────────────────────────


class _Execution:
    """One plan, from its first node to its last."""

    def __init__(
        self, drive: Execution | None, plan: Plan, offered: Mapping[str, Callee], on_failure: OnFailure
    ) -> None:
        self._drive = drive
        self._plan = plan
        self._offered = offered
        self._on_failure = on_failure
        self._ended = {node.name: asyncio.Event() for node in plan.nodes}
        self._outcomes: dict[str, NodeOutcome] = {}
        self._outputs: dict[str, Any] = {}
        self._failures: dict[str, Exception] = {}

    async def outcomes(self) -> dict[str, NodeOutcome]:
        order = self._plan.order()
        ended = await asyncio.gather(*map(self._placed, order), return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one
        outcomes = {node.name: self._outcomes[node.name] for node in order}
        if self._failures and self._on_failure == "stop":
            raise self._stopped(outcomes)
        return outcomes

    def _placed(self, node: Node) -> Coroutine[Any, Any, None]:
        """The task that runs this is found again by the node's name: tasks are scoped by their coroutine's name."""
        coroutine: Any = self._visited(node)
        coroutine.__qualname__ = node.name
        placed: Coroutine[Any, Any, None] = coroutine
        return placed

    async def _visited(self, node: Node) -> None:
        try:
            for name in node.waits_for:
                await self._ended[name].wait()
            self._outcomes[node.name] = await self._outcome(node) if self._may_start(node) else _SKIPPED
        finally:
            self._ended[node.name].set()

    def _may_start(self, node: Node) -> bool:
        match self._on_failure:
            case "stop":
                return not self._failures
            case "skip_dependents":
                return all(name in self._outputs for name in node.waits_for)
            case _:
                return all(ref.node in self._outputs for ref in find_references(node.args))

    async def _outcome(self, node: Node) -> NodeOutcome:
        callee = self._offered[node.tool]
        self._note_start(node)
        try:
            given = callee.check_arguments(resolve(node.args, self._outputs))
            output = await callee.outcome(given)
            value = callee.signature.result(output)
        except asyncio.CancelledError:
            self._note_end(node, plans.CANCELLED)
            raise
        except Exception as error:
            if not _is_an_outcome(error):
                raise
            self._note_end(node, "failed")
            self._failures[node.name] = error
            return NodeOutcome("failed", error=_said(error))
        self._note_end(node, "succeeded")
        self._outputs[node.name] = output
        return NodeOutcome("succeeded", value)

    def _note_start(self, node: Node) -> None:
        if self._drive is not None:
            plans.record_node_start(self._drive, self._plan.recorded_as, node.name)

    def _note_end(self, node: Node, outcome: str) -> None:
        if self._drive is not None and not self._drive.stopping:
            plans.record_node_outcome(self._drive, self._plan.recorded_as, node.name, outcome)

    def _stopped(self, outcomes: dict[str, NodeOutcome]) -> PlanFailed:
        """The error that says where the plan stopped. What the nodes raised is its cause, so that their calls are made
        again if it ends the attempt."""
        node, first = next(iter(self._failures.items()))
        skipped = [name for name, one in outcomes.items() if one.status == "skipped"]
        rest = f"; not begun: {', '.join(skipped)}" if skipped else ""
        failed = PlanFailed(f"node {node!r} failed: {_said(first)}{rest}", node=node, outcomes=outcomes)
        many = len(self._failures) > 1
        failed.__cause__ = ExceptionGroup("nodes failed", list(self._failures.values())) if many else first
        return failed


def _is_an_outcome(error: Exception) -> bool:
    """Whether this is how a node came out. Anything else is the run's to deal with."""
    if not isinstance(error, HoldfastError):
        return True
    return isinstance(error, InJob | Misuse) and not isinstance(error, InvalidMove | Withdrawn)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
