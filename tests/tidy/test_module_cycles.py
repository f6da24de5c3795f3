"""The modules of the package form no cycle, and an execution is given its collaborators when it is made.

An import under `TYPE_CHECKING` or inside a function is an arrow like any other: two modules that need each other's
types are one module, or need a protocol below both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.project import PACKAGE, modules, parsed, shown

Graph = Mapping[str, set[str]]

EXECUTION_NAMES = frozenset({"drive", "_drive", "execution", "_execution"})
"""What the code calls an execution."""


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_imports(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """The modules that a module imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from ({inner, node.module} & known if inner not in known else {inner})


def find_cycles(graph: Graph) -> list[list[str]]:
    """The sets of modules each of which leads to each other: the strongly connected components, by Tarjan."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for target in sorted(graph.get(module, ())):
            if target not in order:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], order[target])
        if lowest[module] == order[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1 or module in graph.get(module, ()):
                found.append(sorted(component))

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return sorted(found)


def test_modules_form_no_cycle() -> None:
    """Builds the graph of all imports of the package, those for type checkers included."""
    paths = {module_name(path): path for path in modules()}
    graph = {name: set(find_imports(parsed(path), set(paths))) for name, path in paths.items()}
    assert len(graph) > 100
    assert sum(map(len, graph.values())) > len(graph)
    cycles = [" ⇄ ".join(cycle) for cycle in find_cycles(graph)]
    assert not cycles, "give the lower one a protocol, or move what both need below them: " + "; ".join(
        cycles
    )


@pytest.mark.parametrize(
    "graph, cycles",
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}}, [["a", "b"]]),
        ({"a": {"b", "c"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}, [["b", "c", "d"]]),
        ({"a": {"a"}}, [["a"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"a", "d"}, "d": {"c"}}, [["a", "b"], ["c", "d"]]),
    ],
)
def test_cycles_are_found(graph: Graph, cycles: list[list[str]]) -> None:
    assert find_cycles(graph) == cycles


@pytest.mark.parametrize(
    "source",
    [
        "import holdfast.b",
        "from holdfast.b import thing",
        "from holdfast import b",
        "if TYPE_CHECKING:\n    from holdfast.b import thing",
        "def lazy():\n    from holdfast.b import thing",
    ],
)
def test_every_kind_of_import_is_an_arrow(source: str) -> None:
    assert set(find_imports(ast.parse(source), {"holdfast.a", "holdfast.b"})) == {"holdfast.b"}


def find_assignments(tree: ast.Module) -> Iterator[int]:
    """The lines in which an attribute of an execution is assigned."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        owner = node.value
        name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
        if name in EXECUTION_NAMES:
            yield node.lineno


def test_no_module_assigns_to_an_execution() -> None:
    """What an execution works with is an argument of its constructor (mypy checks the same for `Final`)."""
    offenders = [f"{shown(path)}:{line}" for path in modules() for line in find_assignments(parsed(path))]
    assert not offenders, "give it to the constructor: " + ", ".join(offenders)


@pytest.mark.parametrize(
    "line", ["drive.store = 1", "self._drive.x, y = 1, 2", "drive.running += 1", "del drive.x"]
)
def test_assignments_are_found(line: str) -> None:
    assert list(find_assignments(ast.parse(line))) == [1]
    assert not list(find_assignments(ast.parse("self._drive = Execution(drive.store)")))
