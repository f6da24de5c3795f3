"""Small things stay small.

A function over 60 lines or a file over 400 is either cut, or recorded below with its size and the reason it is long.
A record may only go down: growing fails, and so does shrinking without lowering the record.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tidy.source import PACKAGE, modules, parsed

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 400

# "store/sqlite/executor.py" or "store/sqlite/executor.py:Writer.run" → its length today.  # why it is long
LONG: dict[str, int] = {
    "errors.py": 410,  # every error there is, drawn and written in one place
}


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every function's dotted name in its file, and how many lines it takes."""

    def inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = prefix + child.name
                if not isinstance(child, ast.ClassDef):
                    assert child.end_lineno is not None
                    yield name, child.end_lineno - child.lineno + 1
                yield from inside(child, name + ".")
            else:
                yield from inside(child, prefix)

    return inside(tree, "")


def long_things(path: Path) -> Iterator[tuple[str, int]]:
    """Whatever in this file is over its limit."""
    name = path.relative_to(PACKAGE).as_posix()
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines > FILE_LINES_MAX:
        yield name, lines
    yield from ((f"{name}:{f}", n) for f, n in functions(parsed(path)) if n > FUNCTION_LINES_MAX)


def complaints(found: dict[str, int], recorded: dict[str, int]) -> list[str]:
    """What changed the wrong way, each with what to do about it."""
    said = []
    for name in sorted(found.keys() | recorded.keys()):
        now, before = found.get(name), recorded.get(name)
        if now is None:
            said.append(f"{name} is no longer long: take it out of LONG")
        elif before is None:
            said.append(f"{name} has {now} lines: cut it, or record it in LONG with the reason")
        elif now > before:
            said.append(f"{name} grew from {before} to {now} lines: cut it")
        elif now < before:
            said.append(f"{name} shrank from {before} to {now} lines: lower its record")
    return said


def test_nothing_grows_long() -> None:
    found = {name: lines for path in modules() for name, lines in long_things(path)}
    assert not (said := complaints(found, LONG)), "\n" + "\n".join(said)


@pytest.mark.parametrize(
    "found, recorded, word",
    [
        ({"a": 61}, {}, "cut it, or record it"),
        ({"a": 70}, {"a": 69}, "grew"),
        ({"a": 68}, {"a": 69}, "lower"),
        ({}, {"a": 69}, "take it out"),
    ],
)
def test_the_ratchet_turns_one_way(found: dict[str, int], recorded: dict[str, int], word: str) -> None:
    assert word in complaints(found, recorded)[0]


def test_methods_and_nested_functions_are_measured() -> None:
    tree = ast.parse("class A:\n  def b(self):\n    def c():\n      pass\n    return c\nasync def d(): ...\n")
    assert dict(functions(tree)) == {"A.b": 4, "A.b.c": 2, "d": 1}
