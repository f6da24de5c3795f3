"""Origin checks: reject requests from foreign pages before anything is read.

Every page that is open in a browser of the machine can reach a server on loopback. A page of another site may send
requests to 127.0.0.1, and by a name that it makes resolve to 127.0.0.1 (DNS rebinding) it may even read the
responses. So the `Host` must be one of ours, and an `Origin`, if there is one, must be that very host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from holdfast.errors import InvalidSetting, NotAllowed
from holdfast.model.access import Role
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.server.problems import Refusal
from holdfast.server.settings import Settings

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Principal(msgspec.Struct, frozen=True):
    """The authenticated caller: its name, namespace and roles. `session_id` is the session that an agent's key is
    for."""

    name: str = ""
    namespace: str = DEFAULT_NAMESPACE
    roles: tuple[Role, ...] = (Role.ADMIN,)
    key_id: str | None = None
    session_id: str | None = None


Authorise: TypeAlias = Callable[[Request], Awaitable[Principal]]
"""Returns the principal of a request, or raises a Refusal."""


def check_bind(host: str, *, has_keys: bool = False, has_tls: bool = False, insecure: bool = False) -> None:
    """Checks that the server may listen there: on loopback, or with API keys over TLS or a trusted connection."""
    if is_loopback(host):
        return
    if not has_keys:
        msg = f"{host} can be reached from other machines, and the store has no API keys"
        hint = "Create a key first: `holdfast api-key create --role admin --name me --why 'first key'`."
        raise InvalidSetting(msg, hint=hint)
    if not has_tls and not insecure:
        msg = f"{host} can be reached from other machines, and API keys would travel unencrypted"
        hint = "Give --tls-cert and --tls-key; or --insecure, if a proxy terminates TLS or the network is trusted."
        raise InvalidSetting(msg, hint=hint)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def request_id(headers: Headers) -> str | None:
    """The caller's own id of this request, if it is valid."""
    header = headers.get("x-request-id", "")
    return header if _REQUEST_ID.fullmatch(header) else None


def check_visitor(scope: Scope, headers: Headers, settings: Settings) -> None:
    """Checks that the request is addressed to this server, comes from no other site's page, and has headers within
    the limit."""
    size = len(scope.get("raw_path", b"")) + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > settings.header_bytes_max:
        msg = f"the headers are larger than {settings.header_bytes_max:,} bytes"
        raise Refusal(
            431, NotAllowed(msg, hint="Send what is large in the body."), headers={"Connection": "close"}
        )
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _is_ours(hosts[0].lower(), scope, settings):
        raise Refusal(421, NotAllowed(f"this server does not have the host name {', '.join(hosts)!r}"))
    origins = headers.getlist("origin")
    if origins and origins != [f"{scope['scheme']}://{hosts[0]}"]:
        raise Refusal(
            403, NotAllowed(f"a page of {', '.join(origins)!r} may not send requests to this server")
        )


def _is_ours(host: str, scope: Scope, settings: Settings) -> bool:
    """Whether the host is an allowed name, or the address and port that received the request, which no other site can
    use."""
    if host in settings.hosts:
        return True
    address, port = scope["server"]
    name, host_port = _parted(host)
    if host_port != str(port) and (host_port or port != _DEFAULT_PORTS.get(scope["scheme"])):
        return False
    if name == "localhost":
        return is_loopback(address)
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(address) or (
            is_loopback(name) and is_loopback(address)
        )
    except ValueError:
        return False


def _parted(host: str) -> tuple[str, str]:
    """Name and port; an IPv6 address is in brackets."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name, port
