"""Real PostgreSQL and NATS servers for tests: installed by pip, started in a second, gone when the test is.

A missing server is `ServerMissing`, which says `make setup`; it is never a skip.
"""

from holdfast.testing.servers.binaries import (
    NatsBinary,
    PostgresBinaries,
    ServerMissing,
    find_nats,
    find_postgres,
    postgres_installations,
)
from holdfast.testing.servers.nats import NatsServer
from holdfast.testing.servers.postgres import PostgresServer
from holdfast.testing.servers.processes import ServerFailed

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
