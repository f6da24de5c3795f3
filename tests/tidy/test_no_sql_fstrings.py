"""SQL is text in a file. A statement put together in Python is how a value becomes a command."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.project import PACKAGE, modules, parsed, shown

RUNS_SQL = re.compile(r"execute\w*|rows?|run|fetch\w*|cursor|prepare")

# file → why it may put a statement together.
MAY_BUILD = {
    "store/backup/postgres.py": "copies whole tables: their names are our own constants and cannot be bound",
    "store/sqlite/connection.py": "a PRAGMA takes no bound values, and none of these comes from outside",
}


def built_statements(tree: ast.Module) -> Iterator[int]:
    """The lines where something that runs SQL is handed a string built on the spot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and RUNS_SQL.fullmatch(called(node.func)):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from (value.lineno for value in given if is_built(value))


def called(function: ast.expr) -> str:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def is_built(value: ast.expr) -> bool:
    match value:
        case ast.JoinedStr():
            return any(isinstance(part, ast.FormattedValue) for part in value.values)
        case ast.BinOp(op=ast.Mod() | ast.Add()):
            return is_text(value.left) or is_text(value.right)
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace", value=owner)):
            return is_text(owner)
    return False


def is_text(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(op=ast.Add()):
            return is_text(value.left) or is_text(value.right)
    return False


def test_no_statement_is_built_in_python() -> None:
    built = {path: list(built_statements(parsed(path))) for path in modules()}
    offenders = [
        f"{shown(path)}:{line}"
        for path, lines in built.items()
        for line in lines
        if path.relative_to(PACKAGE).as_posix() not in MAY_BUILD
    ]
    assert not offenders, (
        f"write it as a named paragraph in store/sql and bind the values: {', '.join(offenders)}"
    )
    idle = [name for name in MAY_BUILD if not built.get(PACKAGE / name)]
    assert not idle, f"no longer builds a statement, take it out of MAY_BUILD: {', '.join(idle)}"


@pytest.mark.parametrize(
    "code",
    [
        'db.execute(f"SELECT {x}")',
        'db.executemany("SELECT %s" % x, [])',
        'await tx.rows("SELECT " + x)',
        'fetch_one("SELECT {}".format(x))',
        'db.run(sql=f"SELECT {x}")',
    ],
)
def test_the_check_sees_built_text(code: str) -> None:
    assert list(built_statements(ast.parse(f"async def f():\n    {code}")))


@pytest.mark.parametrize(
    "code",
    ['db.execute("SELECT 1")', "db.rows(STATEMENTS.claim, n + 1)", 'db.execute(f"SELECT 1")', "log(f'{x}')"],
)
def test_plain_statements_are_fine(code: str) -> None:
    assert not list(built_statements(ast.parse(code)))
