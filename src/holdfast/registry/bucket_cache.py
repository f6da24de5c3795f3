"""Cache of a bucket: its entries as last received, the invalid ones, and the ones that this process wrote.

A bucket may be lost and come back empty. Each process writes its own entries again; this one does so for an entry that
was not removed and whose agent is not offline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.agent_registry import AgentStatus, StoredEntry, get_last_heartbeat, read_entry, status_of
from holdfast.model.limits import MIB
from holdfast.registry.bucket import Revision, key_of

BYTES_MAX: Final = 64 * MIB
"""Bytes of all entries together; entries beyond the limit are skipped. Real ones are a few hundred bytes."""


class _CachedEntry(msgspec.Struct, frozen=True):
    revision: Revision
    seen: StoredEntry | None


class BucketCache:
    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._told: dict[str, _CachedEntry] = {}
        self._ours: dict[str, Revision] = {}
        self._meanwhile: list[Revision] | None = None
        self._bytes = 0

    @property
    def ignored(self) -> int:
        """Number of invalid entries."""
        return sum(cached.seen is None and cached.revision.data is not None for cached in self._told.values())

    @property
    def keys(self) -> int:
        return len(self._told)

    def entries(self) -> list[StoredEntry]:
        return [cached.seen for cached in self._told.values() if cached.seen is not None]

    def data(self, key: str, number: int) -> bytes | None:
        """The bytes of this revision, if it is the cached one."""
        cached = self._told.get(key)
        return cached.revision.data if cached is not None and cached.revision.number == number else None

    def learn(self, revision: Revision) -> StoredEntry | None:
        """Cache the revision, unless a later one is cached; returns its entry."""
        if self._meanwhile is not None:
            self._meanwhile.append(revision)
        before = self._told.get(revision.key)
        if before is not None and before.revision.number >= revision.number:
            return before.seen if before.revision.number == revision.number else self._read(revision)
        return self._keep(revision)

    def put(self, revision: Revision) -> StoredEntry | None:
        """Cache a revision that this process wrote."""
        self._ours[revision.key] = revision
        return self.learn(revision)

    def begin(self) -> None:
        """Start a listing. Revisions that arrive during the listing are kept."""
        self._meanwhile = []

    def replace(self, listed: Iterable[Revision]) -> None:
        """Replace the cache by the listing and the revisions since `begin`."""
        meanwhile, self._meanwhile = self._meanwhile or [], None
        self._told, self._bytes = {}, 0
        for revision in (*listed, *meanwhile):
            self.learn(revision)

    def missing(self) -> list[Revision]:
        """Entries that this process wrote, that are gone without a removal, and whose agents are not offline."""
        found = []
        for key, revision in list(self._ours.items()):
            if key in self._told:
                continue
            seen, now = self._read(revision), self._now_us()
            if seen is not None and status_of(seen, now) is not AgentStatus.OFFLINE:
                found.append(revision)
            else:
                del self._ours[key]
        return found

    def markers(self, before: int) -> list[Revision]:
        """Markers of keys that were removed before this time."""
        return [
            cached.revision
            for cached in self._told.values()
            if cached.revision.data is None and (cached.revision.written_at or before) < before
        ]

    def forget(self, key: str) -> None:
        self._told.pop(key, None)

    def _keep(self, revision: Revision) -> StoredEntry | None:
        before = self._told.pop(revision.key, None)
        self._bytes -= 0 if before is None else len(before.revision.data or b"")
        if revision.data is None:
            self._ours.pop(revision.key, None)
        elif revision.key in self._ours:
            self._ours[revision.key] = revision
        seen = None
        if self._bytes + len(revision.data or b"") <= BYTES_MAX:
            seen = self._read(revision)
        if seen is None and revision.data is not None:
            revision = msgspec.structs.replace(revision, data=b"")  # its bytes are not needed
        self._bytes += len(revision.data or b"")
        self._told[revision.key] = _CachedEntry(revision, seen)
        return seen

    def _read(self, revision: Revision) -> StoredEntry | None:
        """Decode the entry; None if it is invalid, or if its guid does not match its key."""
        if revision.data is None:
            return None
        try:
            entry = read_entry(revision.data)
            if key_of(entry.guid) != revision.key:
                return None
            heard_at = get_last_heartbeat(entry, revision.written_at, self._now_us())
        except (HoldfastError, ValueError, RecursionError):
            return None
        return StoredEntry(entry=entry, revision=revision.number, heard_at=heard_at)
