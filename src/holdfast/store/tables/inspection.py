"""Inspection over SQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.store.executor import Executor, Work

T = TypeVar("T")


class SqlInspection:
    def __init__(self, executor: Executor, integrity: Callable[[], Awaitable[list[str]]]) -> None:
        self._executor = executor
        self._integrity = integrity

    async def inspect(self, work: Work[T]) -> T:
        return await self._executor.read(work, snapshot=True)

    async def engine_integrity(self) -> list[str]:
        return await self._integrity()
