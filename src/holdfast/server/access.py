"""Access control: authenticates every request and checks its permissions, in this one place.

With API keys in the store, or with `require_key`, a request needs a key. Without any key, a server on loopback lets
its machine read, and callers with the token of this server start write: other users of the machine and pages in a
browser do not have it.

A looked-up key is cached for two seconds, so a revoked key is rejected after that. A stream checks its key again
while it runs, and a response that took long is checked again before it is sent.
"""

from __future__ import annotations

import hmac
import logging
from typing import Final, Protocol

import msgspec
from starlette.requests import Request

from holdfast.errors import Forbidden, HoldfastError, NotFound, Unauthorized
from holdfast.model.access import AccessScope, ApiKey, Role, is_open, is_valid, parse_key, scopes_of
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.time import MINUTE, SECOND
from holdfast.server.origin_checks import Principal
from holdfast.server.problems import Refusal
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

BELIEVED_US: Final = 2 * SECOND
"""How long a looked-up key is cached. S4 allows five seconds until a revocation takes effect everywhere."""

USES_EVERY_US: Final = MINUTE
KNOWN_MAX: Final = 4_096
READS: Final = ("GET", "HEAD", "OPTIONS")
LOCAL: Final = Principal("local", DEFAULT_NAMESPACE)
"""The caller with the token of this server start."""

PASSER_BY: Final = Principal("anybody", DEFAULT_NAMESPACE, (Role.VIEWER,))
"""An anonymous caller of a server on loopback without API keys. It may only read."""

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
_log: Final = logging.getLogger("holdfast.server")


class _Seen(msgspec.Struct, frozen=True):
    key: ApiKey | None
    store_id: str
    at: int


class AccessRule(Protocol):
    """The permissions that an endpoint requires (`endpoints.Endpoint` explains each)."""

    @property
    def scope(self) -> AccessScope | None: ...

    @property
    def session(self) -> str | None: ...

    @property
    def shared(self) -> bool: ...


class Gate:
    """Authenticates requests. `token` is that of this server start; without one no caller is local."""

    def __init__(self, store: Store, clock: Clock, *, token: str | None, require_key: bool) -> None:
        self._store = store
        self._clock = clock
        self._token = None if require_key else token
        self._require_key = require_key
        self._seen: dict[str, _Seen] = {}
        self._used: dict[str, int] = {}
        self._keyed: tuple[bool, int] | None = None

    async def __call__(self, request: Request) -> Principal:
        """The principal of the request; raises 401."""
        header = request.headers.get("authorization")
        if header is not None:
            return await self._named(header)
        if request.method in READS and not await self.asks():
            return PASSER_BY
        raise make_unauthorized()

    async def asks(self) -> bool:
        """Whether every request needs a key."""
        if self._require_key:
            return True
        now = self._clock.tick_us()
        if self._keyed is None or not (self._keyed[0] or now - self._keyed[1] < BELIEVED_US):
            self._keyed = (await self._store.keys.exist(), now)
        return self._keyed[0]

    async def still(self, principal: Principal) -> bool:
        """Whether an admitted principal is still admitted."""
        if principal.key_id is None:
            return principal is not PASSER_BY or not await self.asks()
        key = (await self._look_up(principal.key_id)).key
        return key is not None and is_open(key, self._clock.wall_us())

    def forget(self, key_id: str) -> None:
        """Drops the cached key, so that it is looked up anew."""
        self._seen.pop(key_id, None)

    async def _named(self, header: str) -> Principal:
        kind, _, text = header.partition(" ")
        text = text.strip()
        if kind.lower() != "bearer":
            raise make_unauthorized()
        if self._token is not None and hmac.compare_digest(text.encode(), self._token.encode()):
            return LOCAL
        # Text that is not a key is treated like an unknown key.
        key_id, secret = parse_key(text) or ("0" * 16, text)
        cached = await self._look_up(key_id)
        if (
            not is_valid(cached.key, cached.store_id, key_id, secret, self._clock.wall_us())
            or cached.key is None
        ):
            raise make_unauthorized()
        await self._use(cached.key)
        return principal_of(cached.key)

    async def _look_up(self, key_id: str) -> _Seen:
        now = self._clock.tick_us()
        cached = self._seen.get(key_id)
        if cached is None or now - cached.at >= BELIEVED_US:
            key = await self._store.keys.find(key_id)
            cached = _Seen(key, (await self._store.info()).store_id, now)
            self._seen.pop(key_id, None)
            while len(self._seen) >= KNOWN_MAX:
                self._seen.pop(next(iter(self._seen)))
            self._seen[key_id] = cached
        return cached

    async def _use(self, key: ApiKey) -> None:
        """Records the key's last use, at most once a minute. A failure of this write does not reject the request."""
        now = self._clock.tick_us()
        if key.key_id in self._used and now - self._used[key.key_id] < USES_EVERY_US:
            return
        self._used[key.key_id] = now
        try:
            await self._store.keys.record_use(key.key_id, every_us=USES_EVERY_US)
        except HoldfastError as error:
            _log.warning("the last use of API key %s could not be stored: %s", key.key_id, error.code)


def principal_of(key: ApiKey) -> Principal:
    return Principal(
        f"{key.name} ({key.key_id})", key.namespace, key.roles, key_id=key.key_id, session_id=key.session_id
    )


def make_unauthorized() -> Refusal:
    """The same response to a missing, an unknown, a wrong and an expired key."""
    return Refusal(401, Unauthorized("this request needs an API key"), headers=_CHALLENGE)


def admit(principal: Principal, endpoint: AccessRule, path: dict[str, str]) -> None:
    """Checks that the principal may send this request; raises 403 with the missing scope, or 404 for another's
    session."""
    if endpoint.shared and principal.namespace != DEFAULT_NAMESPACE:
        msg = f"this request concerns all namespaces, and the key belongs to {principal.namespace!r} alone"
        raise Refusal(
            403, Forbidden(msg, hint="Ask the operator of this server for a key of all namespaces.")
        )
    needed = AccessScope.ADMIN if endpoint.scope is None else endpoint.scope
    scopes = scopes_of(principal.roles)
    if needed in scopes:
        return
    if endpoint.session is not None and AccessScope.TALK in scopes:
        if path[endpoint.session] == principal.session_id:
            return
        raise NotFound(f"there is no session {path[endpoint.session]!r}")
    roles = ", ".join(role for role in Role if needed in scopes_of([role]))
    raise Refusal(
        403,
        Forbidden(
            f"this request needs the scope {needed.value!r}, which the role {', '.join(principal.roles)} does not have",
            hint=f"Use a key with one of these roles: {roles}.",
        ),
    )
