"""Plans: a graph of calls, made once, and executed with as much parallelism as its dependencies allow.

    plan = hf.Plan(
        [
            hf.Node("find", lookup, {"order": "42"}),
            hf.Node("pay", refund, {"order": "42", "cents": hf.Ref("find", "cents")}),
            hf.Node("tell", mail, {"to": hf.Ref("find", "customer")}, after=["pay"]),
        ]
    )
    outcomes = await hf.execute(plan)

With `hf.plan` the planner is a model, or code that may return another plan the next time. Either way the plan is
recorded before its first node runs, and every later run follows the recorded plan: the planner does not run again.

A node is a call in a scope of its name. So each node finds its own calls again, whichever node is faster, and
completed calls are not repeated. An agent among the tools is spawned, as a separate job.
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
    """The outcome of a node: succeeded with a value, failed with an error message, or skipped."""

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
    """The plan for this goal: the planner makes it in the first run, and every later run gets the same plan.

    The planner is a model, which gets the tools and is corrected if its plan cannot work; or an async function from
    the goal to a plan. The planner's own calls are not repeated once there is a plan.
    """
    offered = _by_name(tools)

    async def make() -> Plan:
        def check(candidate: Plan) -> None:
            _check(candidate, offered)

        candidate = await (
            make_plan(planner, goal, offered, check) if isinstance(planner, Model) else planner(goal)
        )
        if not isinstance(candidate, Plan):
            msg = f"the planner returned a {type(candidate).__qualname__}"
            raise InvalidPlan(msg, hint="Return an hf.Plan.")
        check(candidate)
        return candidate

    execution = context.find_drive()
    if execution is None:
        return _with(offered, await make())
    with execution.scope("plan"):
        return _with(offered, await plans.make_plan_once(execution, make))


async def execute(
    plan: Plan,
    *,
    tools: Iterable[Callee] = (),
    on_failure: OnFailure = "stop",
) -> dict[str, NodeOutcome]:
    """Executes every node of the plan in dependency order; returns the outcomes by name.

    tools: where the names in the plan are looked up, if it was not written with the tools themselves. on_failure:
    with "stop" no further node starts, and PlanFailed is raised when the running nodes have ended; "skip_dependents"
    skips all nodes after the failed one; "go_on" skips only those that need its output.
    """
    if on_failure not in _POLICIES:
        msg = f"on_failure={on_failure!r} is not known"
        raise InvalidSetting(msg, hint=f"Say one of {', '.join(map(repr, _POLICIES))}.")
    offered = _by_name([*tools, *(node.callee for node in plan.nodes if node.callee is not None)])
    execution = context.find_drive()
    if execution is None:
        _check(plan, offered)
        return await _Execution(None, plan, offered, on_failure).outcomes()
    with execution.scope("execute"):
        plan = await plans.choose_plan(execution, plan, lambda candidate: _check(candidate, offered))
        return await _Execution(execution, plan, offered, on_failure).outcomes()


# ── before the first call ─────────────────────────────────────────────────────────────────────────


def _by_name(tools: Iterable[Any]) -> dict[str, Callee]:
    tools_by_name: dict[str, Callee] = {}
    for tool in tools:
        if not isinstance(tool, Tool | Agent):
            msg = f"{tool!r} is neither a tool nor an agent"
            raise InvalidSetting(msg, hint="Declare the function with @hf.tool(effect=…).")
        if tools_by_name.setdefault(tool.name, tool) is not tool:
            msg = f"there are two tools called {tool.name!r}"
            raise InvalidSetting(msg, hint="Give one of them another name with name=….")
    return tools_by_name


def _with(offered: Mapping[str, Callee], plan: Plan) -> Plan:
    """The same plan, with the tools in place of their names."""
    nodes = [Node(node.name, offered.get(node.tool, node.tool), node.args, node.after) for node in plan.nodes]
    return Plan(nodes, recorded_as=plan.recorded_as)


def _check(plan: Plan, offered: Mapping[str, Callee]) -> None:
    """Checks that every node names an available tool and arguments that it accepts; raises InvalidPlan before the
    first call."""
    for node in plan.nodes:
        callee = offered.get(node.tool)
        if callee is None:
            tool_names = ", ".join(sorted(offered)) or "none"
            msg = f"node {node.name!r} calls {node.tool!r}, which is not among the tools ({tool_names})"
            raise InvalidPlan(msg, hint=_PASS_TOOLS)
        later = {name for name, value in node.args.items() if next(find_references(value), None) is not None}
        literals = {name: resolve(value, {}) for name, value in node.args.items() if name not in later}
        try:
            callee.admit({**node.args, **literals}, later)
        except Misuse as error:
            msg = f"node {node.name!r}: {error}"
            raise InvalidPlan(msg, hint=error.hint) from None


# ── execution ─────────────────────────────────────────────────────────────────────────────────────


class _Execution:
    """The execution of one plan, from its first node to its last."""

    def __init__(
        self, execution: Execution | None, plan: Plan, offered: Mapping[str, Callee], on_failure: OnFailure
    ) -> None:
        self._execution = execution
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
        for result in ended:
            if isinstance(result, BaseException):
                raise result
        outcomes = {node.name: self._outcomes[node.name] for node in order}
        if self._failures and self._on_failure == "stop":
            raise self._stopped(outcomes)
        return outcomes

    def _placed(self, node: Node) -> Coroutine[Any, Any, None]:
        """The coroutine of a node, named after it: tasks are scoped by their coroutine's name, so a replay finds it
        again."""
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
            arguments = callee.check_arguments(resolve(node.args, self._outputs))
            output = await callee.outcome(arguments)
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
        if self._execution is not None:
            plans.record_node_start(self._execution, self._plan.recorded_as, node.name)

    def _note_end(self, node: Node, outcome: str) -> None:
        if self._execution is not None and not self._execution.stopping:
            plans.record_node_outcome(self._execution, self._plan.recorded_as, node.name, outcome)

    def _stopped(self, outcomes: dict[str, NodeOutcome]) -> PlanFailed:
        """The error that says where the plan stopped. The errors of the nodes are its cause, so that their calls are
        repeated if it ends the attempt."""
        node, first = next(iter(self._failures.items()))
        skipped = [name for name, outcome in outcomes.items() if outcome.status == "skipped"]
        rest = f"; not begun: {', '.join(skipped)}" if skipped else ""
        failed = PlanFailed(f"node {node!r} failed: {_said(first)}{rest}", node=node, outcomes=outcomes)
        many = len(self._failures) > 1
        failed.__cause__ = ExceptionGroup("nodes failed", list(self._failures.values())) if many else first
        return failed


def _is_an_outcome(error: Exception) -> bool:
    """Whether this error is the outcome of a node. The run handles any other."""
    if not isinstance(error, HoldfastError):
        return True
    return isinstance(error, InJob | Misuse) and not isinstance(error, InvalidMove | Withdrawn)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, HoldfastError) else f"{type(error).__name__}: {error}"
