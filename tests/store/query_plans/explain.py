"""What a database says it will do with a statement, in the words of `calls`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw
import asyncpg

from holdfast.store.sql.dialect import POSTGRES, SQLITE, CompiledStatement
from holdfast.store.sql.loader import load_statements
from tests.store.query_plans.calls import TIMES, Call

CALLS_UNTIL_SETTLED = 7
"""Postgres plans the first five calls of a prepared statement each for itself, then may settle on one plan for all."""


@dataclass
class Plan:
    """`finds`: see `calls`. `sorts`: the parts in which rows are sorted, "" for the statement itself. `repeats`: parts
    that are read again from the start for every row of something else. `raw` is for whoever reads a failure."""

    raw: str
    finds: set[str] = field(default_factory=set)
    sorts: set[str] = field(default_factory=set)
    repeats: set[str] = field(default_factory=set)


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────

_STEP = re.compile(
    r"(?:SCAN|SEARCH) (?P<name>\w+)"
    r"(?: USING (?P<made>AUTOMATIC )?(?:(?:PARTIAL )?(?:COVERING )?INDEX (?P<index>\w*)"
    r"|(?P<key>(?:INTEGER )?PRIMARY KEY)))?"
    r"(?: ?\((?P<columns>.*)\))?"
)


def sqlite_plan(connection: apsw.Connection, name: str, call: Call) -> Plan:
    statement = load_statements(SQLITE)[name]
    given = call.values | TIMES
    values = [
        json.dumps(given[name]) if isinstance(given[name], list) else given[name] for name in statement.names
    ]
    rows: list[Any] = connection.execute("EXPLAIN QUERY PLAN " + statement.text, values).fetchall()
    plan = Plan("\n".join(row[3] for row in rows))
    parents = {row[0]: (row[1], row[3]) for row in rows}
    tables = _aliases(statement.text)
    for number, _, _, detail in rows:
        if detail.startswith("USE TEMP B-TREE"):
            plan.sorts.add(_part(number, parents))
        elif step := _STEP.match(detail):
            found = _sqlite_way(connection, step, tables)
            if found:
                plan.finds.add(found)
    return plan


def _part(number: int, parents: Mapping[int, tuple[int, str]]) -> str:
    """The name of the part of the statement that a step belongs to."""
    while number in parents:
        number, detail = parents[number]
        if detail.startswith("MATERIALIZE "):
            return detail.removeprefix("MATERIALIZE ")
    return ""


def _sqlite_way(connection: apsw.Connection, step: re.Match[str], tables: Mapping[str, str]) -> str | None:
    table = tables.get(step["name"])
    compared = re.sub(r"\((\w+),(\w+)\)(?=[<>])", r"\1>\2", step["columns"] or "")
    columns = ", ".join(dict.fromkeys(re.findall(r"(\w+)(?:=|<|>)", compared)))
    if step["made"]:
        return f"an index made on the spot for {step['name']}({columns})"
    if step["key"]:
        return f"{table}({columns})"
    if not step["index"]:
        return None if table is None else f"every row of {table}"
    made: list[Any] = connection.execute(
        "SELECT tbl_name FROM sqlite_master WHERE name = ? AND sql IS NULL", (step["index"],)
    ).fetchall()
    return f"{made[0][0] if made else step['index']}({columns})"


def _aliases(text: str) -> dict[str, str]:
    """What each name in the plan stands for; parts of the statement itself are no tables and are not in it."""
    found = re.findall(
        r"\b(?:FROM|JOIN|UPDATE)\s+(\w+)(?:\s+(?:AS\s+)?(?!(?:SET|WHERE|ON|JOIN|CROSS|LEFT)\b)(\w+))?", text
    )
    parts = set(re.findall(r"(\w+)(?:\s*\([^()]*\))?\s+AS\s+(?:MATERIALIZED\s+)?\(", text))
    return {alias or table: table for table, alias in found if table not in parts | {"json_each"}}


# ── Postgres ──────────────────────────────────────────────────────────────────────────────────────


class PostgresPlans:
    """Explains prepared statements, as the store's own are prepared."""

    def __init__(self, connection: asyncpg.Connection[Any], keys: Mapping[str, str]) -> None:
        self._connection = connection
        self._keys = keys

    async def settled(self, name: str, call: Call) -> Plan:
        """What later calls get, after Postgres has made up its mind."""
        return (await self._explained(name, call, "auto", CALLS_UNTIL_SETTLED))[-1]

    async def general(self, name: str, call: Call) -> Plan:
        """The plan for any values, whether or not Postgres would choose it."""
        return (await self._explained(name, call, "force_generic_plan", 1))[0]

    async def _explained(self, name: str, call: Call, mode: str, times: int) -> list[Plan]:
        statement = load_statements(POSTGRES)[name]
        await self._connection.execute("SET plan_cache_mode = " + mode)
        await self._connection.execute("PREPARE looked_at AS " + statement.text)
        try:
            explain = "EXPLAIN (FORMAT JSON) EXECUTE looked_at" + _arguments(statement, call)
            return [self._plan(await self._connection.fetchval(explain)) for _ in range(times)]
        finally:
            await self._connection.execute("DEALLOCATE looked_at")

    def _plan(self, explained: str) -> Plan:
        plan = Plan(explained)
        for part, node, above in _nodes(json.loads(explained)[0]["Plan"]):
            kind = node["Node Type"]
            if kind in {"Sort", "Incremental Sort"}:
                plan.sorts.add(part)
            if kind == "Seq Scan":
                plan.finds.add(f"every row of {node['Relation Name']}")
            if "Index Name" in node:
                index = node["Index Name"]
                condition = re.sub(r"ROW\((\w+), (\w+)\) > ", r"(\1 > (\2 > ", node.get("Index Cond", ""))
                columns = re.findall(r"\(?(?<![.$'\w])([a-z_]+) (?:=|<=?|>=?|IS) ", condition)
                # A bitmap's index step stands below the step that names the table.
                plan.finds.add(f"{self._keys.get(index, index)}({', '.join(dict.fromkeys(columns))})")
            if kind in {"CTE Scan", "Function Scan"} and above == "Nested Loop, inner":
                plan.repeats.add(node.get("CTE Name") or node.get("Alias", ""))
        return plan


def _nodes(
    node: dict[str, Any], part: str = "", above: str = ""
) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Every step, with the part of the statement it belongs to and how the step above uses it."""
    part = node.get("Subplan Name", part).removeprefix("CTE ") if "Subplan Name" in node else part
    yield part, node, above
    for below in node.get("Plans", []):
        yield from _nodes(below, part, f"{node['Node Type']}, {below['Parent Relationship'].lower()}")


def _arguments(statement: CompiledStatement, call: Call) -> str:
    values = call.values | TIMES
    literals = [_literal(values[name]) for name in statement.names]
    return f" ({', '.join(literals)})" if literals else ""


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case int():
            return str(value)
        case bytes():
            return f"'\\x{value.hex()}'"
        case list():
            return "'{" + ", ".join(map(_element, value)) + "}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _element(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f'"\\\\x{value.hex()}"'
        case _:
            return f'"{value}"'
