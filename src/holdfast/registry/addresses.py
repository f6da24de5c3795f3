"""NATS addresses: the servers that HOLDFAST_NATS_URL names. No printed text contains the secrets in it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from holdfast.errors import InvalidSetting

URL: Final = "HOLDFAST_NATS_URL"
CA: Final = "HOLDFAST_NATS_CA"
CREDS: Final = "HOLDFAST_NATS_CREDS"
DEFAULT_PORT: Final = 4222
SERVERS_MAX: Final = 32
_HINT: Final = (
    f"{URL} is nats://user:password@host:4222, or tls://… where it must be encrypted; several with commas."
)


class NatsAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One server and the credentials for it: a user with a password, or a token alone. As text it is host and port."""

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    password: str | None = None
    encrypted: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Address({self})"

    @property
    def is_local(self) -> bool:
        """Whether the address is reachable from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class NatsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Connection settings. `creds` is the path of a credentials file. `ca` is a file with the certificates to trust;
    without one the system's certificates are trusted."""

    servers: tuple[NatsAddress, ...]
    ca: str | None = None
    creds: str | None = None

    @property
    def is_local(self) -> bool:
        return all(server.is_local for server in self.servers)


def nats_settings(environment: Mapping[str, str]) -> NatsSettings | None:
    """The NATS settings of the environment; None if it names no server.

    Raises:
        InvalidSetting: A value is not an address. The message does not repeat it: it may contain a password.
    """
    url = environment.get(URL, "").strip()
    if not url:
        return None
    return NatsSettings(
        servers=parse_servers(url), ca=environment.get(CA) or None, creds=environment.get(CREDS) or None
    )


def parse_servers(url: str) -> tuple[NatsAddress, ...]:
    """Parse a comma-separated list of servers."""
    parts = [part.strip() for part in url.split(",") if part.strip()]
    if not 1 <= len(parts) <= SERVERS_MAX:
        raise InvalidSetting(f"{len(parts)} servers of NATS; allowed are 1 to {SERVERS_MAX}", hint=_HINT)
    return tuple(_parse_server(part, nth) for nth, part in enumerate(parts, 1))


def _parse_server(text: str, nth: int) -> NatsAddress:
    try:
        parts = urlsplit(text if "://" in text else f"nats://{text}")
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        raise InvalidSetting(f"server {nth} in {URL} is no address", hint=_HINT) from None
    if parts.scheme not in {"nats", "tls"} or not host or parts.path.strip("/") or parts.query:
        raise InvalidSetting(f"server {nth} in {URL} is no address of NATS", hint=_HINT)
    return NatsAddress(
        host=host,
        port=port,
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        encrypted=parts.scheme == "tls",
    )
