"""The databases inside a running server: made in milliseconds from a template, dropped by force.

A template is a database that was prepared once (its migrations applied) and is copied for every test:

    async def prepare(url: str) -> None: ...                  # connect, migrate, disconnect

    base = await server.template("holdfast", prepare)         # prepared on the first call only
    async with server.fresh_database(base) as url: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.support.servers.processes import PATIENCE_S, POLL_S, ServerFailed


class Databases:
    """What can be done to a server's databases; the server says how to reach them and whether it runs."""

    volatile: bool

    def __init__(self) -> None:
        self._templates: set[str] = set()
        self._numbers = itertools.count(1)

    @property
    def running(self) -> bool:
        raise NotImplementedError

    def url(self, database: str = "postgres") -> str:
        raise NotImplementedError

    async def connect(self, database: str = "postgres") -> Any:
        """A new asyncpg connection, the caller's to close."""
        return await _asyncpg().connect(self.url(database))

    async def create_database(self, name: str, template: str | None = None) -> None:
        """The database exists: empty, or a copy of the template, to which nobody may be connected."""
        source = f" TEMPLATE {_quoted(template)}" if template is not None else ""
        if template is not None and self.volatile:
            source += " STRATEGY FILE_COPY"  # quicker than through the log where nothing is flushed
        await self._execute(f"CREATE DATABASE {_quoted(name)}{source}")

    async def drop_database(self, name: str) -> None:
        """The database does not exist; whoever was connected to it is cut off."""
        await self._execute(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")

    async def template(self, name: str, prepare: Callable[[str], Awaitable[None]]) -> str:
        """A template of this name exists, prepared once in this server's life; returns the name.

        Args:
            prepare: gets the new database's address and must close its connections before it returns.
        """
        if name not in self._templates:
            await self.create_database(name)
            try:
                await prepare(self.url(name))
            except BaseException:
                await self.drop_database(name)
                raise
            # Closed to connections: a test that takes its address by mistake fails and changes no other.
            await self._execute(
                f"ALTER DATABASE {_quoted(name)} WITH IS_TEMPLATE true ALLOW_CONNECTIONS false"
            )
            self._templates.add(name)
        return name

    @contextlib.asynccontextmanager
    async def fresh_database(self, template: str | None = None) -> AsyncIterator[str]:
        """The address of a database nobody else has, for as long as the block lasts."""
        name = f"t{next(self._numbers)}"
        await self.create_database(name, template)
        try:
            yield self.url(name)
        finally:
            # A test may end with its server killed; the folder takes the database with it then.
            if self.running:
                await self.drop_database(name)

    async def until_answers(self, *, patience_s: float = PATIENCE_S) -> None:
        """A new connection ran a statement: the server recovered from whatever was done to it."""
        asyncpg = _asyncpg()
        deadline = time.monotonic() + patience_s
        while True:
            try:
                await self._execute("SELECT 1")
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                if time.monotonic() > deadline:
                    raise ServerFailed(f"PostgreSQL did not answer for {patience_s:g} s.") from error
                await asyncio.sleep(POLL_S)
            else:
                return

    def forget_templates(self) -> None:
        """No template is known: the server that held them is gone."""
        self._templates.clear()

    async def _execute(self, statement: str) -> None:
        connection = await self.connect()
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _asyncpg() -> Any:
    # Imported on first use: it is an extra, and NATS tests need none of it.
    return importlib.import_module("asyncpg")
