"""API keys in memory. A key is never removed, only revoked."""

from __future__ import annotations

import msgspec

from holdfast.errors import Conflict, NotFound
from holdfast.model.access import ApiKey, check_key
from holdfast.model.audit import ActDraft, check_act
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.store.memory.audit import add_line
from holdfast.store.memory.state import MemoryState


class MemoryKeys:
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def create(self, key: ApiKey, act: ActDraft) -> ApiKey:
        check_key(key)
        line = check_act(msgspec.structs.replace(act, namespace=key.namespace))
        with self._state.transaction() as work:
            work.need_namespace(key.namespace)
            created = msgspec.structs.replace(key, created_at=work.wall, revoked_at=None, last_used_at=None)
            stored = work.tables.api_keys.get(key.key_id)
            if stored is None:
                work.tables.api_keys[key.key_id] = created
                add_line(work, line)
                return created
            if (stored.digest, stored.namespace) != (key.digest, key.namespace):
                raise Conflict(f"the id {key.key_id!r} is another key's", hint="Choose another id.")
            return stored

    async def find(self, key_id: str) -> ApiKey | None:
        return self._state.tables.api_keys.get(key_id)

    async def list(
        self, *, namespace: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ApiKey]:
        last = "" if cursor is None else str(decode_cursor("keys", cursor, keys=1)[0])
        found = [
            key
            for key_id, key in sorted(self._state.tables.api_keys.items())
            if key_id > last and namespace in {None, key.namespace}
        ]
        page = tuple(found[:limit])
        return Page(page, encode_cursor("keys", page[-1].key_id) if page and len(found) > limit else None)

    async def revoke(self, key_id: str, act: ActDraft, *, namespace: str | None = None) -> ApiKey:
        line = check_act(act)
        with self._state.transaction() as work:
            key = work.tables.api_keys.get(key_id)
            if key is None or namespace not in {None, key.namespace}:
                raise NotFound(f"there is no key {key_id!r}", hint="List the keys.")
            if key.revoked_at is not None:
                return key
            revoked = msgspec.structs.replace(key, revoked_at=work.wall)
            work.tables.api_keys[key_id] = revoked
            add_line(work, msgspec.structs.replace(line, namespace=key.namespace))
            return revoked

    async def record_use(self, key_id: str, *, every_us: int) -> None:
        with self._state.transaction() as work:
            key = work.tables.api_keys.get(key_id)
            if key is not None and (key.last_used_at is None or key.last_used_at <= work.wall - every_us):
                work.tables.api_keys[key_id] = msgspec.structs.replace(key, last_used_at=work.wall)

    async def exist(self) -> bool:
        return bool(self._state.tables.api_keys)
