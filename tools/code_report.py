"""What a newcomer would stumble over in `src/`, as lists with their counts.

    python -m tools.code_report             counts and lists
    python -m tools.code_report --counts    counts alone

Module cycles (imports under `TYPE_CHECKING` and inside functions included), class names that are defined twice, public
functions whose name is a participle, and docstrings that do not say who acts.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src/holdfast"
WORDS: Final = re.compile(r"\b(somebody|nobody|whoever)\b", re.IGNORECASE)
IRREGULAR: Final = frozenset(
    "asked beaten bent bitten bound begun born bought broken brought built caught chosen cut dealt done drawn "
    "driven eaten fallen fed felt forgotten found frozen given gone grown heard held hidden hung kept known laid "
    "left lent lit lost made meant met paid proven put read ridden risen run said seen sent set shaken shown "
    "shrunk shut slept sold spent split spoken spun stolen stood struck stuck sung sunk swept sworn swung taken "
    "taught thought thrown told torn woken won worn wound written".split()
)
VERBS: Final = frozenset(
    {"cut", "feed", "need", "put", "read", "run", "seed", "set", "shed", "shut", "speed", "split", "succeed"}
)
"""Participles that are verbs, too, and verbs that end in -ed."""
ASYNCIO: Final = frozenset({"cancelled"})
"""Methods that override one of asyncio's."""
CHECKS: Final = tuple(
    f"holdfast.testing.conformance.{part}." for part in ("jobs", "seed_004", "session_edge_cases")
)


def load_modules() -> dict[str, ast.Module]:
    """Dotted name → syntax tree."""
    found: dict[str, ast.Module] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("holdfast", *path.relative_to(PACKAGE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def find_imports(name: str, tree: ast.Module, known: set[str]) -> set[str]:
    """The modules that this one imports anywhere. Lazy exports of a package's `__init__` are not imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for one in node.names:
                inner = f"{node.module}.{one.name}"
                found.add(inner if inner in known else node.module)
    return {one for one in found if one in known and one != name}


def find_cycles(trees: dict[str, ast.Module]) -> list[list[str]]:
    """Strongly connected components of more than one module."""
    known = set(trees)
    packages = {name for name in known if any(other.startswith(name + ".") for other in known)}
    graph = {name: find_imports(name, tree, known) for name, tree in trees.items() if name not in packages}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in graph:
                continue
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            component: list[str] = []
            while True:
                component.append(stack.pop())
                if component[-1] == name:
                    break
            if len(component) > 1:
                found.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return found


def find_duplicate_classes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Public class name → the modules that define it, where there are several."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def is_participle(name: str) -> bool:
    """Whether a function's name says what was done instead of what it does."""
    first, *_, last = [*name.split("_"), name.rpartition("_")[2]]
    words = {first} if "_" in name else {first, last}
    return any(
        word.removeprefix("un") in IRREGULAR or (word.endswith("ed") and len(word) > 3)
        for word in words - VERBS
    )


def _list_functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    """Functions and methods of public scope, and whether each is a property."""
    for node in tree.body:
        scope = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else [node]
        for one in scope:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {ast.unparse(decorator) for decorator in one.decorator_list}
                yield one, any("property" in name for name in names)


def find_participles(trees: dict[str, ast.Module]) -> list[str]:
    """Public functions, without the checks of the conformance suite: those are sentences about what holds."""
    return [
        f"{name}:{node.lineno} {node.name}"
        for name, tree in trees.items()
        if not name.startswith(CHECKS)
        for node, is_property in _list_functions(tree)
        if not node.name.startswith("_") and not is_property and node.name not in ASYNCIO
        if is_participle(node.name)
    ]


def find_words(trees: dict[str, ast.Module]) -> list[str]:
    """Docstrings with words that leave open who acts."""
    found: list[str] = []
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
                continue
            text = node.value.value
            if isinstance(text, str) and (word := WORDS.search(text)):
                found.append(f"{name}:{node.lineno} {word[0]}")
    return found


def main() -> int:
    trees = load_modules()
    lists = {
        "module cycles": [" ".join(one) for one in find_cycles(trees)],
        "class names defined twice": [
            f"{name}: {', '.join(places)}" for name, places in find_duplicate_classes(trees).items()
        ],
        "public functions that are participles": find_participles(trees),
        "docstrings with somebody, nobody, whoever": find_words(trees),
    }
    for title, found in lists.items():
        print(f"{title}: {len(found)}")
        if "--counts" not in sys.argv[1:]:
            for one in found:
                print(f"  {one}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
