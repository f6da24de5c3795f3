"""Inspection: reads all tables in one snapshot, for `holdfast db verify`."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.store.executor import Work

T = TypeVar("T")


class Inspection(Protocol):
    async def inspect(self, work: Work[T]) -> T:
        """Run a work that reads; all its statements see one instant."""
        ...

    async def engine_integrity(self) -> list[str]:
        """The problems that the database engine itself finds in its files; empty if there are none."""
        ...
