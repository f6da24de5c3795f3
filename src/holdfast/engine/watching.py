"""Watching a job: what it says, from a cursor on, until it is over.

The store is read from the cursor on; then the reader waits for a hint, or a second, and reads again. In the process
that runs the job it also hears each chunk as it is said, before it is stored: taken only if it is the very next one, so
what is heard and what is read make one sequence. A chunk that was heard and lost in a crash is taken back like a stored
one, when its call is made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from holdfast.engine.streams import Listener, Scribe
from holdfast.model.states import TERMINAL
from holdfast.model.streams import AttemptSuperseded, Chunk, Cursor, heard, parse_cursor
from holdfast.store.contract import Store

POLL_S: Final = 1.0
PAGE: Final = 100

Heard = Chunk | AttemptSuperseded


async def watch(
    store: Store,
    job_id: str,
    *,
    after: str | None = None,
    stream: str | None = None,
    scribe: Scribe | None = None,
) -> AsyncGenerator[Heard, None]:
    """What the job says behind the cursor, on this stream or on all; ends when the job is over."""
    listener = Listener(job_id) if scribe is None else scribe.listen(job_id)
    watcher = _Watcher(store, listener, parse_cursor(after))
    try:
        while True:
            # Asked before it is read: what a job that is over has said is there.
            is_over = (await store.jobs.head(job_id)).status in TERMINAL
            async for one in watcher.stored():
                if _is_wanted(one, stream):
                    yield one
            if is_over:
                return
            while True:
                for one in watcher.live():
                    if _is_wanted(one, stream):
                        yield one
                if watcher.must_read or not await watcher.hears_more():
                    break
    finally:
        if scribe is not None:
            scribe.unlisten(listener)


def _is_wanted(one: Heard, stream: str | None) -> bool:
    return stream is None or isinstance(one, AttemptSuperseded) or one.stream == stream


class _Watcher:
    def __init__(self, store: Store, listener: Listener, cursor: Cursor) -> None:
        self._store = store
        self._listener = listener
        self._cursor = cursor
        self._read_for: Cursor | None = None
        self.must_read = False
        """Something was heard that does not follow what is known: the store may know what lies between."""

    async def stored(self) -> AsyncGenerator[Heard, None]:
        self.must_read = False
        while True:
            passages = await self._store.streams.read(self._listener.job_id, after=self._cursor, limit=PAGE)
            for passage in passages:
                for one in heard(passage, self._cursor):
                    self._cursor = parse_cursor(one.cursor)
                    yield one
            if len(passages) < PAGE:
                return

    def live(self) -> Iterator[Heard]:
        """What was heard, as far as each chunk is the very next one."""
        waiting = self._listener.heard
        while waiting:
            place = parse_cursor(waiting[0].cursor)
            if place <= self._cursor:
                waiting.popleft()
            elif self._is_next(place):
                self._cursor = place
                yield waiting.popleft()
            elif place == self._read_for:
                waiting.clear()  # the store will have it, once it has what comes before
            else:
                self._read_for, self.must_read = place, True
                return

    def _is_next(self, place: Cursor) -> bool:
        """The first word of a holder comes next when the store has been read since: whatever those before it have said
        was there by then."""
        if place.fence == self._cursor.fence:
            return place.number == self._cursor.number + 1
        return place.number == 1 and place == self._read_for

    async def hears_more(self) -> bool:
        """True: something was heard. False: it is time to read the store."""
        listener = self._listener
        job_id = listener.job_id
        topics = frozenset({f"stream:{job_id}", f"job:{job_id}"})
        hinted = asyncio.ensure_future(self._store.wakeups.wait(topics, POLL_S))
        told = asyncio.ensure_future(listener.changed.wait())
        try:
            await asyncio.wait([hinted, told], return_when=asyncio.FIRST_COMPLETED)
            return not hinted.done()
        finally:
            listener.changed.clear()
            hinted.cancel()
            told.cancel()
