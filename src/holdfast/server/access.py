"""Who asks, and whether they may: every request passes here, and nowhere else is it decided.

With keys in the store, or with `require_key`, a request needs a key. Without any, a server on loopback lets its machine
read, and whoever has the token of this start write: other users of the machine and pages in a browser have it not.

What was read of a key is believed for two seconds, so a revoked one opens nothing after that. A stream asks again while
it runs, and an answer that took long to make asks again before it is sent.
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
"""How long what was read of a key counts. S4 allows five seconds until a revocation is felt everywhere."""

USES_EVERY_US: Final = MINUTE
KNOWN_MAX: Final = 4_096
READS: Final = ("GET", "HEAD", "OPTIONS")
LOCAL: Final = Principal("local", DEFAULT_NAMESPACE)
"""Whoever has the token of this start."""

PASSER_BY: Final = Principal("anybody", DEFAULT_NAMESPACE, (Role.VIEWER,))
"""Whoever reaches a server on loopback that nobody has made keys for. Only reads get this far."""

_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
_log: Final = logging.getLogger("holdfast.server")


class _Seen(msgspec.Struct, frozen=True):
    key: ApiKey | None
    store_id: str
    at: int


class AccessRule(Protocol):
    """What an endpoint asks of its callers (`endpoints.Endpoint` says what each means)."""

    @property
    def scope(self) -> AccessScope | None: ...

    @property
    def session(self) -> str | None: ...

    @property
    def shared(self) -> bool: ...


class Gate:
    """Says who asks. `token` is this start's; without one nobody is local."""

    def __init__(self, store: Store, clock: Clock, *, token: str | None, require_key: bool) -> None:
        self._store = store
        self._clock = clock
        self._token = None if require_key else token
        self._require_key = require_key
        self._seen: dict[str, _Seen] = {}
        self._used: dict[str, int] = {}
        self._keyed: tuple[bool, int] | None = None

    async def __call__(self, request: Request) -> Principal:
        """Who asks, or 401."""
        said = request.headers.get("authorization")
        if said is not None:
            return await self._named(said)
        if request.method in READS and not await self.asks():
            return PASSER_BY
        raise make_unauthorized()

    async def asks(self) -> bool:
        """Whether nothing is answered without a key."""
        if self._require_key:
            return True
        now = self._clock.tick_us()
        if self._keyed is None or not (self._keyed[0] or now - self._keyed[1] < BELIEVED_US):
            self._keyed = (await self._store.keys.exist(), now)
        return self._keyed[0]

    async def still(self, principal: Principal) -> bool:
        """Whether somebody who was let in may stay."""
        if principal.key_id is None:
            return principal is not PASSER_BY or not await self.asks()
        key = (await self._look_up(principal.key_id)).key
        return key is not None and is_open(key, self._clock.wall_us())

    def forget(self, key_id: str) -> None:
        """The key is looked up anew."""
        self._seen.pop(key_id, None)

    async def _named(self, said: str) -> Principal:
        kind, _, text = said.partition(" ")
        text = text.strip()
        if kind.lower() != "bearer":
            raise make_unauthorized()
        if self._token is not None and hmac.compare_digest(text.encode(), self._token.encode()):
            return LOCAL
        # What is no key at all is treated as one that nobody has.
        key_id, secret = parse_key(text) or ("0" * 16, text)
        seen = await self._look_up(key_id)
        if not is_valid(seen.key, seen.store_id, key_id, secret, self._clock.wall_us()) or seen.key is None:
            raise make_unauthorized()
        await self._use(seen.key)
        return principal_of(seen.key)

    async def _look_up(self, key_id: str) -> _Seen:
        now = self._clock.tick_us()
        seen = self._seen.get(key_id)
        if seen is None or now - seen.at >= BELIEVED_US:
            key = await self._store.keys.find(key_id)
            seen = _Seen(key, (await self._store.info()).store_id, now)
            self._seen.pop(key_id, None)
            while len(self._seen) >= KNOWN_MAX:
                self._seen.pop(next(iter(self._seen)))
            self._seen[key_id] = seen
        return seen

    async def _use(self, key: ApiKey) -> None:
        """The key's last use is written, once in a while. That it cannot be written refuses nobody."""
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
    """The one answer to no key, an unknown one, a wrong one, and one that is over."""
    return Refusal(401, Unauthorized("this request needs an API key"), headers=_CHALLENGE)


def admit(principal: Principal, endpoint: AccessRule, path: dict[str, str]) -> None:
    """The principal may ask this; or 403 with the scope that is missing, or 404 for a session that is not its own."""
    if endpoint.shared and principal.namespace != DEFAULT_NAMESPACE:
        msg = f"this request concerns all namespaces, and the key belongs to {principal.namespace!r} alone"
        raise Refusal(
            403, Forbidden(msg, hint="Ask the operator of this server for a key of all namespaces.")
        )
    needed = AccessScope.ADMIN if endpoint.scope is None else endpoint.scope
    held = scopes_of(principal.roles)
    if needed in held:
        return
    if endpoint.session is not None and AccessScope.TALK in held:
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
