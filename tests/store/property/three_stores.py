"""Three stores side by side: asked the same, at the same instant, and held to the same answer.

A trio is opened once and emptied between examples, because a new database costs more than a whole example. All three
read one clock, so they cannot get out of step, and take their ids from the number of the question, so that a store that
uses up an id more than another still gives a job the same name.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import apsw
import asyncpg
import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store
from holdfast.store.memory.store import MemoryStore
from holdfast.store.postgres.open import open_postgres
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.store_clock import HostStoreClock
from holdfast.store.tables.store import SqlStore

STAYS: Final = frozenset({"retention_gate", "schema_migrations", "store_clock", "store_state"})
"""The tables that no example changes."""


class Refused(msgspec.Struct, frozen=True):
    """An error as stores must agree on it: which one, and what it says in fields. Words may differ."""

    kind: str
    code: str
    facts: dict[str, Any]


Question: TypeAlias = Callable[[Store], Awaitable[Any]]


class SharedClock:
    """One clock for all stores, and a new one for every example."""

    def __init__(self) -> None:
        self.hands = VirtualClock()

    def wall_us(self) -> int:
        return self.hands.wall_us()

    def tick_us(self) -> int:
        return self.hands.tick_us()

    def boot(self) -> str:
        return self.hands.boot()


class QuestionIds:
    """Ids by question, and by how many the question has used."""

    def __init__(self) -> None:
        self._question = 0
        self._used = 0

    def begin(self, question: int) -> None:
        self._question = question
        self._used = 0

    def new(self, prefix: str) -> str:
        self._used += 1
        return f"{prefix}_{self._question:04}_{self._used}"


class Trio:
    """Memory, SQLite and Postgres. Open it with `Trio.open`; close it when done."""

    def __init__(self, runner: asyncio.Runner, path: Path, url: str) -> None:
        self.clock = SharedClock()
        self.seen: Counter[str] = Counter()
        """How often each question had each kind of answer, over all examples."""
        self._loop = runner.get_loop()
        self._path = path
        self._url = url
        self._ids = {name: QuestionIds() for name in ("memory", "sqlite", "postgres")}
        self._questions = 0
        self.memory = MemoryStore(self.clock, self._ids["memory"])
        self.sqlite = self.run(self._open_sqlite())
        self.postgres = self.run(self._open_postgres())
        self._sqlite = apsw.Connection(str(path))
        self._postgres = self.run(asyncpg.connect(url, server_settings={"search_path": "holdfast"}))

    def close(self) -> None:
        self.run(self.sqlite.close())
        self.run(self.postgres.close())
        self.run(self._postgres.close())
        self._sqlite.close()

    def reset(self) -> None:
        """All three are empty, and it is the first instant again."""
        self.clock.hands = VirtualClock()
        self._questions = 0
        for ids in self._ids.values():
            ids.begin(0)
        self.memory = MemoryStore(self.clock, self._ids["memory"])
        for store in (self.sqlite, self.postgres):
            assert isinstance(store.clock, HostStoreClock)
            store.clock.begin_boot(0)
            self.run(store.clock.sync())
        _empty_sqlite(self._sqlite)
        self.run(_empty_postgres(self._postgres, _tables(self._sqlite)))
        for store in (self.sqlite, self.postgres):
            self.run(store.namespaces.create(DEFAULT_NAMESPACE))

    def reboot(self, boot: str) -> None:
        """The machine boots. All stores have seen the same time before and begin their time at the same instant."""
        stores: tuple[Store, ...] = (self.memory, self.sqlite, self.postgres)
        for store in stores:
            store.clock.wall_us()
        self.clock.hands.reboot(boot)
        for store in stores:
            self.run(store.clock.sync())

    def reopen(self) -> None:
        """The databases are closed and opened again, as another process would find them."""
        self.run(self.sqlite.close())
        self.run(self.postgres.close())
        self.sqlite = self.run(self._open_sqlite())
        self.postgres = self.run(self._open_postgres())

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def ask(self, name: str, /, *args: Any, **options: Any) -> Any:
        """The one answer of all three to `port.method`; what differs fails the test."""
        port, _, method = name.partition(".")

        async def question(store: Store) -> Any:
            return await getattr(getattr(store, port), method)(*args, **options)

        answer = self._answer(question, lambda: f"{name}{args}{options or ''}")
        self.seen[f"{name} {answer.kind}" if isinstance(answer, Refused) else name] += 1
        return answer

    def compare(self, picture: Question) -> None:
        """The three show the same. A picture is a mapping, of which only the differing parts are told."""
        self._answer(picture, lambda: "the stores show different things")

    def compare_all(self, picture: Question) -> None:
        """Nothing is different anywhere: memory and SQLite show the same, and Postgres has the rows of SQLite.

        Postgres is spared the picture, since two hundred round trips would take longer than the rest of an example.
        """
        memory, sqlite = (_plain(self.run(picture(store))) for store in (self.memory, self.sqlite))
        if repr(memory) != repr(sqlite):
            raise AssertionError(
                f"the stores show different things\n{_told_apart(memory=memory, sqlite=sqlite)}"
            )
        tables = _tables(self._sqlite)
        ours, theirs = _sqlite_rows(self._sqlite, tables), self.run(_postgres_rows(self._postgres, tables))
        if ours != theirs:
            raise AssertionError(f"the tables differ\n{_told_apart(sqlite=ours, postgres=theirs)}")

    def peek(self, question: Question) -> Any:
        """What memory says; for choosing the next question, never for judging an answer."""
        return _run_now(question(self.memory))

    def _answer(self, question: Question, what: Callable[[], str]) -> Any:
        self._questions += 1
        for ids in self._ids.values():
            ids.begin(self._questions)
        memory, sqlite, postgres = self.run(self._answers(question))
        if not repr(memory) == repr(sqlite) == repr(postgres):
            told = _told_apart(memory=memory, sqlite=sqlite, postgres=postgres)
            raise AssertionError(f"{what()}\n{told}")
        return memory

    async def _answers(self, question: Question) -> list[Any]:
        stores: tuple[Store, ...] = (self.memory, self.sqlite, self.postgres)
        return list(await asyncio.gather(*(_answer_of(question, store) for store in stores)))

    # ── opening ───────────────────────────────────────────────────────────────────────────────────

    async def _open_sqlite(self) -> SqlStore:
        return await open_sqlite(self._path, clock=self.clock, ids=self._ids["sqlite"])

    async def _open_postgres(self) -> SqlStore:
        return await open_postgres(self._url, clock=self.clock, ids=self._ids["postgres"])

    def run(self, work: Awaitable[Any]) -> Any:
        # Not Runner.run: it installs a signal handler each time, which costs as much as a question.
        return self._loop.run_until_complete(work)


async def _answer_of(question: Question, store: Store) -> Any:
    """The answer in a form that compares by its text: sets and mappings in order, errors without their words."""
    try:
        return _plain(await question(store))
    except HoldfastError as error:
        return _plain(error)


def _plain(value: Any) -> Any:
    if isinstance(value, HoldfastError):
        facts = {name: fact for name, fact in sorted(vars(value).items()) if name != "hint"}
        return Refused(type(value).__name__, value.code, facts)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    return value


def _told_apart(**answers: Any) -> str:
    """The answers by store; of pictures, only the parts that differ."""
    if all(isinstance(answer, dict) for answer in answers.values()):
        keys = sorted({key for answer in answers.values() for key in answer})
        differing = [key for key in keys if len({repr(answer.get(key)) for answer in answers.values()}) > 1]
        return "\n".join(f"{key}\n{_lines({n: a.get(key) for n, a in answers.items()})}" for key in differing)
    return _lines(answers)


def _lines(answers: Mapping[str, Any]) -> str:
    return "\n".join(f"  {name:8} {answer!r}" for name, answer in answers.items())


def _run_now(coroutine: Awaitable[Any]) -> Any:
    """The result of a coroutine that never waits, as none of memory's does."""
    try:
        next(coroutine.__await__())
    except StopIteration as done:
        return done.value
    raise AssertionError("the memory store waited")


# ── underneath ────────────────────────────────────────────────────────────────────────────────────
# By connections of our own, not the stores'. Deleting the few rows of an example is many times quicker than TRUNCATE,
# and than a new database.


def _tables(connection: apsw.Connection) -> list[str]:
    """The tables that an example fills, those that refer to others first."""
    found = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid DESC"
    ).fetchall()
    return [str(name) for (name,) in found if name not in STAYS]


def _sqlite_rows(connection: apsw.Connection, tables: Sequence[str]) -> dict[str, list[Any]]:
    return {table: sorted(map(repr, connection.execute(_select(table)).fetchall())) for table in tables}


async def _postgres_rows(connection: asyncpg.Connection[Any], tables: Sequence[str]) -> dict[str, list[Any]]:
    return {
        table: sorted(repr(tuple(row)) for row in await connection.fetch(_select(table))) for table in tables
    }


def _select(table: str) -> str:
    return f'SELECT * FROM "{table}"'


def _empty_sqlite(connection: apsw.Connection) -> None:
    deletes = "; ".join(f'DELETE FROM "{table}"' for table in _tables(connection))
    gate = "INSERT INTO retention_gate VALUES ('test')"
    connection.execute(f"BEGIN IMMEDIATE; {gate}; {deletes}; DELETE FROM retention_gate; COMMIT")


async def _empty_postgres(connection: asyncpg.Connection[Any], tables: Sequence[str]) -> None:
    deletes = "; ".join(f'DELETE FROM "{table}"' for table in tables)
    # As a replica the server asks neither triggers nor foreign keys.
    await connection.execute(f"BEGIN; SET LOCAL session_replication_role = replica; {deletes}; COMMIT")
