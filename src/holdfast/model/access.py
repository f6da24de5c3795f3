"""Access control: roles, the scopes they grant, and API keys.

An API key is `hf_ID.SECRET`. The id finds its row. The secret is 256 random bits; it is shown once and stored nowhere.
The row holds a SHA-256 of it, keyed with the store and the id: a reader of the row cannot derive the key, and a row
that is copied into another store or under another id grants nothing there.

    viewer     reads
    operator   reads; submits, stops, signals, resumes, requeues, discards, drains
    approver   reads; approves, denies, answers, reconciles, raises budgets
    worker     claims work and writes under its own leases; reads no other job
    agent      reads and writes its own session only
    admin      everything in its namespace, keys and the audit log included
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.errors import InvalidPayload
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import DEFAULT_NAMESPACE

PREFIX: Final = "hf_"
_KEY: Final = re.compile(r"hf_([0-9a-z]{16})\.([A-Za-z0-9_-]{43})")
_DOMAIN: Final = b"holdfast api key 1\x00"


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    WORKER = "worker"
    AGENT = "agent"
    ADMIN = "admin"


class AccessScope(StrEnum):
    """Scope that an endpoint requires. `public` requires no key, `talk` only the session that the key is bound to."""

    PUBLIC = "public"
    READ = "read"
    OPERATE = "operate"
    DECIDE = "decide"
    WORK = "work"
    TALK = "talk"
    ADMIN = "admin"


GRANTS: Final[dict[Role, frozenset[AccessScope]]] = {
    Role.VIEWER: frozenset({AccessScope.PUBLIC, AccessScope.READ}),
    Role.OPERATOR: frozenset({AccessScope.PUBLIC, AccessScope.READ, AccessScope.OPERATE}),
    Role.APPROVER: frozenset({AccessScope.PUBLIC, AccessScope.READ, AccessScope.DECIDE}),
    Role.WORKER: frozenset({AccessScope.PUBLIC, AccessScope.WORK}),
    Role.AGENT: frozenset({AccessScope.PUBLIC, AccessScope.TALK}),
    Role.ADMIN: frozenset(AccessScope) - {AccessScope.TALK},
}


def scopes_of(roles: Iterable[Role]) -> frozenset[AccessScope]:
    """The union of the scopes of these roles."""
    return frozenset().union(*(GRANTS[role] for role in roles))


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as it is stored. `name` tells people whose it is; `session_id` is the session that an agent's key is
    bound to."""

    key_id: str
    digest: bytes
    roles: tuple[Role, ...]
    name: str
    namespace: str = DEFAULT_NAMESPACE
    session_id: str | None = None
    expires_at: int | None = None
    created_at: int = 0
    revoked_at: int | None = None
    last_used_at: int | None = None


def key_text(key_id: str, secret: str) -> str:
    """The key as its owner holds it."""
    return f"{PREFIX}{key_id}.{secret}"


def parse_key(text: str) -> tuple[str, str] | None:
    """Id and secret of a text that may be a key; None if it has another form."""
    found = _KEY.fullmatch(text)
    return None if found is None else (found[1], found[2])


def key_digest(store_id: str, key_id: str, secret: str) -> bytes:
    """The digest of a secret, as the row stores it."""
    key = hashlib.sha256(_DOMAIN + store_id.encode() + b"\x00" + key_id.encode()).digest()
    return hmac.digest(key, secret.encode(), "sha256")


_NOBODYS: Final = ApiKey(key_id="0" * 16, digest=bytes(32), roles=(), name="nobody", revoked_at=0)


def is_valid(key: ApiKey | None, store_id: str, key_id: str, secret: str, now: int) -> bool:
    """Whether this secret is valid for the key now. An unknown key id takes the same time to check as a wrong secret,
    so that timing does not reveal which ids exist."""
    known = _NOBODYS if key is None else key
    fits = hmac.compare_digest(known.digest, key_digest(store_id, key_id, secret))
    return fits & is_open(known, now)


def is_open(key: ApiKey, now: int) -> bool:
    """Whether the key is neither revoked nor expired."""
    return key.revoked_at is None and (key.expires_at is None or now < key.expires_at)


def check_key(key: ApiKey) -> ApiKey:
    """Return the key, or raise an error that says what to change."""
    check_name(key.key_id, "key id")
    check_name(key.name, "name")
    check_name(key.namespace, "namespace")
    if not key.roles or len(set(key.roles)) < len(key.roles):
        raise InvalidPayload(
            "the roles of a key are missing, or one is given twice", hint=f"Name some of {', '.join(Role)}."
        )
    if (Role.AGENT in key.roles) != (key.session_id is not None):
        msg = "a key with the role agent needs a session, and no other key may have one"
        raise InvalidPayload(msg, hint="Use --session ID with --role agent only.")
    if key.session_id is not None:
        check_name(key.session_id, "session id")
    if key.expires_at is not None:
        check_integer(key.expires_at, "expires_at")
    return key
