"""When the store was backed up last, remembered in the store itself: whoever looks after it is told."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from holdfast.model.time import DAY
from holdfast.store.contract import Store

REMEMBERED_US: Final = 365 * DAY
_LAST: Final = hashlib.sha256(b"holdfast: the last backup").digest()


class LastBackup(msgspec.Struct, frozen=True):
    """A backup that is whole: when it was taken, and its digest."""

    at: int
    sha256: str


async def remember_backup(store: Store, last: LastBackup) -> None:
    """Whoever asks is told of this backup."""
    await store.cache.put(_LAST, msgspec.json.encode(last), ttl_us=REMEMBERED_US)


async def find_last_backup(store: Store) -> LastBackup | None:
    """The last backup of this store; None, if nobody made one within a year."""
    cached = await store.cache.get(_LAST)
    return None if cached is None else msgspec.json.decode(cached.body, type=LastBackup)
