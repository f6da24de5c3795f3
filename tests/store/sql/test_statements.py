"""Every statement is named, explained, used, understood by both databases, and keeps to what both mean alike."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import apsw.ext
import asyncpg
import pytest

from holdfast.engine.verify.row_checks import BY_QUERY
from holdfast.model.ids import SequentialIds
from holdfast.store.clock import VirtualClock
from holdfast.store.executor import Executor, Transaction
from holdfast.store.sql.dialect import JOB_ARRAYS, POSTGRES, SQLITE, CompiledStatement, render
from holdfast.store.sql.loader import load_reasons, load_statements
from holdfast.store.sqlite.open import open_sqlite
from tests.store.sql.paragraphs import MIGRATIONS, OVERRIDES, STATEMENTS, Paragraph, code, read
from tests.support.fixtures.stores import postgres_template
from tests.support.project import modules, parsed
from tools.schema import Schema, read_sqlite

__all__ = ["postgres_template"]

WRITTEN = read(STATEMENTS)
OVERRIDDEN = read(OVERRIDES)
ALL = [*WRITTEN, *OVERRIDDEN]
SOURCES = [*STATEMENTS, *OVERRIDES, *MIGRATIONS]

VARIABLE = "statement"
"""What a parameter that takes a statement's name is called."""


def _taking(protocol: type) -> set[str]:
    """The methods that want a statement's name."""
    methods = {name: method for name, method in vars(protocol).items() if inspect.isfunction(method)}
    return {name for name, method in methods.items() if VARIABLE in inspect.signature(method).parameters}


VERBS = frozenset(
    "add advance append bind cancel charge claim close commit complete count create ensure erase expire find get grant "
    "has hide hold insert leave list load lock move open pause promote put read record release remove renew request "
    "resume revoke save select set start submit update verify write".split()
)

ASK = _taking(Transaction)
PASS_ON = _taking(Executor) | {"_list_batches"}


def _names(paragraphs: list[Paragraph]) -> list[str]:
    return [f"{paragraph.file.removesuffix('.sql')}.{paragraph.name}" for paragraph in paragraphs]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_no_name_is_used_twice() -> None:
    """The second would silently take the place of the first."""
    for paragraphs in (WRITTEN, OVERRIDDEN):
        names = [paragraph.name for paragraph in paragraphs]
        assert sorted(set(names)) == sorted(names)


def test_a_name_is_a_verb_and_a_noun() -> None:
    """Goal: a statement is found by what it does. Method: each name begins with a verb that we have; a new verb is
    added on purpose."""
    assert [one.name for one in ALL if one.name.partition("_")[0] not in VERBS or "_" not in one.name] == []


def test_every_statement_is_used_and_every_name_exists() -> None:
    """Goal: nothing dead, nothing missing. Method: read every call that takes a statement's name."""
    assert {"row", "rows"} <= ASK
    asked = {name for path in modules() for name in asked_for(parsed(path))} | set(BY_QUERY)
    known = {paragraph.name for paragraph in ALL}
    assert asked - known == set(), "asked for, and not written"
    assert known - asked == set(), "written, and never asked for"


def asked_for(tree: ast.Module) -> Iterator[str]:
    """The names of statements that a module asks for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _takes_a_statement(node.func) and node.args:
            yield from _choices(node.args[0])


def _takes_a_statement(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id="tx"), attr=attribute):
            return attribute in ASK
        case ast.Attribute(attr=attribute):
            return attribute in PASS_ON
    return False


def _choices(argument: ast.expr) -> list[str]:
    match argument:
        case ast.Constant(value=str() as name):
            return [name]
        case ast.IfExp(body=one, orelse=other):
            return _choices(one) + _choices(other)
        case ast.Name(id=name) if name == VARIABLE:
            return []  # whoever filled it is in PASS_ON or in BY_QUERY
    msg = f"line {argument.lineno}: a statement is asked for by its name, written out where it is asked for"
    raise AssertionError(msg)


@pytest.mark.parametrize(
    "source, names",
    [
        ('tx.rows("a", b=1)', ["a"]),
        ('tx.run("a" if x else "b")', ["a", "b"]),
        ('self._executor.run_statement("a")', ["a"]),
        ("tx.rows(statement)", []),
        ('asyncio.run("a")', []),
    ],
)
def test_the_search_for_names(source: str, names: list[str]) -> None:
    assert list(asked_for(ast.parse(source))) == names


def test_a_name_that_is_put_together_is_noticed() -> None:
    with pytest.raises(AssertionError, match="written out"):
        list(asked_for(ast.parse('tx.rows("list_" + noun)')))


def test_the_columns_of_a_head_are_written_once() -> None:
    """Goal: a new field of a head is one edit. Method: no statement lists them; each says `{head}`."""
    listed = re.compile(r"lease_token,\s*(\w+\.)?lease_owner,\s*(\w+\.)?lease_boot")
    assert [paragraph.name for paragraph in ALL if listed.search(paragraph.statement)] == []
    assert render("{head:h}", SQLITE).startswith("h.job_id, h.namespace")
    assert sum("{head" in paragraph.statement for paragraph in ALL) >= 10


def test_the_columns_of_a_job_are_written_once() -> None:
    """Goal: a new field of a job is one edit in the store. Method: no statement lists the columns of `jobs`."""
    listed = re.compile(r"parent_job_id\W+(\w+\.)?parent_step_key")
    assert [paragraph.name for paragraph in ALL if listed.search(paragraph.statement)] == []
    assert render("{job_values}", SQLITE).startswith(":job_id, :namespace, :kind")
    assert render("{record}", SQLITE).startswith("j.job_id, j.namespace, j.kind")
    assert JOB_ARRAYS["priority"] == "bigint"
    assert JOB_ARRAYS["request_digest"] == "bytea"


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("paragraph", ALL, ids=_names(ALL))
def test_a_sentence_says_what_it_does(paragraph: Paragraph) -> None:
    assert re.fullmatch(r"[A-Z`].{8,}[.]\)?", paragraph.comment), "say in a sentence what is true afterwards"
    assert paragraph.statement.endswith(";")
    assert paragraph.statement.count(";") == 1


@pytest.mark.parametrize("file", OVERRIDES, ids=lambda file: str(file.name))
def test_an_override_says_why(file: Any) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.startswith("-- why: ")
    assert len(load_reasons(text)[0]) > 20


# ── what both databases mean alike ────────────────────────────────────────────────────────────────

UNLIKE = {
    r"\bI?LIKE\b": "ignores case on one database: compare ranges",
    r"\bGLOB\b|\bSIMILAR\b|~": "another language on each database: compare ranges",
    r"\bbool(?:ean)?\b|\bTRUE\b|\bFALSE\b": "0 and 1 on one database: states are text",
    r"\bclock_timestamp\b": "volatile, so that no index is used: {now} or {tick}",
    r"\bnow\s*\(|\bcurrent_(?:time|date|timestamp)\b|\bstatement_timestamp\b": "time comes in by {now} and {tick}",
    r"\bunixepoch\b|\bjulianday\b|\bstrftime\b|\bdatetime\b": "time comes in by {now} and {tick}",
    r"\brandom\w*\s*\(|\bgen_random_uuid\b": "chance comes in by a parameter",
    r"\bjsonb?\w*\b": "no JSON of a database",
    r"\bINSERT OR\b|\bREPLACE\b|\bINDEXED BY\b|\bILIKE\b|\bDISTINCT ON\b": "one database has it",
}


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.name))
def test_nothing_that_the_two_read_differently(file: Any) -> None:
    text = code(file.read_text(encoding="utf-8"))
    said = [
        f"{found[0]!r}: {why}"
        for pattern, why in UNLIKE.items()
        if (found := re.search(pattern, text, re.IGNORECASE))
    ]
    assert not said, "\n".join(said)


def test_a_sum_is_cast() -> None:
    """`sum` and `count` of whole numbers are whole on one database and decimal on the other."""
    bare = [
        paragraph.name
        for paragraph in ALL
        if re.search(r"(?<!CAST\()\bsum\(", paragraph.statement, re.IGNORECASE)
    ]
    assert not bare


EXPANDED = {"any", "listed", "head", "job", "job_values", "job_arrays", "job_array_names", "record"}


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.name))
def test_every_token_is_known_to_both(file: Any) -> None:
    tokens = re.findall(r"\{(\w+)(?::\w+)?\}", code(file.read_text(encoding="utf-8")))
    braces = re.findall(r"[{}]", code(file.read_text(encoding="utf-8")))
    assert len(braces) == 2 * len(tokens), "braces stand around tokens only"
    assert set(tokens) <= {*SQLITE.tokens, *EXPANDED}


def test_both_dialects_have_the_same_tokens_and_all_are_used() -> None:
    assert set(SQLITE.tokens) == set(POSTGRES.tokens)
    used = {
        token
        for file in SOURCES
        for token in re.findall(r"\{(\w+)(?::\w+)?\}", file.read_text(encoding="utf-8"))
    }
    assert used == {*SQLITE.tokens, *EXPANDED}


def test_no_dialect_asks_a_volatile_clock() -> None:
    assert not [
        name for name, text in POSTGRES.tokens.items() if "clock_timestamp" in text or "now()" in text
    ]


# ── order ─────────────────────────────────────────────────────────────────────────────────────────

# statement → columns it sorts by that are no columns of a table, and why they are never NULL.
NEVER_NULL: dict[str, dict[str, str]] = {}


@pytest.fixture(scope="module")
def schema() -> Schema:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        connection = _migrated(Path(folder) / "store.db")
        try:
            return read_sqlite(connection)
        finally:
            connection.close()


def _migrated(path: Path) -> apsw.Connection:
    async def make() -> None:
        await (await open_sqlite(path, clock=VirtualClock(), ids=SequentialIds())).close()

    asyncio.run(make())
    return apsw.Connection(str(path))


@pytest.mark.parametrize("paragraph", ALL, ids=_names(ALL))
def test_nothing_is_sorted_by_what_may_be_null(schema: Schema, paragraph: Paragraph) -> None:
    """NULL comes first on one database and last on the other."""
    excused = NEVER_NULL.get(paragraph.name, {})
    doubtful = [
        column
        for column in sorted_by(paragraph.statement)
        if column not in excused and not _is_never_null(schema, paragraph.statement, column)
    ]
    assert not doubtful, f"may be NULL: {', '.join(doubtful)}"


def sorted_by(statement: str) -> list[str]:
    """The columns of every ORDER BY, without directions."""
    clauses = re.findall(r"\bORDER BY (.+?)(?=\bLIMIT\b|\bFOR UPDATE\b|[{);]|\Z)", code(statement), re.DOTALL)
    terms = [term.split() for clause in clauses for term in clause.split(",")]
    return [term[0] for term in terms]


def _is_never_null(schema: Schema, statement: str, column: str) -> bool:
    owner, _, name = column.rpartition(".")
    named = re.findall(r"\b(?:FROM|JOIN|UPDATE|USING)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?", statement)
    tables = {table for table, alias in named if table in schema.names and owner in {"", alias, table}}
    nullable = [found.nullable for table in tables for found in schema[table].columns if found.name == name]
    return bool(nullable) and not any(nullable)


@pytest.mark.parametrize(
    "statement, columns",
    [
        ("SELECT 1 FROM jobs ORDER BY a DESC, b.c LIMIT :limit", ["a", "b.c"]),
        ("SELECT (SELECT 1 ORDER BY a), 2 ORDER BY b {for_update}", ["a", "b"]),
        ("SELECT 'ORDER BY x'", []),
    ],
)
def test_the_search_for_orders(statement: str, columns: list[str]) -> None:
    assert sorted_by(statement) == columns


def test_the_check_of_orders_sees_a_column_that_may_be_null(schema: Schema) -> None:
    statement = "SELECT 1 FROM jobs j JOIN job_heads h ON h.job_id = j.job_id"
    assert _is_never_null(schema, statement, "j.created_at")
    assert not _is_never_null(schema, statement, "h.wake_at")
    assert not _is_never_null(schema, statement, "j.session_id")
    assert not _is_never_null(schema, statement, "no_such_column")


# ── both databases read it ────────────────────────────────────────────────────────────────────────

SQLITE_TEXTS = load_statements(SQLITE)
POSTGRES_TEXTS = load_statements(POSTGRES)

# Whole numbers of 64 bits, text, bytes. Postgres makes `SELECT 1` and `:flag = 1` short ones.
RESULTS = {"text", "int8", "bytea", "int4"}
FLAGS = {"anew", "any_kind", "progress", "requeues", "woken"}


@pytest.fixture(scope="module")
def file() -> Iterator[apsw.Connection]:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        connection = _migrated(Path(folder) / "store.db")
        try:
            yield connection
        finally:
            connection.close()


@pytest.mark.parametrize("database", ["sqlite"])
@pytest.mark.parametrize("name", SQLITE_TEXTS)
def test_sqlite_compiles_it(file: apsw.Connection, database: str, name: str) -> None:
    statement = SQLITE_TEXTS[name]
    assert file.execute("EXPLAIN " + statement.text, [None] * len(statement.names)).fetchall()
    assert '"' not in statement.text, "SQLite takes an unknown column in quotes for a text"


@pytest.fixture
async def server(postgres_database: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    connection = await asyncpg.connect(postgres_database, server_settings={"search_path": "holdfast"})
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.store("postgres")
async def test_postgres_prepares_them_all(server: asyncpg.Connection[Any]) -> None:
    """Goal: what SQLite lets pass, Postgres does not. Method: prepare every statement, and look at the types it has:
    a `numeric` or a `boolean` in a result would be something else on SQLite; a short parameter would overflow."""
    said = []
    for name, statement in POSTGRES_TEXTS.items():
        try:
            prepared = await server.prepare(statement.text)
        except asyncpg.PostgresError as error:
            said.append(f"{name}: {error}")
            continue
        results = {column.type.name for column in prepared.get_attributes()}
        said += [f"{name} returns {kind}" for kind in results - RESULTS]
        said += [
            f"{name} takes {parameter} as {kind}" for parameter, kind in _odd_parameters(statement, prepared)
        ]
    assert not said, "\n".join(said)


def _odd_parameters(statement: CompiledStatement, prepared: Any) -> Iterator[tuple[str, str]]:
    for parameter, kind in zip(statement.names, prepared.get_parameters(), strict=True):
        element = kind.name.removesuffix("[]")
        if element not in RESULTS or (element == "int4" and parameter not in FLAGS):
            yield parameter, kind.name


@pytest.mark.store("sqlite", "postgres")
async def test_both_return_as_many_columns(file: apsw.Connection, server: asyncpg.Connection[Any]) -> None:
    for name in SQLITE_TEXTS:
        details = apsw.ext.query_info(file, SQLITE_TEXTS[name].text)
        prepared = await server.prepare(POSTGRES_TEXTS[name].text)
        assert len(details.description) == len(prepared.get_attributes()), name


@pytest.mark.store("sqlite")
def test_no_column_is_of_another_kind(schema: Schema) -> None:
    """Numbers, text and bytes: no booleans, no floats, no dates, nothing that only one of the databases has."""
    assert {column.type for table in schema.tables for column in table.columns} == {"TEXT", "INTEGER", "BLOB"}
