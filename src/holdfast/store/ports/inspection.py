"""Inspection: reading everything in one snapshot, for `verify` and for nothing else."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.store.executor import Work

T = TypeVar("T")


class Inspection(Protocol):
    async def inspect(self, work: Work[T]) -> T:
        """The answer of a work that reads; all its statements see one instant."""
        ...

    async def engine_integrity(self) -> list[str]:
        """What the database engine itself finds wrong with its files; nothing if it finds nothing."""
        ...
