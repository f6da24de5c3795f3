"""Settings of the server, with their defaults."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.limits import BODY_BYTES_MAX, HEADER_BYTES_MAX, MIB, STREAMS_PER_KEY_MAX
from holdfast.model.token_bucket import Rate
from holdfast.registry.addresses import NatsSettings

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8080


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """The rate limits of one owner: requests, new jobs and batches, body bytes."""

    requests: Rate = Rate(5_000, 20_000)
    submissions: Rate = Rate(2_500, 20_000)
    bytes: Rate = Rate(64 * MIB, 512 * MIB)


TOGETHER: Final = Rates(
    requests=Rate(20_000, 80_000), submissions=Rate(10_000, 80_000), bytes=Rate(256 * MIB, 2048 * MIB)
)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` are the names under which clients reach the server, such as `api.example.org`, or with a port.

    `require_key`: every request needs a key, even while the store has none. `proxies` are the addresses whose
    `X-Forwarded-For` and `X-Forwarded-Proto` are trusted. `nats` is the NATS server where external agents report
    their presence.
    """

    hosts: tuple[str, ...] = ()
    require_key: bool = False
    proxies: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    body_bytes_max: int = BODY_BYTES_MAX
    header_bytes_max: int = HEADER_BYTES_MAX
    body_timeout_s: float = 30.0
    heartbeat_s: float = 15.0
    send_timeout_s: float = 30.0
    drain_timeout_s: float = 10.0
    recheck_s: float = 2.0
    streams_max: int = STREAMS_PER_KEY_MAX
    per_key: Rates = Rates()
    per_namespace: Rates = TOGETHER
    nats: NatsSettings | None = None
    tends: bool = False
    """Whether it runs the maintenance loop."""
