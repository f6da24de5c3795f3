"""SQL dialects: the tokens in which statements for SQLite and Postgres differ, and the reasons for them.

Statements are written once, with `:name` parameters and tokens in braces. Everything else must mean the same on both
databases. These rules ensure that (each was tried on both):

    text order      SQLite compares bytes, Postgres by locale       → {text} is TEXT COLLATE "C" on Postgres
    NULL order      first on SQLite, last on Postgres               → sort on NOT NULL columns only
    sum(bigint)     an integer, or a numeric                        → CAST(sum(…) AS {int})
    wrong types     stored, or refused                              → STRICT tables
    'abc%' LIKE     ignores case, or does not                       → never LIKE; {place}(lower(a), b) > 0
    constraint      the transaction goes on, or is dead             → ON CONFLICT, or one savepoint each
    time            the host's, or the server's                     → {now} and {tick}, never written out

`{now}` is store time (see `store.store_clock`): it dates rows and decides what is due. `{tick}` measures leases, and
`{boot}` identifies the boot within which ticks compare. `{wall}` is wall time, which can be set: only schedules use it.
The executor supplies the values.

Columns that the fields of a struct name are written nowhere else but in the migration that makes the table:

    {head} {head:h}     the columns of `job_heads`: the fields of `JobHead`, plain or of the table `h`
    {job} {job:j}       the columns of `jobs`: the fields of `SubmissionRow`
    {job_values}        their values on insert, by parameter; `created_at` is now
    {job_arrays}        the same as arrays of many jobs of one namespace, and
    {job_array_names}   the columns that those are
    {record}            the fields of `JobRecord`, from `jobs j` and `job_heads h`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from holdfast.model.jobs import JobHead, JobRecord, SubmissionRow
from holdfast.store.store_clock import TOLERANCE_US

TIMES: Final = frozenset({"now", "tick", "boot", "wall", "step"})
"""Parameters that the executor supplies."""

_SERVER_US: Final = "(extract(epoch from statement_timestamp()) * 1000000)::bigint"
# statement_timestamp() is stable, so an index can be used; clock_timestamp() is volatile and forces a scan.
_STORE_US: Final = f"{_SERVER_US} - CAST(:step AS bigint)"


def _format_clock_expression(prediction: str) -> str:
    """The server's clock less its known steps, while it agrees with the process's prediction; else the prediction,
    because the server's clock was set a moment ago. Without a `step` (tests that bring a clock) the prediction is
    used."""
    return (
        f"(CASE WHEN abs({_STORE_US} - CAST(:now AS bigint)) <= {TOLERANCE_US} "
        f"THEN {_STORE_US} ELSE CAST(:{prediction} AS bigint) END)"
    )


class Dialect(msgspec.Struct, frozen=True, eq=False):
    name: str
    tokens: Mapping[str, str]
    any_of: Callable[[str], str]
    listed: Callable[[str], str]
    """A list parameter as a table `listed`: each value, and its position, from 1."""
    mark: str


SQLITE: Final = Dialect(
    name="sqlite",
    tokens={
        "now": ":now",
        "tick": ":tick",
        "wall": ":wall",
        "boot": ":boot",
        "text": "TEXT",
        "int": "INTEGER",
        "bytes": "BLOB",
        "options": "STRICT",
        "narrow": "STRICT, WITHOUT ROWID",
        "for_key_share": "",
        "for_update": "",
        "for_update_of_s": "",
        "skip_locked": "",
        "place": "instr",
    },
    any_of=lambda name: f"IN (SELECT value FROM json_each(:{name}))",
    listed=lambda name: f"(SELECT value, key + 1 AS nth FROM json_each(:{name})) AS listed",
    mark="?",
)

POSTGRES: Final = Dialect(
    name="postgres",
    tokens={
        "now": _format_clock_expression("now"),
        "tick": _format_clock_expression("tick"),
        "wall": f"coalesce(CAST(:wall AS bigint), {_SERVER_US})",
        "boot": "CAST(:boot AS text)",
        "text": 'TEXT COLLATE "C"',
        "int": "BIGINT",
        "bytes": "BYTEA",
        "options": "",
        # Heads are updated often and never grow: free space in the page keeps those updates out of the indexes (HOT).
        "narrow": "WITH (fillfactor = 50)",
        "for_key_share": "FOR KEY SHARE",
        "for_update": "FOR UPDATE",
        "for_update_of_s": "FOR UPDATE OF s",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
        "place": "strpos",
    },
    any_of=lambda name: f"= ANY(CAST(:{name} AS text[]))",
    listed=lambda name: f"unnest(CAST(:{name} AS text[])) WITH ORDINALITY AS listed (value, nth)",
    mark="$",
)

_TOKEN: Final = re.compile(r"\{(\w+)(?::(\w+))?\}")
_PARAMETER: Final = re.compile(r"(?<![:\w]):(\w+)")


class CompiledStatement(msgspec.Struct, frozen=True):
    """A statement in the form that its driver takes. `names` are the parameters, in the order of their numbers."""

    name: str
    text: str
    names: tuple[str, ...]


def render(source: str, dialect: Dialect) -> str:
    """Replace the tokens in the source."""

    def word(match: re.Match[str]) -> str:
        token, argument = match.groups()
        if token == "any":
            return dialect.any_of(argument)
        if token == "listed":
            return dialect.listed(argument)
        if token == "head":
            return _format_columns(JobHead.__struct_fields__, argument)
        if token == "job":
            return _format_columns(SubmissionRow.__struct_fields__, argument)
        return dialect.tokens[token]

    return _TOKEN.sub(word, _TOKEN.sub(_expand, source))


def _expand(match: re.Match[str]) -> str:
    """Lists of columns and values, which may hold tokens of the dialect; any other token stays for it."""
    match match.group(1):
        case "job_values":
            return ", ".join(
                "{now}" if name == "created_at" else f":{name}" for name in SubmissionRow.__struct_fields__
            )
        case "job_arrays":
            return ", ".join(f"CAST(:each_{name} AS {kind}[])" for name, kind in JOB_ARRAYS.items())
        case "job_array_names":
            return ", ".join(JOB_ARRAYS)
        case "record":
            return ", ".join(_format_record_column(name) for name in JobRecord.__struct_fields__)
        case _:
            return match.group(0)


def _format_columns(names: Iterable[str], table: str | None) -> str:
    """The columns, each with the table's name before it if there is one."""
    prefix = "" if table is None else f"{table}."
    return ", ".join(prefix + column for column in names)


JOB_ARRAYS: Final = {
    field.name: {int: "bigint", bytes: "bytea"}.get(field.type, "text")
    for field in msgspec.structs.fields(SubmissionRow)
    if field.name not in {"namespace", "created_at"}
}
"""Column of `jobs` → its type on Postgres, without those that many jobs submitted at once have in common."""


def _format_record_column(name: str) -> str:
    if name == "changed_at":
        return "(SELECT e.at FROM events e WHERE e.job_id = h.job_id AND e.seq = h.head_seq)"
    if name == "worker":
        return "h.lease_owner"
    return f"{'j' if name in SubmissionRow.__struct_fields__ else 'h'}.{name}"


def compile_statement(name: str, source: str, dialect: Dialect) -> CompiledStatement:
    """Compile the statement for its driver, with numbered parameters: looking up names costs SQLite as much as a small
    statement itself."""
    text = render(source, dialect)
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    number = {parameter: f"{dialect.mark}{place}" for place, parameter in enumerate(names, 1)}
    return CompiledStatement(name, _PARAMETER.sub(lambda match: number[match.group(1)], text), names)
