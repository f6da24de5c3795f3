"""Registry entries in a NATS bucket, with a local cache that answers listings.

    list the bucket ──▶ follow it ──▶ list it again …

It is listed again after each reconnect, every half minute, and whenever its state does not match what was followed:
another bucket, a later revision than the last one received, more keys or fewer. So a watcher that went silent is
noticed within seconds. Work does not depend on the bucket: it only says which agents are there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError

from holdfast.model.agent_registry import FORGOTTEN_US, AgentEntry, RegistryHealth, StoredEntry, write_entry
from holdfast.model.retry import Backoff
from holdfast.model.time import MILLISECOND, SECOND
from holdfast.registry.bucket import BUCKET, Bucket, BucketState, BucketWatch, Revision, key_of
from holdfast.registry.bucket_cache import BucketCache
from holdfast.registry.connection import NatsConnection
from holdfast.store.clock import Clock, pause

SOURCE: Final = "nats"
LISTING_S: Final = 10.0
LOOK_US: Final = 1 * SECOND
RELIST_US: Final = 30 * SECOND
DOUBTS: Final = 2
DOUBTS_MAX: Final = 30
SWEPT_AT_ONCE: Final = 100
AGAIN: Final = Backoff(base_us=2 * MILLISECOND, cap_us=50 * MILLISECOND)
LOSERS_MAX: Final = 1_000

log = logging.getLogger("holdfast.nats")


class NatsEntries:
    """A backend for registry entries (`registry.port.EntryStore`). Create it before the connection is started."""

    def __init__(self, connection: NatsConnection, clock: Clock, *, bucket: str = BUCKET) -> None:
        self._connection = connection
        self._clock = clock
        self._bucket = bucket
        self._known = BucketCache(clock.wall_us)
        self._followed = False
        self._true_at = clock.wall_us()
        self._watched = 0
        self._doubts_allowed = DOUBTS
        self._lost: dict[str, int] = {}
        connection.attend("registry", self._attend)

    async def get(self, guid: str) -> StoredEntry | None:
        async with self._connection.asking() as client:
            found = await Bucket(client, self._bucket).get(key_of(guid))
        return None if found is None else self._known.learn(found)

    async def put(self, entry: AgentEntry, *, over: int) -> StoredEntry | None:
        key = key_of(entry.guid)
        async with self._connection.asking() as client:
            revision = await self._write(Bucket(client, self._bucket), key, entry, over)
        if revision is None:
            await self._give_way(key)
            return None
        self._lost.pop(key, None)
        return self._known.put(revision)

    async def remove(self, guid: str, *, over: int) -> bool:
        key = key_of(guid)
        async with self._connection.asking() as client:
            number = await Bucket(client, self._bucket).remove(key, over)
        if number is not None:
            self._known.learn(self._revision(key, number, None))
        return number is not None

    async def list(self) -> Sequence[StoredEntry]:
        return self._known.entries()

    @property
    def current(self) -> bool:
        """Whether the listing is current."""
        return self._connection.connected and self._followed

    def health(self) -> RegistryHealth:
        return RegistryHealth(
            source=SOURCE,
            connected=self.current,
            stale_since=None if self.current else self._true_at,
            ignored=self._known.ignored,
        )

    async def close(self) -> None:
        """Does nothing: the owner of the connection closes it."""

    async def _give_way(self, key: str) -> None:
        """Wait a little after a lost race, and longer each time. Of two writers in lockstep the same one would lose
        every time otherwise."""
        if len(self._lost) >= LOSERS_MAX:
            self._lost.clear()
        times = self._lost[key] = self._lost.get(key, 0) + 1
        await pause(self._connection.wait_s(AGAIN, times))

    # ── one entry ─────────────────────────────────────────────────────────────────────────────────

    async def _write(self, bucket: Bucket, key: str, entry: AgentEntry, over: int) -> Revision | None:
        before = b"" if over == 0 else await self._bytes_of(bucket, key, over)
        if before is None:
            return None
        data = write_entry(entry, before)
        number = await _put(bucket, key, data, over)
        if number is None and over == 0 and (last := await self._nothing_at(bucket, key)) is not None:
            number = await bucket.put(key, data, last)
        return None if number is None else self._revision(key, number, data)

    def _revision(self, key: str, number: int, data: bytes | None) -> Revision:
        """The revision that was just written."""
        return Revision(key=key, number=number, data=data, written_at=self._clock.wall_us())

    async def _bytes_of(self, bucket: Bucket, key: str, number: int) -> bytes | None:
        """The bytes of this revision, whose unknown fields are preserved; None if it is no longer the last one."""
        if (known := self._known.data(key, number)) is not None:
            return known
        found = await bucket.get(key)
        return found.data if found is not None and found.number == number else None

    async def _nothing_at(self, bucket: Bucket, key: str) -> int | None:
        """The revision under this key, if it is a removal marker or invalid: a new entry may replace it."""
        found = await bucket.get(key)
        if found is None or self._known.learn(found) is not None:
            return None
        return found.number

    # ── all of them ───────────────────────────────────────────────────────────────────────────────

    async def _attend(self, client: Client) -> None:
        bucket = Bucket(client, self._bucket)
        watch: BucketWatch | None = None
        try:
            while True:
                state, next_watch = await self._list(bucket)
                if watch is not None:
                    await watch.stop()
                watch = next_watch
                await self._rebuild(bucket)
                self._followed, self._true_at = True, self._clock.wall_us()
                self._connection.clear_trouble("registry")
                await self._sweep(bucket)
                await self._follow(bucket, watch, state)
        finally:
            self._followed = False
            if watch is not None and not client.is_closed:
                await watch.stop()

    async def _list(self, bucket: Bucket) -> tuple[BucketState, BucketWatch]:
        """List the bucket into the cache. Returns its state before the listing, and a watch of its changes."""
        state, made = await bucket.ready()
        if made:
            log.info("created the NATS bucket %s", self._bucket)
        self._known.begin()
        watch = await bucket.watch()
        listed: list[Revision] = []
        while (revision := await watch.next(LISTING_S)) is not None:
            listed.append(revision)
        self._known.replace(listed)
        self._watched = max([state.last, *(each.number for each in listed)])
        log.debug("the bucket %s has %d keys", self._bucket, self._known.keys)
        return state, watch

    async def _follow(self, bucket: Bucket, watch: BucketWatch, state: BucketState) -> None:
        """Apply each change to the cache; returns when it is time to list again."""
        now = self._clock.tick_us()
        relist_at, look_at, doubts = now + RELIST_US, now + LOOK_US, 0
        while (now := self._clock.tick_us()) < relist_at:
            try:
                revision = await watch.next(max(look_at - now, 1) / SECOND)
            except TimeoutError:
                revision = None
            if revision is not None:
                self._watched = max(self._watched, revision.number)
                self._known.learn(revision)
            if self._clock.tick_us() < look_at:
                continue
            found = await bucket.state()
            look_at = self._clock.tick_us() + LOOK_US
            if found is None or found.made != state.made:
                log.warning("the NATS bucket %s was replaced", self._bucket)
                return
            # A change may be in transit for a second. A complete cache has as many keys as the bucket.
            behind = self._watched < state.last
            differs = self._watched >= found.last and self._known.keys != found.keys
            state = found
            doubts = doubts + 1 if behind or differs else 0
            if doubts == 0:
                self._true_at = self._clock.wall_us()
            elif doubts >= self._doubts_allowed:
                self._doubts_allowed = min(2 * self._doubts_allowed, DOUBTS_MAX)
                log.warning("updates of the NATS bucket %s are incomplete: listing it", self._bucket)
                return
        self._doubts_allowed = DOUBTS if doubts == 0 else self._doubts_allowed

    async def _rebuild(self, bucket: Bucket) -> None:
        """Write again the entries of this process that disappeared without a removal."""
        missing = self._known.missing()
        for revision in missing:
            data = revision.data or b""
            number = await bucket.put(revision.key, data, 0)
            if number is not None:
                self._known.put(self._revision(revision.key, number, data))
        if missing:
            log.info("the NATS bucket %s had lost %d of our entries: restored", self._bucket, len(missing))

    async def _sweep(self, bucket: Bucket) -> None:
        """Purge old removal markers: otherwise the bucket would grow with every agent that ever registered."""
        for marker in self._known.markers(self._clock.wall_us() - FORGOTTEN_US)[:SWEPT_AT_ONCE]:
            await bucket.sweep(marker)
            self._known.forget(marker.key)


async def _put(bucket: Bucket, key: str, data: bytes, over: int) -> int | None:
    try:
        return await bucket.put(key, data, over)
    except NoStreamResponseError:  # the bucket was just deleted
        await bucket.ready()
        return await bucket.put(key, data, over)
