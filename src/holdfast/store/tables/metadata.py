"""Store metadata over SQL."""

from __future__ import annotations

from typing import Any

from holdfast.model import canonical
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.metadata import MetadataEntry, encode_metadata


class SqlMetadata:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def get(self, key: str) -> MetadataEntry | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_metadata", key=key)

        row = await self._executor.read(work, brief=True)
        return None if row is None else MetadataEntry(canonical.decode(bytes(row[0])), row[1])

    async def put(self, key: str, value: Any) -> None:
        encoded = encode_metadata(key, value)

        async def work(tx: Transaction) -> None:
            await tx.run("put_metadata", key=key, value=encoded)

        await self._executor.write(work)
