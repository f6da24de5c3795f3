"""Namespaces over SQL."""

from __future__ import annotations

from holdfast.model.ids import check_name
from holdfast.store.executor import Executor, Transaction
from holdfast.store.ports.namespaces import NamespaceRecord


class SqlNamespaces:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def create(self, namespace: str) -> bool:
        check_name(namespace, "namespace")

        made: list[bool] = []

        async def work(tx: Transaction) -> bool:
            made.append(await tx.row("create_namespace", namespace=namespace) is not None)
            return any(made)  # by this try, or by one whose reply was lost

        return await self._executor.write(work)

    async def list(self) -> list[NamespaceRecord]:
        async def work(tx: Transaction) -> list[NamespaceRecord]:
            return [NamespaceRecord(*row) for row in await tx.rows("list_namespaces")]

        return await self._executor.read(work)
