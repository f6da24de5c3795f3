"""A test asserts: a function that cannot fail proves nothing.

A test function must hold an `assert`, a `pytest.raises`, `pytest.fail` or the like, or call a function of the tests (or
of `holdfast.testing`) that does so itself, through any number of helpers. Functions are looked up where a reader would:
in the test's own file, in what it imports, in the `conftest.py` files above it and in what those import. An assertion
that only tells the type checker that a value is there (`is not None`, `isinstance`) counts in no helper.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.support.project import PACKAGE, ROOT, parsed, shown

# Calls that fail by themselves when something is not as it should be: of pytest, subprocess, the browser, and our kit.
FAILS = frozenset(
    "raises warns fail fnmatch_lines assert_outcomes check_call check_output wait_for_url wait_for_function"
    " survives_crashes survives_crashes_async".split()
)

_CHECK = "the conformance check that it is given asserts"
_REFUSES = "what it calls raises where it refuses, as the tests beside it show"

# "file::test" → why it needs no assertion.
MAY_ONLY_RUN: dict[str, str] = {
    "tests/acceptance/test_seed_004.py::test_seed_004": _CHECK,
    "tests/security/test_s10_encryption.py::test_the_same_on_postgres": _CHECK,
    "tests/store/conformance/test_conformance.py::test_store_keeps_its_promise": _CHECK,
    "tests/store/property/test_regressions.py::test_found": _CHECK,
    "tests/store/disk_faults/test_refused_locations.py::test_linked_library_is_new_enough": _REFUSES,
    "tests/store/disk_faults/test_refused_locations.py::test_local_filesystem_is_fine": _REFUSES,
}

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Place: TypeAlias = tuple[str, str]
"""A file, and the name of a function or method in it."""


def module_name(path: Path) -> str:
    below = path.relative_to(PACKAGE.parent if path.is_relative_to(PACKAGE) else ROOT).with_suffix("")
    return ".".join(below.parts).removesuffix(".__init__")


def narrows(node: ast.Assert) -> bool:
    """Whether it only says of which type a value is."""
    test = ast.unparse(node.test)
    return test.endswith(" is not None") or test.startswith("isinstance(")


class Helpers:
    """Who asserts, among all functions of these files."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._trees = trees
        self._functions = {
            module: [node for node in ast.walk(tree) if isinstance(node, Function)]
            for module, tree in trees.items()
        }
        self._defined = {module: {f.name for f in found} for module, found in self._functions.items()}
        self._imported = {module: dict(_imports(tree)) for module, tree in trees.items()}
        self._asserting = self._find()

    def find_silent(self, module: str) -> Iterator[str]:
        """The tests of a module that nothing can fail but an exception by accident."""
        for function in self._functions[module]:
            if function.name.startswith("test_") and not _fails(function, in_test=True):
                used = self._used(module, function)
                used |= {place for a in function.args.args for place in self._places(module, a.arg)}
                if not used & self._asserting:
                    yield function.name

    def _find(self) -> set[Place]:
        used: dict[Place, set[Place]] = {}
        asserting: set[Place] = set()
        for module, functions in self._functions.items():
            for function in functions:
                place = (module, function.name)
                used.setdefault(place, set()).update(self._used(module, function))
                if _fails(function, in_test=False):
                    asserting.add(place)
        while more := {
            place for place, others in used.items() if place not in asserting and others & asserting
        }:
            asserting |= more
        return asserting

    def _used(self, module: str, function: Function) -> set[Place]:
        """What it calls, or hands to something that calls it."""
        found: set[Place] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                for part in (node.func, *node.args, *(keyword.value for keyword in node.keywords)):
                    match part:
                        case ast.Name(id=name) | ast.Attribute(attr=name):
                            found.update(self._places(module, name))
        return found

    def _places(self, module: str, name: str) -> Iterator[Place]:
        """Where a function of this name may be that this module speaks of."""
        if name in self._defined[module]:
            yield module, name
        for seen in self._visible(module):
            original = self._imported[module].get(name, (seen, name))
            if original[0] == seen and original[1] in self._defined[seen]:
                yield seen, original[1]

    def _visible(self, module: str) -> set[str]:
        parts = module.split(".")
        above = [".".join((*parts[:length], "conftest")) for length in range(1, len(parts))]
        near = [module, *(name for name in above if name in self._trees)]
        return {name for one in near for name, _ in self._imported[one].values() if name in self._trees} | {
            name for name in near if name != module
        }


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, (node.module, alias.name)
                yield f"{node.module}.{alias.name}", (f"{node.module}.{alias.name}", "")


def _fails(function: Function, *, in_test: bool) -> bool:
    for node in ast.walk(function):
        match node:
            case ast.Assert() if in_test or not narrows(node):
                return True
            case ast.Raise() if "AssertionError" in ast.unparse(node):
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in FAILS:
                return True
            case ast.keyword(arg="check", value=ast.Constant(value=True)):
                return True
    return False


def test_every_test_asserts() -> None:
    """Goal: no test passes whatever happens. Method: the syntax trees of all tests and helpers."""
    paths = sorted([*(ROOT / "tests").rglob("*.py"), *(PACKAGE / "testing").rglob("*.py")])
    helpers = Helpers({module_name(path): parsed(path) for path in paths})
    silent = {
        f"{shown(path)}::{name}"
        for path in paths
        if path.name.startswith("test_")
        for name in helpers.find_silent(module_name(path))
    }
    assert not (found := sorted(silent - MAY_ONLY_RUN.keys())), (
        "these assert nothing; say what must be true afterwards, or list them in MAY_ONLY_RUN with the reason:\n"
        + "\n".join(found)
    )
    assert not (idle := MAY_ONLY_RUN.keys() - silent), f"take out of MAY_ONLY_RUN: {sorted(idle)}"


@pytest.mark.parametrize(
    "body",
    [
        "assert x",
        "helper(x)",
        "imported(x)",
        "shop.sell()",
        "with pytest.raises(ValueError): f()",
        "run(command, check=True)",
        "each(helper)",
    ],
)
def test_assertions_are_seen(body: str) -> None:
    own = f"from tests.b import check as imported\ndef helper(y):\n    imported(y)\ndef test_it(x, shop):\n    {body}\n"
    other = "class Shop:\n    def sell(self):\n        check(self)\ndef check(y):\n    assert y\n"
    assert not list(Helpers({"tests.a": ast.parse(own), "tests.b": ast.parse(other)}).find_silent("tests.a"))


@pytest.mark.parametrize("helper", ["return y", "assert y is not None", "assert isinstance(y, int)"])
def test_a_test_without_one_is_found(helper: str) -> None:
    """Also if a function of the same name asserts elsewhere."""
    own = ast.parse(f"def helper(y):\n    {helper}\ndef test_it():\n    helper(1)\n")
    other = ast.parse("def helper(y):\n    assert y\n")
    assert list(Helpers({"tests.a": own, "tests.b": other}).find_silent("tests.a")) == ["test_it"]
