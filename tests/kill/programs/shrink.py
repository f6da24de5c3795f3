"""Shrinking: a smaller program that fails in the same way.

Statements are dropped, blocks replaced by their bodies, calls by their arguments, lists cut, as long as the oracle
still decides the program, and the same kind of failure remains with the same kinds of faults.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any, Final

from tests.kill.programs.oracle import Ambiguous
from tests.kill.programs.runner import Found, Program, find_like

ROUNDS_MAX: Final = 20


def shrink(program: Program, found: Found) -> tuple[Program, Found]:
    """The smallest program that could be found, and how it fails."""
    best, best_found = program, found
    for _ in range(ROUNDS_MAX):
        for source in _smaller(best.source):
            failing = _fails(source, program, found)
            if failing is not None:
                best, best_found = failing
                break
        else:
            break
    return best, best_found


def _fails(source: str, original: Program, found: Found) -> tuple[Program, Found] | None:
    """The program of this source, if it fails like the original."""
    try:
        program = Program.load(source)
    except (Ambiguous, SyntaxError, RecursionError):
        return None
    if program.outcome.error != original.outcome.error:
        return None
    try:
        other = find_like(program, found)
    except Exception:  # no application any more
        return None
    return None if other is None else (program, other)


def _smaller(source: str) -> Iterator[str]:
    """Sources with a little less in them, the boldest cuts first."""
    seen = {source}
    size = sum(1 for _ in ast.walk(ast.parse(source)))
    for index in range(size):
        for cut in (_drop_statement, _unwrap_statement, _cut_list, _unwrap_call):
            tree = ast.parse(source)
            node = list(ast.walk(tree))[index]
            for variant in cut(tree, node):
                text = ast.unparse(ast.fix_missing_locations(variant)) + "\n"
                if text not in seen and len(text) < len(source) + 1:
                    seen.add(text)
                    yield text


def _bodies(node: ast.AST) -> Iterator[tuple[str, list[ast.stmt]]]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            yield name, body


def _drop_statement(tree: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    for name, body in _bodies(node):
        for number in range(len(body)):
            if isinstance(body[number], ast.Pass):
                continue
            rest = body[:number] + body[number + 1 :]
            if not rest and name == "body" and not isinstance(node, ast.Module):
                rest = [ast.Pass()]
            yield _with(tree, node, name, rest)


def _unwrap_statement(tree: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    blocks = ast.AsyncWith | ast.With | ast.Try | ast.For | ast.While | ast.AsyncFor | ast.If
    for name, body in _bodies(node):
        for number, statement in enumerate(body):
            if isinstance(statement, blocks):
                yield _with(tree, node, name, [*body[:number], *statement.body, *body[number + 1 :]])
                for handler in getattr(statement, "handlers", []):
                    yield _with(tree, node, name, [*body[:number], *handler.body, *body[number + 1 :]])


def _cut_list(tree: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.List | ast.Set | ast.Tuple) and len(node.elts) > 1:
        for number in range(len(node.elts)):
            yield _with(tree, node, "elts", node.elts[:number] + node.elts[number + 1 :])
    if isinstance(node, ast.Call) and len(node.args) > 1:
        for number in range(len(node.args)):
            yield _with(tree, node, "args", node.args[:number] + node.args[number + 1 :])


def _unwrap_call(tree: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    """`await wait_for(x(), 5)` becomes `await x()`."""
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call):
        for argument in value.args:
            if isinstance(argument, ast.Call):
                yield _with(tree, node, "value", argument)


def _with(tree: ast.AST, node: ast.AST, name: str, value: Any) -> ast.AST:
    """A copy of the tree in which this field of this node is another."""
    before = getattr(node, name)
    setattr(node, name, value)
    changed = copy.deepcopy(tree)
    setattr(node, name, before)
    return changed
