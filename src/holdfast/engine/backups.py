"""Last backup: the store records when it was backed up, in its metadata."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.store.contract import Store

LAST_BACKUP: Final = "last_backup"


class LastBackup(msgspec.Struct, frozen=True):
    """The last complete backup: when it was taken, and its digest."""

    at: int
    sha256: str


async def remember_backup(store: Store, last: LastBackup) -> None:
    """Stores this backup as the last one."""
    await store.metadata.put(LAST_BACKUP, msgspec.to_builtins(last))


async def find_last_backup(store: Store) -> LastBackup | None:
    """The last backup of this store; None, if it has never been backed up."""
    entry = await store.metadata.get(LAST_BACKUP)
    return None if entry is None else msgspec.convert(entry.value, LastBackup)
