"""Real PostgreSQL and NATS servers for tests: installed by pip, started in a second, gone when the test is.

A missing server is `ServerMissing`, which says `make setup`; it is never a skip.
"""

from tests.support.servers.binaries import (
    NatsBinary,
    PostgresBinaries,
    ServerMissing,
    find_nats,
    find_postgres,
    postgres_installations,
)
from tests.support.servers.nats import NatsServer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.processes import ServerFailed

__all__ = [
    "NatsBinary",
    "NatsServer",
    "PostgresBinaries",
    "PostgresServer",
    "ServerFailed",
    "ServerMissing",
    "find_nats",
    "find_postgres",
    "postgres_installations",
]
