"""The band of lengths that a function or file may not be in: it has grown a little too long, and has a seam.

A function of 71 to 80 lines or a file of 601 to 640 fails. What is longer is one thing that cannot be split, and is
listed below with its reason. What is shorter is of no interest: a file is split where a reader would look for another
word.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.project import PACKAGE, modules, parsed

FUNCTION_BAND = range(71, 81)
FILE_BAND = range(601, 641)

# "store/sqlite/executor.py" or "store/sqlite/executor.py:Writer.run" → why it is longer than the band.
LONGER: dict[str, str] = {
    "client/blocking_client.py": "written by tools/make_blocking_client.py",
    "client/client.py": "one class: a typed method for each operation",
    "model/replay_history.py": "one class reads one journal, and what it keeps of a call and of a job is read with it",
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


def find_long(path: Path) -> Iterator[tuple[str, int, range]]:
    """Whatever in this file is in its band or longer."""
    name = path.relative_to(PACKAGE).as_posix()
    lines = len(path.read_text(encoding="utf-8").splitlines())
    if lines >= FILE_BAND.start:
        yield name, lines, FILE_BAND
    for function, length in functions(parsed(path)):
        if length >= FUNCTION_BAND.start:
            yield f"{name}:{function}", length, FUNCTION_BAND


def find_complaints(found: list[tuple[str, int, range]], longer: dict[str, str]) -> list[str]:
    """What is too long, each with what to do about it."""
    complaints = []
    for name, lines, band in found:
        if lines in band:
            complaints.append(f"{name} has {lines} lines: split it at a seam")
        elif name not in longer:
            complaints.append(
                f"{name} has {lines} lines: split it at a seam, or list it in LONGER with the reason"
            )
    listed = longer.keys() - {name for name, lines, band in found if lines not in band}
    return complaints + [f"{name} is no longer that long: take it out of LONGER" for name in sorted(listed)]


def test_nothing_is_in_the_band() -> None:
    found = [one for path in modules() for one in find_long(path)]
    assert not (complaints := find_complaints(found, LONGER)), "\n" + "\n".join(complaints)


@pytest.mark.parametrize(
    "found, longer, complaint",
    [
        ([("a", 71, FUNCTION_BAND)], {}, "split it at a seam"),
        ([("a", 640, FILE_BAND)], {"a": "one thing"}, "split it at a seam"),
        ([("a", 81, FUNCTION_BAND)], {}, "list it in LONGER"),
        ([], {"a": "one thing"}, "take it out"),
    ],
)
def test_what_is_too_long_is_named(
    found: list[tuple[str, int, range]], longer: dict[str, str], complaint: str
) -> None:
    assert complaint in find_complaints(found, longer)[0]


def test_methods_and_nested_functions_are_measured() -> None:
    tree = ast.parse("class A:\n  def b(self):\n    def c():\n      pass\n    return c\nasync def d(): ...\n")
    assert dict(functions(tree)) == {"A.b": 4, "A.b.c": 2, "d": 1}
