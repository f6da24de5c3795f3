"""Registry entries of external agents, over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import InvalidPayload, StoreCorrupt
from holdfast.model.agent_registry import AgentEntry, StoredEntry, check_entry, read_entry, write_entry
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.tables.payloads import need_namespace


class SqlEntries:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def get(self, guid: str, *, namespace: str = DEFAULT_NAMESPACE) -> StoredEntry | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_entry", namespace=namespace, guid=guid)

        row = await self._executor.read(work, brief=True)
        return None if row is None else _to_seen(row)

    async def put(
        self, entry: AgentEntry, *, over: int, namespace: str = DEFAULT_NAMESPACE
    ) -> StoredEntry | None:
        data = write_entry(check_entry(entry))
        place = {"namespace": namespace, "guid": entry.guid, "entry": data}

        async def work(tx: Transaction) -> Row | None:
            await need_namespace(tx, namespace)
            if over:
                return await tx.row("update_entry", **place, over=over)
            return await tx.row("insert_entry", **place)

        row = await self._executor.write(work)
        return None if row is None else StoredEntry(entry=entry, revision=row[0], heard_at=row[1])

    async def remove(self, guid: str, *, over: int, namespace: str = DEFAULT_NAMESPACE) -> bool:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("remove_entry", namespace=namespace, guid=guid, over=over)

        return await self._executor.write(work) is not None

    async def list(self, *, namespace: str = DEFAULT_NAMESPACE) -> Sequence[StoredEntry]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_entries", namespace=namespace)

        return [_to_seen(row) for row in await self._executor.read(work)]


def _to_seen(row: Row) -> StoredEntry:
    data, revision, heard_at = row
    try:
        return StoredEntry(entry=read_entry(data), revision=revision, heard_at=heard_at)
    except InvalidPayload as error:
        msg = f"the entry of an agent is damaged: {error}"
        raise StoreCorrupt(msg) from error
