"""API keys over SQL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import Conflict, NotFound
from holdfast.model.access import ApiKey, Role, check_key
from holdfast.model.audit import ActDraft, check_act
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.audit import write_act_in
from holdfast.store.tables.payloads import need_namespace, to_enum


class SqlKeys:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def create(self, key: ApiKey, act: ActDraft) -> ApiKey:
        check_key(key)
        line = check_act(msgspec.structs.replace(act, namespace=key.namespace))
        roles = ",".join(key.roles)
        tried: list[bool] = []

        async def work(tx: Transaction) -> ApiKey:
            await need_namespace(tx, key.namespace)
            row = await tx.row(
                "insert_api_key",
                key_id=key.key_id,
                namespace=key.namespace,
                name=key.name,
                roles=roles,
                digest=key.digest,
                session_id=key.session_id,
                expires_at=key.expires_at,
            )
            tried.append(row is not None)
            found = await _get(tx, key.key_id)
            if (found.digest, found.namespace) != (key.digest, key.namespace):
                raise Conflict(f"there is another key {key.key_id!r}", hint="Make a new one.")
            if any(tried):  # by this try, or by one whose reply was lost
                await write_act_in(tx, line)
            return found

        return await self._executor.write(work)

    async def find(self, key_id: str) -> ApiKey | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("find_api_key", key_id=key_id)

        row = await self._executor.read(work, brief=True)
        return None if row is None else _to_key(row)

    async def list(
        self, *, namespace: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ApiKey]:
        after = "" if cursor is None else str(decode_cursor("keys", cursor, keys=1)[0])

        async def work(tx: Transaction) -> Sequence[Row]:
            if namespace is None:
                return await tx.rows("list_all_api_keys", after=after, limit=limit + 1)
            return await tx.rows("list_api_keys", namespace=namespace, after=after, limit=limit + 1)

        found = [_to_key(row) for row in await self._executor.read(work)]
        more = encode_cursor("keys", found[limit - 1].key_id) if len(found) > limit > 0 else None
        return Page(tuple(found[:limit]), more)

    async def revoke(self, key_id: str, act: ActDraft, *, namespace: str | None = None) -> ApiKey:
        line = check_act(act)
        tried: list[bool] = []

        async def work(tx: Transaction) -> ApiKey:
            key = await _get(tx, key_id, namespace)
            tried.append(await tx.row("revoke_api_key", key_id=key_id) is not None)
            if any(tried):  # by this try, or by one whose reply was lost
                await write_act_in(tx, msgspec.structs.replace(line, namespace=key.namespace))
            return await _get(tx, key_id)

        return await self._executor.write(work)

    async def record_use(self, key_id: str, *, every_us: int) -> None:
        async def work(tx: Transaction) -> None:
            await tx.run("record_api_key_use", key_id=key_id, every_us=every_us)

        await self._executor.write(work)

    async def exist(self) -> bool:
        async def work(tx: Transaction) -> bool:
            return await tx.row("has_api_key") is not None

        return await self._executor.read(work, brief=True)


async def _get(tx: Transaction, key_id: str, namespace: str | None = None) -> ApiKey:
    row = await tx.row("find_api_key", key_id=key_id)
    key = None if row is None else _to_key(row)
    if key is None or (namespace is not None and key.namespace != namespace):
        msg = f"there is no key {key_id!r}"
        raise NotFound(msg, hint="`holdfast api-key list` lists them.")
    return key


def _to_key(row: Row) -> ApiKey:
    values = dict(zip(_FIELDS, row, strict=True))
    roles = tuple(to_enum(Role, role) for role in values.pop("roles").split(","))
    return ApiKey(roles=roles, **values)


_FIELDS = (
    "key_id",
    "digest",
    "roles",
    "name",
    "namespace",
    "session_id",
    "expires_at",
    "created_at",
    "revoked_at",
    "last_used_at",
)
