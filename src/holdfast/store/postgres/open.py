"""Open a store on Postgres."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import asyncpg

from holdfast.errors import InvalidSetting, TierNotKept
from holdfast.model.ids import IdSource, check_name
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.contract import Tier
from holdfast.store.postgres.clock import read_server_clock
from holdfast.store.postgres.connections import Connection, Connections
from holdfast.store.postgres.errors import CONNECTION_LOST, translate
from holdfast.store.postgres.executor import PostgresExecutor
from holdfast.store.postgres.schema import PostgresSchema, quote_identifier
from holdfast.store.postgres.wakeups import PostgresWakeups
from holdfast.store.sql.dialect import POSTGRES
from holdfast.store.sql.migrate import Migration, load_migrations, migrate, require_current
from holdfast.store.store_clock import STALE_US, HostStoreClock, ServerStoreClock
from holdfast.store.tables.clock import begin_host_clock
from holdfast.store.tables.store import SqlStore, write_first_rows

if TYPE_CHECKING:
    from holdfast.store.encryption import Codec

OLDEST_SERVER: Final = 150_000
CONNECTIONS_MAX: Final = 10
CONNECT_S: Final = 10.0
STATEMENTS_KEPT: Final = 512
COMMAND_S: Final = 35.0
"""Client-side time limit of a statement, longer than the server's: the connection is lost if it passes."""

_SESSION: Final = {
    "application_name": "holdfast",
    # Overrides a server's default of `off`: an acknowledged commit is on disk.
    "synchronous_commit": "on",
    # None is longer than the lease's 30 s, so that a frozen client loses its locks before its jobs are taken over.
    "lock_timeout": "5s",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "10s",
    "default_transaction_isolation": "read committed",
    # Our statements are fixed and few: planning one again for its values costs more than running it.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    # Every statement of ours has its index. The planner would scan a table that is still small, and lock its rows in
    # their physical order instead of the order that all processes use.
    "enable_seqscan": "off",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}


async def open_postgres(
    url: str,
    *,
    ids: IdSource,
    clock: Clock | None = None,
    schema: str = "holdfast",
    migrating: bool = True,
    migrations: Sequence[Migration] | None = None,
    patience_s: float = 10.0,
    codec: Codec | None = None,
) -> SqlStore:
    """Open the store in this schema of the database; create it if it does not exist.

    Without a clock (production) store time is the server's clock less its steps; a test passes a virtual clock.
    `migrations` are the package's own, unless a test passes a longer list.

    Raises TierNotKept if the server is too old, or does not allow synchronous commits.
    """
    check_name(schema, "schema")
    connect = functools.partial(
        asyncpg.connect,
        url,
        server_settings={**_SESSION, "search_path": quote_identifier(schema)},
        timeout=CONNECT_S,
        command_timeout=COMMAND_S,
        statement_cache_size=STATEMENTS_KEPT,
        max_cached_statement_lifetime=0,
    )
    connections = Connections(connect, most=CONNECTIONS_MAX)
    wakeups = PostgresWakeups(connect, connections, f"holdfast_{schema}"[:63])
    store_clock = ServerStoreClock(SystemClock()) if clock is None else HostStoreClock(clock)
    executor = PostgresExecutor(connections, store_clock, wakeups, patience_s=patience_s)

    async def close() -> None:
        await wakeups.close()
        await executor.close()

    try:
        tier = _find_tier(details := await _read_settings(connections))
        await (migrate if migrating else require_current)(
            PostgresSchema(connections, schema, clock), migrations or load_migrations(POSTGRES)
        )
        if isinstance(store_clock, HostStoreClock):
            await begin_host_clock(executor, store_clock)
        else:
            await _begin_server_clock(executor, store_clock)
        await write_first_rows(executor, ids)
    except ValueError as error:
        await close()
        msg = f"{_remove_password(url)} is not a valid Postgres address: {error}"
        raise InvalidSetting(msg) from error
    except (asyncpg.PostgresError, TimeoutError, *CONNECTION_LOST) as error:
        await close()
        raise translate(error, _remove_password(url)) from error
    except BaseException:
        await close()
        raise
    return SqlStore(
        executor,
        ids,
        wakeups,
        clock=store_clock,
        tier=tier,
        address=_remove_password(url),
        details=details,
        close=close,
        integrity=_check_integrity,
        codec=codec,
    )


async def _begin_server_clock(executor: PostgresExecutor, clock: ServerStoreClock) -> None:
    """Look at the server's clock now, with each new connection, before a statement when the last look is old, and
    whenever `sync` does."""
    connections = executor.connections

    async def look(connection: Connection) -> None:
        await read_server_clock(connection, clock)

    async def look_now() -> None:
        await executor.with_connection(look)

    async with connections.acquire() as connection:
        await look(connection)
    connections.look, connections.is_stale = look, lambda: clock.age_us() >= STALE_US
    clock.look = look_now


async def _check_integrity() -> list[str]:
    """Empty: Postgres checks its pages as it reads them; an administrator runs its own tools (amcheck, checksums)."""
    return []


async def _read_settings(connections: Connections) -> dict[str, str]:
    names = ("server_version", "fsync", "full_page_writes", "synchronous_commit", "server_version_num")
    async with connections.acquire() as connection:
        return {name: str(await connection.fetchval("SELECT current_setting($1)", name)) for name in names}


def _find_tier(details: dict[str, str]) -> Tier:
    """The durability tier that the server's settings allow."""
    if int(details["server_version_num"]) < OLDEST_SERVER:
        msg = f"the server is PostgreSQL {details['server_version']}, Holdfast needs at least 15"
        raise TierNotKept(msg, hint="Upgrade the server.")
    if details["synchronous_commit"] == "off":
        msg = "synchronous_commit is off, and the server does not allow Holdfast to turn it on"
        raise TierNotKept(
            msg,
            hint="A connection pooler may drop session settings: bypass it, or set synchronous_commit for the role.",
        )
    durable = details["fsync"] == "on" and details["full_page_writes"] == "on"
    return Tier.POSTGRES if durable else Tier.POSTGRES_REDUCED


def _remove_password(url: str) -> str:
    scheme, separator, remainder = url.partition("://")
    login, at, place = remainder.rpartition("@")
    user = login.partition(":")[0]
    return f"{scheme}{separator}{user}{at}{place}"
