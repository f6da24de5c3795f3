"""Who may be asked: hosts by name, and addresses by what they are."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.errors import InvalidSetting, Refused

_USUAL: Final = {"http": 80, "https": 443}
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_HINT: Final = "Nothing was sent. Ask for something on a host that is allowed."

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host[:253]}:{self.port}"


class Allowed:
    """The hosts that an owner named."""

    def __init__(self, named: Iterable[str]) -> None:
        self._anywhere: set[HostPort] = set()
        self._public: set[str] = set()
        self._below: set[str] = set()
        for one in named:
            self._take(one.strip().lower())
        if not (self._anywhere or self._public or self._below):
            msg = "no host is allowed"
            raise InvalidSetting(msg, hint='Name those that may be asked: allow=["api.example.com"].')

    def _take(self, one: str) -> None:
        host, colon, port = one.rpartition(":") if not one.endswith("]") else (one, "", "")
        if not colon:
            host = one
        bare = host.removeprefix("*.").strip("[]")
        if not bare or any(sign in bare for sign in "/*@ ") or (colon and not port.isdigit()):
            msg = f"{one!r} is not a valid host pattern"
            raise InvalidSetting(msg, hint='Write "example.com", "*.example.com" or "localhost:8080".')
        if colon and host.startswith("*."):
            msg = f"{one!r}: a port needs a full host name"
            raise InvalidSetting(
                msg, hint="With a port a host is allowed at any address; so name it in full."
            )
        if colon:
            self._anywhere.add(HostPort(bare, int(port)))
        elif host.startswith("*."):
            self._below.add(f".{bare}")
        else:
            self._public.add(bare)

    def must_name(self, scheme: str, host: str, port: int) -> HostPort:
        """The place, if it is allowed by name."""
        place = HostPort(host.lower(), port)
        is_usual = port == _USUAL[scheme]
        is_named = place.host in self._public or any(place.host.endswith(end) for end in self._below)
        if place in self._anywhere or (is_usual and is_named):
            return place
        msg = f"{place} is not an allowed host"
        raise Refused(msg, hint=_HINT)

    def connect(self, place: HostPort, limit_s: float) -> socket.socket:
        """A connection to the place, at an address that may be asked: the one that was judged, not the name."""
        last: OSError | None = None
        judged = list(self._addresses(place))
        if not judged:
            msg = f"{place} has no public address"
            raise Refused(msg, hint=_HINT)
        for address in judged:
            try:
                return socket.create_connection((str(address), place.port), timeout=limit_s)
            except OSError as error:
                last = error
        msg = f"{place} does not answer: {last}"
        raise Refused(msg, hint="Nothing was sent. Try again later, or another host.")

    def _addresses(self, place: HostPort) -> Iterator[Address]:
        try:
            found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            msg = f"{place.host} has no address: {error}"
            raise Refused(msg, hint=_HINT) from None
        for _family, _kind, _protocol, _name, at in found:
            address = ipaddress.ip_address(str(at[0]).partition("%")[0])
            if place in self._anywhere or is_public(address):
                yield address


def is_public(address: Address) -> bool:
    """Whether everybody's traffic may go there: no private, loopback, link-local, shared or reserved range, and none
    hidden inside an address of the newer kind."""
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inside is not None:
            return is_public(inside)
    return address.is_global and not address.is_multicast and not address.is_reserved
