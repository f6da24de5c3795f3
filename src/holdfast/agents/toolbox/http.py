"""HTTP for agents: to the hosts that its owner names, and to nobody's inner network.

The model chooses the URL, so the URL is hostile. What decides is not the name in it but the address that is connected
to: a name is resolved once, its addresses are judged, and the connection goes to a judged address. A name that points
somewhere else a moment later, or a redirect, changes nothing: each hop is judged again.

Written over the standard library's client: it brings no proxy, no cookies and no pool of its own, the address it
connects to is ours to choose, and there is one way for everybody instead of one for each client that may be installed.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import msgspec

from holdfast.agents.secrets import Secret, resolve_references
from holdfast.agents.signatures import Key
from holdfast.agents.threads import in_thread
from holdfast.agents.toolbox import tool_factory
from holdfast.agents.toolbox.hosts import Allowed, HostPort
from holdfast.agents.tools import Tool
from holdfast.errors import InvalidSetting, Refused
from holdfast.model.limits import KIB
from holdfast.model.time import SECOND, Duration, parse_duration

BODY_BYTES_MAX: Final = 128 * KIB
SENT_BYTES_MAX: Final = 512 * KIB
HOPS_MAX: Final = 5
URL_LENGTH_MAX: Final = 8 * KIB

_NO_KEY: Final = Key("")
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_METHODS: Final = ("POST", "PUT", "PATCH", "DELETE")
_AS_IT_IS: Final = "/?:@!$&'()*+,;=%-._~[]"
"""What a URL may hold; everything else is written with a percent sign."""

_SHOWN: Final = ("content-type", "location", "retry-after", "etag", "last-modified")


class Fetched(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server answered. `left_out`: bytes of the body that were not read, or more than this."""

    status: int
    url: str
    headers: dict[str, str]
    body: str
    left_out: str = ""


def http_tools(
    *,
    allow: Iterable[str],
    methods: Iterable[str] = (),
    headers: Mapping[str, str | Secret] | None = None,
    key_header: str | None = None,
    key_lifetime: Duration | None = None,
    approve: Callable[..., bool] | bool | None = None,
    timeout: Duration = "30s",
    body_max: int = BODY_BYTES_MAX,
    prefix: str = "",
    trust: ssl.SSLContext | None = None,
) -> list[Tool[..., Any]]:
    """Tools for HTTP: http_get, and http_send if `methods` names any (POST, PUT, PATCH, DELETE).

    allow: hosts that may be asked, at the usual ports and at public addresses only: `"api.example.com"`, or
    `"*.example.com"` for everything below it. With a port, `"localhost:8080"`, exactly that port, at whatever address:
    that is how a host of an inner network is allowed. headers: sent along to these hosts, not followed to others by a
    redirect; a secret in them is looked up for each call. key_header: the header in which the receivers take an
    idempotency key; then sending is `idempotent`, for `key_lifetime`; without one it is `unsafe`. approve: for
    http_send. timeout: for the whole call. body_max: bytes of an answer that are read. trust: the
    certificates to believe, if not the system's.
    """
    named = tuple(method.upper() for method in methods)
    if unknown := set(named) - set(_METHODS):
        msg = f"http_tools cannot send {', '.join(sorted(unknown))}"
        raise InvalidSetting(msg, hint=f"Name some of {', '.join(_METHODS)}; GET is always allowed.")
    if key_lifetime is not None and key_header is None:
        msg = "a key_lifetime without a key_header"
        raise InvalidSetting(msg, hint="Say in which header the receivers take the key, or leave it out.")
    limit_us = parse_duration(timeout)
    web = _Web(Allowed(allow), dict(headers or {}), key_header, limit_us / SECOND, body_max, named, trust)
    longest = (limit_us + 15 * SECOND) / SECOND
    tools = [
        tool_factory.tool(web.http_get, f"{prefix}http_get", tool_factory.terms("read_only", timeout=longest))
    ]
    if named:
        effect = "unsafe" if key_header is None else "idempotent"
        sending = tool_factory.terms(effect, timeout=longest, key_lifetime=key_lifetime, approve=approve)
        tools.append(tool_factory.tool(web.http_send, f"{prefix}http_send", sending))
    return tools


class _Web:
    def __init__(
        self,
        allowed: Allowed,
        headers: dict[str, str | Secret],
        key_header: str | None,
        limit_s: float,
        body_max: int,
        methods: tuple[str, ...],
        trust: ssl.SSLContext | None,
    ) -> None:
        self._allowed = allowed
        self._headers = headers
        self._key_header = key_header
        self._limit_s = limit_s
        self._body_max = body_max
        self._methods = methods
        self._trust = trust

    async def http_get(self, url: str) -> Fetched:
        """Get a page or a document over HTTP.

        Args:
            url: Its whole address, with http:// or https://.
        """
        first = self._place(url)
        url, headers = url.strip(), self._headers
        for _ in range(HOPS_MAX):
            answer = await self._exchanged("GET", url, None, headers)
            location = answer.headers.get("location")
            if answer.status not in _MOVED or location is None:
                return answer
            url = urljoin(url, location)
            headers = self._headers if self._place(url) == first else {}
        msg = f"{url[:200]!r}: more than {HOPS_MAX} redirects"
        raise Refused(msg, hint="Use another address.")

    async def http_send(
        self,
        method: str,
        url: str,
        body: str = "",
        content_type: str = "application/json",
        *,
        key: Key = _NO_KEY,
    ) -> Fetched:
        """Send a request over HTTP that changes something. A redirect is not followed but returned.

        Args:
            method: Such as POST.
            url: The whole address, with http:// or https://.
            body: What to send.
            content_type: What the body is.
        """
        if method.upper() not in self._methods:
            msg = f"{method[:20]!r} is not a method that may be sent"
            raise Refused(msg, hint=f"Send one of {', '.join(self._methods)}.")
        self._place(url)
        try:
            data = body.encode()
        except UnicodeEncodeError:
            msg = "the body contains an incomplete character (a lone surrogate)"
            raise Refused(msg, hint="Send valid Unicode text.") from None
        if len(data) > SENT_BYTES_MAX:
            msg = f"the body has {len(data):,} bytes, more than the limit of {SENT_BYTES_MAX:,}"
            raise Refused(msg, hint="Send less.")
        headers = {**self._headers, "Content-Type": content_type}
        if self._key_header is not None and key:
            headers[self._key_header] = key
        return await self._exchanged(method.upper(), url.strip(), data, headers)

    def _place(self, url: str) -> HostPort:
        """The host and port that the URL names; or Refused, if they are not among those that may be asked."""
        return self._allowed.must_name(*_parsed(url)[1:])

    async def _exchanged(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str | Secret]
    ) -> Fetched:
        exchange = _Exchange(self, method, url, body, resolve_references(headers))
        work = asyncio.ensure_future(in_thread(exchange.run))
        try:
            async with asyncio.timeout(self._limit_s):
                return await asyncio.shield(work)
        except (asyncio.CancelledError, TimeoutError):
            exchange.abort()
            work.cancel()
            await asyncio.wait([work])
            work.cancelled() or work.exception()  # looked at, so that nobody complains about it
            raise

    def connected(self, place: HostPort, *, secure: bool) -> socket.socket:
        """A connection to an address that may be asked. Until it is there, nothing was sent."""
        plain = self._allowed.connect(place, self._limit_s)
        if not secure:
            return plain
        try:
            trust = self._trust or ssl.create_default_context()
            return trust.wrap_socket(plain, server_hostname=place.host)
        except (OSError, ValueError) as error:
            plain.close()
            msg = f"{place}: no secure connection: {error}"
            raise Refused(msg, hint="Nothing was sent. Check the address.") from None

    def answered(self, url: str, response: http.client.HTTPResponse) -> Fetched:
        data = response.read(self._body_max + 1)
        kept = data[: self._body_max]
        left_out = ""
        if len(data) > len(kept):
            size = response.headers.get("content-length", "")
            left_out = f"{int(size) - len(kept):,}" if size.isdigit() else "more"
        charset = response.headers.get_content_charset("utf-8")
        try:
            body = kept.decode(charset, "replace")
        except LookupError:
            body = kept.decode("utf-8", "replace")
        shown = {name: value for name in _SHOWN if (value := response.headers.get(name)) is not None}
        return Fetched(response.status, url, shown, body, left_out)


class _Exchange:
    """One request and its answer, in a thread; `abort` ends it from outside."""

    def __init__(
        self, web: _Web, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        self._web = web
        self._method = method
        self._url = url
        self._body = body
        self._headers = {"Accept-Encoding": "identity", "Connection": "close", **headers}
        self._socket: socket.socket | None = None

    def run(self) -> Fetched:
        parts, scheme, host, port = _parsed(self._url)
        self._socket = self._web.connected(HostPort(host, port), secure=scheme == "https")
        connection = http.client.HTTPConnection(host, port)
        connection.sock = self._socket
        if port == _DEFAULT_PORTS[scheme]:
            connection.default_port = port  # so that the Host header does not name it
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        with contextlib.closing(connection):
            try:
                connection.request(self._method, quote(target, safe=_AS_IT_IS), self._body, self._headers)
            except (ValueError, http.client.InvalidURL) as error:
                # The library looks at the line and the headers before it sends any of it.
                msg = f"this cannot be sent: {error}"
                raise Refused(msg, hint="Leave out control characters and halves of characters.") from None
            return self._web.answered(self._url, connection.getresponse())

    def abort(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


def _parsed(url: str) -> tuple[SplitResult, str, str, int]:
    """The URL, its scheme, host and port; or Refused, if it is none that may be asked for."""
    if len(url) > URL_LENGTH_MAX:
        msg = f"{url[:200]!r} and so on: an address of {len(url):,} characters"
        raise Refused(msg, hint=f"Give one of at most {URL_LENGTH_MAX:,}.")
    try:
        parts = urlsplit(url.strip())
        host, port = (parts.hostname or "").rstrip("."), parts.port
        named = host.encode("idna").decode() if not host.isascii() else host
    except ValueError as error:
        msg = f"{url[:200]!r} is no address: {error}"
        raise Refused(msg, hint="Give a whole URL, such as https://example.com/page.") from None
    if parts.scheme not in _DEFAULT_PORTS or not named:
        msg = f"{url[:200]!r} is no address of http or https"
        raise Refused(msg, hint="Give a whole URL, such as https://example.com/page.")
    if parts.username is not None or parts.password is not None:
        msg = f"{named[:200]}: an address with a name and a password in it"
        raise Refused(msg, hint="Leave them out.")
    return parts, parts.scheme, named, port or _DEFAULT_PORTS[parts.scheme]
