"""Response cache over SQL."""

from __future__ import annotations

from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.store.executor import Executor, Row, Transaction
from holdfast.store.ports.cache import CacheCounts, CachedResponse, check_entry
from holdfast.store.tables.payloads import need_namespace


class SqlCache:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def get(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> CachedResponse | None:
        async def work(tx: Transaction) -> Row | None:
            return await tx.row("get_cache_entry", namespace=namespace, key=key)

        row = await self._executor.read(work, brief=True)
        return None if row is None else CachedResponse(bytes(row[0]), row[1], row[2])

    async def put(self, key: bytes, body: bytes, *, ttl_us: int, namespace: str = DEFAULT_NAMESPACE) -> None:
        check_entry(key, body, ttl_us)

        async def work(tx: Transaction) -> None:
            await need_namespace(tx, namespace)
            await tx.run("put_cache_entry", namespace=namespace, key=key, body=body, ttl_us=ttl_us)

        await self._executor.write(work)

    async def drop(self, key: bytes, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        dropped: list[bool] = []

        async def work(tx: Transaction) -> bool:
            dropped.append(await tx.row("remove_cache_entry", namespace=namespace, key=key) is not None)
            return any(dropped)  # by this try, or by one whose reply was lost

        return await self._executor.write(work)

    async def drop_expired(self, limit: int = 1000) -> int:
        async def work(tx: Transaction) -> int:
            return len(await tx.rows("remove_expired_cache_entries", limit=limit))

        return await self._executor.write(work)

    async def counts(self, namespace: str = DEFAULT_NAMESPACE) -> CacheCounts:
        async def work(tx: Transaction) -> CacheCounts:
            row = await tx.row("count_cache_entries", namespace=namespace)
            assert row is not None, "counting always gives a row"
            return CacheCounts(*row)

        return await self._executor.read(work)
