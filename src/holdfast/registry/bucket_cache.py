"""What is known of a bucket: its entries as last heard, what was passed over, and what we have put there ourselves.

A bucket may come back empty. What others had put there is theirs to put again; what went through this process is put
again by it, if nobody has removed it and its agent is still expected to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model.agent_registry import AgentStatus, Seen, get_last_heartbeat, read_entry, status_of
from holdfast.model.limits import MIB
from holdfast.registry.bucket import Revision, key_of

BYTES_MAX: Final = 64 * MIB
"""Of all entries together; what goes beyond is passed over. Real ones are a few hundred bytes."""


class _Told(msgspec.Struct, frozen=True):
    revision: Revision
    seen: Seen | None


class Known:
    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._told: dict[str, _Told] = {}
        self._ours: dict[str, Revision] = {}
        self._meanwhile: list[Revision] | None = None
        self._bytes = 0

    @property
    def ignored(self) -> int:
        """How many entries say nothing sensible."""
        return sum(one.seen is None and one.revision.data is not None for one in self._told.values())

    @property
    def keys(self) -> int:
        return len(self._told)

    def entries(self) -> list[Seen]:
        return [one.seen for one in self._told.values() if one.seen is not None]

    def data(self, key: str, number: int) -> bytes | None:
        """The bytes of this very revision, if it is the one that is known."""
        one = self._told.get(key)
        return one.revision.data if one is not None and one.revision.number == number else None

    def learn(self, revision: Revision) -> Seen | None:
        """The revision is known, unless a later one is; what it says."""
        if self._meanwhile is not None:
            self._meanwhile.append(revision)
        before = self._told.get(revision.key)
        if before is not None and before.revision.number >= revision.number:
            return before.seen if before.revision.number == revision.number else self._read(revision)
        return self._keep(revision)

    def put(self, revision: Revision) -> Seen | None:
        """The same, of one that we have put there."""
        self._ours[revision.key] = revision
        return self.learn(revision)

    def begin(self) -> None:
        """Everything is about to be listed. What is learned from now on is not lost by it."""
        self._meanwhile = []

    def replace(self, listed: Iterable[Revision]) -> None:
        """This is all there is, with what was learned since `begin`."""
        meanwhile, self._meanwhile = self._meanwhile or [], None
        self._told, self._bytes = {}, 0
        for revision in (*listed, *meanwhile):
            self.learn(revision)

    def missing(self) -> list[Revision]:
        """What we had put there, what is not there any more, nobody has removed, and is still expected to be."""
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
        """Markers of what was removed before this time."""
        return [
            one.revision
            for one in self._told.values()
            if one.revision.data is None and (one.revision.written_at or before) < before
        ]

    def forget(self, key: str) -> None:
        self._told.pop(key, None)

    def _keep(self, revision: Revision) -> Seen | None:
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
            revision = msgspec.structs.replace(revision, data=b"")  # that there is something is enough
        self._bytes += len(revision.data or b"")
        self._told[revision.key] = _Told(revision, seen)
        return seen

    def _read(self, revision: Revision) -> Seen | None:
        """What it says, or None: nothing sensible, or of somebody else than its key."""
        if revision.data is None:
            return None
        try:
            entry = read_entry(revision.data)
            if key_of(entry.guid) != revision.key:
                return None
            heard = get_last_heartbeat(entry, revision.written_at, self._now_us())
        except (HoldfastError, ValueError, RecursionError):
            return None
        return Seen(entry=entry, revision=revision.number, heard_at=heard)
