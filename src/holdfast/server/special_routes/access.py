"""API keys of the caller's namespace, and its audit log. For admins."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.api import command_checks
from holdfast.api.requests import Name, OperationRequest, PageRequest
from holdfast.client.keys import create_key, revoke_key
from holdfast.errors import KeyReused
from holdfast.model import canonical
from holdfast.model.access import AccessScope, ApiKey, Role
from holdfast.model.audit import Act, read_act
from holdfast.model.ids import base32, check_name
from holdfast.model.limits import DURATION_US_MAX
from holdfast.model.page import Page
from holdfast.model.time import SECOND
from holdfast.server.idempotency import REPLAYED
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint
from holdfast.server.schemas import WhichLines


class NewKey(OperationRequest, frozen=True, kw_only=True):
    """Request for an API key. `session_id`: the one session that an agent's key is for."""

    name: Name
    roles: Annotated[tuple[Role, ...], Meta(min_length=1)]
    why: str
    session_id: Name | None = None
    expires_in_s: Annotated[int, Meta(ge=1, le=DURATION_US_MAX // SECOND)] | None = None


class Revoking(OperationRequest, frozen=True, kw_only=True):
    why: str


class KeyShape(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    key_id: str
    name: str
    roles: tuple[Role, ...]
    namespace: str
    session_id: str | None
    expires_at: int | None
    created_at: int
    revoked_at: int | None
    last_used_at: int | None


class MadeKey(KeyShape, frozen=True, kw_only=True):
    """A new API key. `key` is returned only once: a repeated request is answered without it."""

    key: str | None


class Acts(msgspec.Struct, frozen=True, kw_only=True):
    """Audit log entries in order. `next` is the `after` of the next page; `head` is the hash of the newest entry."""

    items: tuple[Act, ...]
    next: int | None
    head: str


async def list_keys(request: ApiRequest) -> ApiResponse:
    """List the API keys of the namespace by id, including revoked and expired ones."""
    query: PageRequest = request.query
    page = await request.store.keys.list(namespace=request.namespace, limit=query.limit, cursor=query.cursor)
    return ApiResponse(value=Page(tuple(map(_shape, page)), page.next), tagged=True)


async def make_key(request: ApiRequest) -> ApiResponse:
    """Create an API key. It is returned only once."""
    new: NewKey = request.body
    idempotency_key = request.key()
    key_id = None if idempotency_key is None else _id_for(request.namespace, idempotency_key)
    existing = None if key_id is None else await request.store.keys.find(key_id)
    if existing is not None:
        _must_be_same(existing, new)
        return ApiResponse(value=_made(existing, None), headers=REPLAYED)
    key, text = await create_key(
        request.store,
        new.roles,
        name=new.name,
        who=request.principal.name,
        why=command_checks.reason(new.why),
        namespace=request.namespace,
        session_id=new.session_id,
        expires_at=None
        if new.expires_in_s is None
        else request.house.clock.wall_us() + new.expires_in_s * SECOND,
        key_id=key_id,
        request_id=request.request_id,
    )
    request.house.gate.forget(key.key_id)
    return ApiResponse(value=_made(key, text), status=201)


async def revoke(request: ApiRequest) -> ApiResponse:
    """Revoke an API key: at once on this server, within five seconds on others."""
    body: Revoking = request.body
    key = await revoke_key(
        request.store,
        check_name(request.path["id"], "key id"),
        who=request.principal.name,
        why=command_checks.reason(body.why),
        namespace=request.namespace,
        request_id=request.request_id,
    )
    request.house.gate.forget(key.key_id)
    return ApiResponse(value=_shape(key))


async def list_audit(request: ApiRequest) -> ApiResponse:
    """List the audit log of the namespace, in order; a hash chain links its entries."""
    query: WhichLines = request.query
    head = await request.store.audit.head(namespace=request.namespace)
    lines = await request.store.audit.read(namespace=request.namespace, after=query.after, limit=query.limit)
    more = lines[-1].seq if lines and lines[-1].seq < head.seq else None
    return ApiResponse(
        value=Acts(items=tuple(map(read_act, lines)), next=more, head=head.hash.hex()), tagged=True
    )


def _id_for(namespace: str, idempotency_key: str) -> str:
    """The id of the key that this request creates, the same however often it is sent."""
    return base32(int.from_bytes(canonical.digest_of([namespace, idempotency_key])[:16]))[-16:]


def _must_be_same(existing: ApiKey, new: NewKey) -> None:
    was = [existing.name, sorted(existing.roles), existing.session_id]
    now = [new.name, sorted(new.roles), new.session_id]
    if was != now:
        digests = [canonical.digest_of(fields).hex() for fields in (was, now)]
        raise KeyReused(
            "this idempotency key was used for another API key", stored=digests[0], sent=digests[1]
        )


def _shape(key: ApiKey) -> KeyShape:
    return KeyShape(**{name: getattr(key, name) for name in KeyShape.__struct_fields__})


def _made(key: ApiKey, text: str | None) -> MadeKey:
    return MadeKey(key=text, **{name: getattr(key, name) for name in KeyShape.__struct_fields__})


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/keys",
        handle=list_keys,
        query=PageRequest,
        answers=Page[KeyShape],
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.ADMIN,
    ),
    Endpoint(
        method="POST",
        path="/api/keys",
        handle=make_key,
        body=NewKey,
        answers=MadeKey,
        statuses=(201, 200),
        keyed=True,
        errors=(409, 415, 422),
        scope=AccessScope.ADMIN,
    ),
    Endpoint(
        method="POST",
        path="/api/keys/{id}/revoke",
        handle=revoke,
        body=Revoking,
        answers=KeyShape,
        keyed=True,
        errors=(404, 415, 422),
        scope=AccessScope.ADMIN,
    ),
    Endpoint(
        method="GET",
        path="/api/audit",
        handle=list_audit,
        query=WhichLines,
        answers=Acts,
        statuses=(200, 304),
        errors=(422,),
        scope=AccessScope.ADMIN,
    ),
)
