"""Plans are checked once, ordered one way, and survive JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidPayload, InvalidPlan
from holdfast.model import canonical
from holdfast.model.limits import PLAN_NODES_MAX
from holdfast.model.plan import Node, Plan, Ref, resolve


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Random plans without cycles, declared in an order that need not be a possible one."""
    size = draw(st.integers(0, 12))
    nodes = []
    for index in range(size):
        earlier = st.lists(st.integers(0, index - 1), max_size=3) if index else st.just([])
        after = [f"n{i}" for i in draw(earlier)]
        args = {f"arg{k}": [Ref(f"n{i}", "out", k)] for k, i in enumerate(draw(earlier))}
        nodes.append(Node(f"n{index}", "tool", args, after))
    return Plan(draw(st.permutations(nodes)))


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [node.name for node in nodes]


@given(plans())
def test_everything_comes_after_what_it_waits_for(plan: Plan) -> None:
    """Order random plans: each node once, and after all of its inputs."""
    place = {name: index for index, name in enumerate(names(plan.order()))}
    assert place.keys() == {node.name for node in plan.nodes}
    assert all(place[name] < place[node.name] for node in plan.nodes for name in node.waits_for)


@given(plans())
def test_doing_what_is_ready_ends_with_everything_done(plan: Plan) -> None:
    """Run a plan one node at a time, always the first that is ready: that is exactly its order."""
    done: list[str] = []
    while ready := plan.ready(set(done)):
        assert all(set(node.waits_for) <= set(done) for node in ready)
        done.append(ready[0].name)
    assert done == names(plan.order())


@given(plans())
def test_a_plan_survives_json(plan: Plan) -> None:
    """Write, read and compare: same nodes, same order, same id, as recovery needs it."""
    again = Plan.from_json(canonical.decode(canonical.encode(plan.to_json())))
    assert again == plan
    assert names(again.order()) == names(plan.order())
    assert again.plan_id == plan.plan_id


def test_declared_order_decides_between_equals() -> None:
    """Declare independent nodes in an odd order, one of them before what it waits for."""
    plan = Plan([Node("c", "t", after=["b"]), Node("z", "t"), Node("b", "t"), Node("a", "t")])
    assert names(plan.order()) == ["z", "b", "c", "a"]
    assert names(plan.ready(set())) == ["z", "b", "a"]


def test_different_plans_have_different_ids() -> None:
    """Change a tool, an argument, an order: the id follows the content."""
    changed = [
        [Node("a", "t"), Node("b", "t")],
        [Node("b", "t"), Node("a", "t")],
        [Node("a", "u"), Node("b", "t")],
        [Node("a", "t", {"x": 1}), Node("b", "t")],
        [Node("a", "t", {"x": 1.0}), Node("b", "t")],
        [Node("a", "t"), Node("b", "t", after=["a"])],
    ]
    assert len({Plan(nodes).plan_id for nodes in changed}) == len(changed)


@pytest.mark.parametrize(
    "nodes, word",
    [
        ([Node("a", "t"), Node("a", "t")], "two nodes are called 'a'"),
        ([Node("a", "t", after=["b"])], "'a' refers to 'b', which is not in the plan"),
        ([Node("a", "t", {"x": [Ref("b")]})], "'a' refers to 'b', which is not in the plan"),
        ([Node("a", "t", after=["a"])], "a → a "),
        ([Node("a", "t", after=["b"]), Node("b", "t", {"x": Ref("a")})], "a → b → a "),
        (
            [
                Node("x", "t"),
                Node("d", "t", after=["c"]),
                Node("a", "t", after=["x", "b"]),
                Node("b", "t", after=["c"]),
                Node("c", "t", after=["a"]),
            ],
            "c → a → b → c ",
        ),
        ([Node(f"n{i}", "t") for i in range(PLAN_NODES_MAX + 1)], "1,001 nodes"),
    ],
)
def test_plans_that_cannot_be_run_are_refused(nodes: list[Node], word: str) -> None:
    """Build plans with each fault; the error names the nodes, and a cycle from end to end."""
    with pytest.raises(InvalidPlan) as caught:
        Plan(nodes)
    assert word in str(caught.value)


def test_a_long_chain_is_no_deep_recursion() -> None:
    """Build the longest plan there may be, each node after the one before, and the same as a ring."""
    chain = [Node(f"n{i}", "t", after=[f"n{i - 1}"] if i else []) for i in range(PLAN_NODES_MAX)]
    assert Plan(chain).order() == tuple(chain)
    with pytest.raises(InvalidPlan, match="cycle"):
        Plan([Node("n0", "t", after=[chain[-1].name]), *chain[1:]])


def test_nodes_are_checked_when_made() -> None:
    """Make nodes with bad names, arguments and references."""
    with pytest.raises(InvalidName):
        Node("", "t")
    with pytest.raises(InvalidName):
        Node("a", "t\0")
    with pytest.raises(InvalidPayload, match="at /when"):
        Node("a", "t", {"when": object()})
    with pytest.raises(InvalidPlan, match="is text"):
        Node("a", "t", after="bc")
    with pytest.raises(InvalidPlan, match="not an object"):
        Node("a", "t", [1])  # type: ignore[arg-type]


def test_arguments_without_an_end_are_refused() -> None:
    """Nest them 10,000 levels deep, and into themselves."""
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    cycle: list[Any] = [Ref("fetch")]
    cycle.append(cycle)
    for args in ({"deep": deep}, {"cycle": cycle}):
        with pytest.raises(InvalidPayload, match=r"nested deeper than 64 levels|contains itself"):
            Node("a", "tool", args)


def test_a_node_keeps_its_own_arguments() -> None:
    """Change the dictionary after the node was made: what is recorded is what runs."""
    args: dict[str, Any] = {"to": ["a"]}
    node = Node("n", "t", args)
    args["to"].append("b")
    assert node.args == {"to": ["a"]}


@pytest.mark.parametrize(
    "args",
    [
        {"$ref": 7},
        {"x": {"$ref": "a", "path": "items.0"}},
        {"x": {"$ref": "a", "path": [True]}},
        {"x": {"$ref": "a", "path": [-1]}},
        {"x": {"$ref": "a", "paths": []}},
        {"x": {"$literal": 1, "y": 2}},
    ],
)
def test_malformed_references_are_refused(args: dict[str, Any]) -> None:
    """Plan with references as a careless model writes them; the hint shows the right form."""
    with pytest.raises(InvalidPlan) as caught:
        Plan([Node("a", "t"), Node("b", "t", args)])
    assert '{"$ref": "node"' in caught.value.hint


def test_references_are_resolved_from_outputs() -> None:
    """Resolve whole outputs, places in them, and literals that only look like references."""
    args = Node(
        "b",
        "t",
        {
            "whole": Ref("a"),
            "deep": [Ref("a", "items", 1, "a.b/c")],
            "schema": {"$literal": {"$ref": "#/definitions/x"}},
            "plain": {"path": [1], "n": None},
        },
    ).args
    output = {"items": [0, {"a.b/c": "here"}]}
    assert resolve(args, {"a": output}) == {
        "whole": output,
        "deep": ["here"],
        "schema": {"$ref": "#/definitions/x"},
        "plain": {"path": [1], "n": None},
    }
    assert Node("b", "t", args).waits_for == ("a",)


@pytest.mark.parametrize(
    "ref, word",
    [
        (Ref("z"), "'z', which has no output yet"),
        (Ref("a", "nope"), "'a' has no 'nope'"),
        (Ref("a", "items", 9), "'a/items' has no 9"),
        (Ref("a", "items", "0"), "'a/items' has no '0'"),
        (Ref("a", 0), "'a' has no 0"),
        (Ref("a", "text", 0), "'a/text' has no 0"),
    ],
)
def test_references_to_nothing_are_errors(ref: Ref, word: str) -> None:
    """Resolve what is not there: an error that names the place, never a silent None."""
    with pytest.raises(InvalidPlan) as caught:
        resolve({"x": ref.to_json()}, {"a": {"items": [1], "text": "abc"}})
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"nodes": {}},
        {"nodes": [], "extra": 1},
        {"nodes": [{"name": "a"}]},
        {"nodes": [{"name": "a", "tool": "t", "args": []}]},
        {"nodes": [{"name": "a", "tool": "t", "then": "b"}]},
        {"nodes": [{"name": "a", "tool": "t", "after": "b"}]},
        {"nodes": [], "version": 2},
    ],
)
def test_foreign_documents_are_refused(document: object) -> None:
    """Read what is no plan of ours, as a planner model may return it."""
    with pytest.raises(InvalidPlan):
        Plan.from_json(document)


def test_a_model_may_leave_out_what_is_empty() -> None:
    """Read the shortest form of a plan."""
    assert Plan.from_json({"nodes": [{"name": "a", "tool": "t"}]}) == Plan([Node("a", "t")])


def test_ready_refuses_the_journal_of_another_plan() -> None:
    """Say that an unknown node is done."""
    with pytest.raises(InvalidPlan, match="'ghost' is done but not in the plan"):
        Plan([Node("a", "t")]).ready({"ghost"})
