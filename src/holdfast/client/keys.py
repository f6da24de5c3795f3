"""API keys: creation from a cryptographic random source, and revocation. A secret is visible only at its creation."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from holdfast.model.access import ApiKey, Role, key_digest, key_text
from holdfast.model.audit import ActDraft, act_id
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.contract import Store

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LENGTH = 16


def new_token() -> str:
    """256 random bits as 43 characters."""
    return secrets.token_urlsafe(32)


def new_key_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


async def create_key(
    store: Store,
    roles: Sequence[Role],
    *,
    name: str,
    who: str,
    why: str,
    namespace: str = DEFAULT_NAMESPACE,
    session_id: str | None = None,
    expires_at: int | None = None,
    key_id: str | None = None,
    request_id: str = "",
) -> tuple[ApiKey, str]:
    """The stored key, and its secret text, which is returned only here."""
    key_id, secret = key_id or new_key_id(), new_token()
    key = ApiKey(
        key_id=key_id,
        digest=key_digest((await store.info()).store_id, key_id, secret),
        roles=tuple(sorted(roles)),
        name=name,
        namespace=namespace,
        session_id=session_id,
        expires_at=expires_at,
    )
    act = ActDraft(
        act_id=act_id("key.create", key_id),
        what="key.create",
        who=who,
        object=key_id,
        reason=why,
        request_id=request_id,
        detail=f"{name}: {', '.join(key.roles)}",
        namespace=namespace,
    )
    return await store.keys.create(key, act), key_text(key_id, secret)


async def revoke_key(
    store: Store, key_id: str, *, who: str, why: str, namespace: str | None = None, request_id: str = ""
) -> ApiKey:
    """Revokes the key; running servers reject it within seconds."""
    act = ActDraft(
        act_id=act_id("key.revoke", key_id),
        what="key.revoke",
        who=who,
        object=key_id,
        reason=why,
        request_id=request_id,
    )
    return await store.keys.revoke(key_id, act, namespace=namespace)
