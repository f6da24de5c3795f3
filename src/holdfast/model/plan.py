"""A plan: a recorded graph of nodes to run, made once and never made again.

A planner (a model or a person) names nodes; each calls one tool. A node waits for those in `after` and for those whose
outputs its arguments refer to. The plan is recorded before its first node runs, so recovery continues with the same
nodes in the same order whatever a model would answer today.

`plan_refs` defines how arguments refer to outputs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from holdfast.errors import InvalidPlan
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.limits import PLAN_NODES_MAX
from holdfast.model.plan_refs import Ref, find_references, resolve, to_plain

__all__ = ["Node", "Plan", "Ref", "find_references", "resolve"]

_VERSION: Final = 1


class PlanCallable(Protocol):
    """What a node may call: a tool or an agent."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True, init=False)
class Node:
    """One call of a tool. `args` may hold `Ref`s at any depth; it is copied, and kept as plain JSON.

    `callee` is the tool itself if the plan was written with it; a plan from a journal or a model has names only.
    """

    name: str
    tool: str
    args: Mapping[str, Any]
    after: tuple[str, ...]
    callee: Any = field(compare=False, repr=False)

    def __init__(
        self,
        name: str,
        tool: str | PlanCallable,
        args: Mapping[str, Any] | None = None,
        after: Iterable[str] = (),
    ) -> None:
        is_name = isinstance(tool, str)
        if isinstance(after, str):
            raise InvalidPlan(f"`after` of node {name!r} is text", hint='Write a list: after=["fetch"].')
        plain = canonical.decode(canonical.encode(to_plain({} if args is None else args)))
        if not isinstance(plain, dict):
            raise InvalidPlan(f"`args` of node {name!r} is not an object", hint="Pass arguments by name.")
        for field_name, value in (
            ("name", check_name(name, "node name")),
            ("tool", check_name(tool if is_name else getattr(tool, "name", None), "tool name")),
            ("args", plain),
            ("after", tuple(check_name(dependency, "node name") for dependency in after)),
            ("callee", None if is_name else tool),
        ):
            object.__setattr__(self, field_name, value)

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The nodes that must be done first, each once: `after`, then references as they appear."""
        return tuple(dict.fromkeys((*self.after, *(ref.node for ref in find_references(self.args)))))


@dataclass(frozen=True, slots=True, init=False)
class Plan:
    """A checked plan: names are unique, every reference names a node, nothing waits for itself.

    Equal plans have equal digests; the digest covers the nodes as declared, their order included. `recorded_as` is the
    id of this plan in a journal, if it comes from one.
    """

    nodes: tuple[Node, ...]
    recorded_as: str = field(repr=False, compare=False)
    digest: bytes = field(repr=False, compare=False)
    _order: tuple[Node, ...] = field(repr=False, compare=False)

    def __init__(self, nodes: Iterable[Node], *, recorded_as: str = "") -> None:
        nodes = tuple(nodes)
        if len(nodes) > PLAN_NODES_MAX:
            raise InvalidPlan(
                f"{len(nodes):,} nodes, more than {PLAN_NODES_MAX:,}", hint="Split the plan into jobs."
            )
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "recorded_as", recorded_as)
        object.__setattr__(self, "_order", _sort(nodes))
        object.__setattr__(self, "digest", canonical.digest_of(self.to_json()))

    @property
    def plan_id(self) -> str:
        """An id derived from the content: equal plans have equal ids."""
        return f"plan_{self.digest.hex()[:32]}"

    def order(self) -> tuple[Node, ...]:
        """Return the nodes so that each comes after all it waits for, and otherwise as declared."""
        return self._order

    def ready(self, done: AbstractSet[str]) -> tuple[Node, ...]:
        """Return the nodes that are not done and whose dependencies are done, in order."""
        if unknown := done - {node.name for node in self._order}:
            raise InvalidPlan(
                f"{min(unknown)!r} is done but not in the plan", hint="The journal belongs to another plan."
            )
        return tuple(node for node in self._order if node.name not in done and set(node.waits_for) <= done)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON, as `plan_generated` records it."""
        nodes = [{"name": n.name, "tool": n.tool, "args": n.args, "after": list(n.after)} for n in self.nodes]
        return {"version": _VERSION, "nodes": nodes}

    @staticmethod
    def from_json(value: object, *, recorded_as: str = "") -> Plan:
        """Return the plan that `to_json` or a model wrote; unknown fields are rejected."""
        try:
            document = msgspec.convert(value, _PlanDocument)
        except msgspec.ValidationError as error:
            raise InvalidPlan(f"not a plan: {error}") from None
        if document.version != _VERSION:
            raise InvalidPlan(f"plan version {document.version}; this code reads version {_VERSION}")
        nodes = tuple(Node(n.name, n.tool, n.args, n.after) for n in document.nodes)
        return Plan(nodes, recorded_as=recorded_as)


class _NodeDocument(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    tool: str
    args: dict[str, Any] = {}
    after: list[str] = []


class _PlanDocument(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[_NodeDocument]
    version: int = _VERSION


def _sort(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Order by dependency; among nodes that could come next, the one declared first does."""
    place: dict[str, int] = {}
    for index, node in enumerate(nodes):
        if place.setdefault(node.name, index) != index:
            raise InvalidPlan(f"two nodes are called {node.name!r}", hint="Give every node its own name.")
    waits: list[set[int]] = []
    frees: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for name in node.waits_for:
            if name not in place:
                raise InvalidPlan(f"node {node.name!r} refers to {name!r}, which is not in the plan")
            frees[place[name]].append(index)
        waits.append({place[name] for name in node.waits_for})
    free = [index for index, waiting in enumerate(waits) if not waiting]
    ordered = []
    while free:
        index = heapq.heappop(free)
        ordered.append(nodes[index])
        for freed in frees[index]:
            waits[freed].discard(index)
            if not waits[freed]:
                heapq.heappush(free, freed)
    if len(ordered) < len(nodes):
        cycle = " → ".join(nodes[index].name for index in _find_cycle(waits))
        raise InvalidPlan(f"the plan has a cycle: {cycle} (each waits for the next)")
    return tuple(ordered)


def _find_cycle(waits: list[set[int]]) -> list[int]:
    """A cycle among nodes that never became ready: following their dependencies must lead back."""
    trail = [next(index for index, waiting in enumerate(waits) if waiting)]
    while True:
        following = min(waits[trail[-1]])
        if following in trail:
            return [*trail[trail.index(following) :], following]
        trail.append(following)
