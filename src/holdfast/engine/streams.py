"""Streams: output of running code, gathered into passages, stored, and followed by clients.

Code emits a word at a time, and one commit per word would be a commit a millisecond. So the chunks of all jobs of the
process are gathered, for a thirtieth of a second or until there is a good page of them, and written together; while
one page is being written the next one fills.

    emit ──▶ buffer ──▶ one passage per job ──▶ the store
      └──▶ listeners in this process, at once

Emitting never waits for the store, and a slow store does not fill the memory. When a job has a mebibyte that is not
stored yet, `await hf.emit(…)` waits, and so does a plain function in its thread; code that does neither continues, and
beyond four mebibytes the oldest chunks that are not stored are dropped. The numbers go on counting, so readers learn
how much is missing.

Every passage is written under the fence of its run. After a takeover the store rejects it, and the job's stream is
closed: output of a worker that has lost its job reaches no reader.

A client follows a job from a cursor on, until the job has ended. It reads the store from the cursor on; then it waits
for a wake-up, or a second, and reads again. In the process that runs the job it also gets each chunk as it is emitted,
before it is stored: only if it is exactly the next one, so live and stored chunks make one sequence. A chunk that was
delivered live and lost in a crash is superseded like a stored one, when its call is made again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.engine.group_commit import AGAIN_S
from holdfast.errors import HoldfastError, Unavailable
from holdfast.model import canonical
from holdfast.model.limits import CHUNK_BYTES_MAX, UNSAID_BYTES_FULL, UNSAID_BYTES_MAX
from holdfast.model.redaction import redact
from holdfast.model.states import TERMINAL
from holdfast.model.streams import (
    AttemptSuperseded,
    Chunk,
    Cursor,
    StreamLine,
    parse_cursor,
    passage_of,
    select_chunks,
)
from holdfast.store.contract import Store
from holdfast.store.ports.leases import HeldLease
from holdfast.store.ports.streams import StreamAppend, Streams

GATHER_S: Final = 0.03
GATHER_BYTES: Final = 64 * 1024
HEARD_MAX: Final = 1000
LAST_TRIES: Final = 3
"""How often the end of a stream is sent to an unavailable store before it is dropped: the job's own end
matters more."""

_OVERHEAD: Final = 64
"""Approximate memory of a chunk besides its text."""

_STALL_S: Final = 0.1
log = logging.getLogger("holdfast.streams")


class _PendingChunk(msgspec.Struct, frozen=True):
    """A chunk that is not stored yet; without a stream, the announcement of an attempt."""

    number: int
    stream: str
    step_key: str
    attempt: int
    offset: int
    said: Any
    size: int


class Listener:
    """Receives the output of one job in this process, live. Chunks beyond its bound are dropped: the store has them."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.heard: deque[Chunk | AttemptSuperseded] = deque()
        self.changed = asyncio.Event()

    def receive(self, chunk: Chunk | AttemptSuperseded) -> None:
        if len(self.heard) >= HEARD_MAX:
            self.heard.clear()
        self.heard.append(chunk)
        self.changed.set()


class StreamWriter:
    """Writes the output streams of all jobs of a process. One for each store; it runs on one loop."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self.lock = threading.Lock()
        self._speaking: dict[JobStream, None] = {}
        self._listeners: dict[Listener, None] = {}
        self._poked = False
        self._timer: asyncio.TimerHandle | None = None
        self._going: asyncio.Task[None] | None = None

    def outlet(self, held: HeldLease, attempts: Mapping[str, int]) -> JobStream:
        """The stream that the holder of a job emits to. `attempts`: the last attempt of each step that has emitted
        before."""
        return JobStream(self, held, attempts)

    def listen(self, job_id: str) -> Listener:
        listener = Listener(job_id)
        self._listeners[listener] = None
        return listener

    def unlisten(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the thread of the loop."""
        return threading.get_ident() == self._thread

    def poke(self, outlet: JobStream) -> None:
        """A stream has new output. Call it with the lock."""
        self._speaking[outlet] = None
        if self._poked:
            return
        self._poked = True
        # In an empty context: what the loop does from here on is not the job's own code.
        schedule = self._loop.call_soon if self.is_here else self._loop.call_soon_threadsafe
        schedule(self._look, context=contextvars.Context())

    def _look(self) -> None:
        """Delivers new chunks to listeners; writes the page at once if it is full, and soon if it is not."""
        with self.lock:
            self._poked = False
            outlets = list(self._speaking)
            fresh = [(outlet, outlet.take_fresh()) for outlet in outlets]
            is_full = any(outlet.is_pressing for outlet in outlets)
        if self._listeners:
            for outlet, words in fresh:
                self._deliver(outlet.held, words)
        if is_full:
            self._go_now()
        else:
            self._go_in(GATHER_S)

    def _deliver(self, held: HeldLease, words: list[_PendingChunk]) -> None:
        for listener in self._listeners:
            if listener.job_id == held.job_id:
                for word in words:
                    listener.receive(_to_chunk(held.fence, word))

    def _go_in(self, seconds: float) -> None:
        if self._timer is None and self._going is None:
            self._timer = self._loop.call_later(seconds, self._go_now, context=contextvars.Context())

    def _go_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._going is None:
            self._going = self._loop.create_task(self._write_all(), name="holdfast-scribe")

    async def _write_all(self) -> None:
        """Writes to the store as long as there is a full page, or a run waits for the end of its stream."""
        wait_s = GATHER_S
        try:
            while passages := self._next():
                failures = await self._write_passages(passages)
                if failures:
                    wait_s = AGAIN_S[min(failures, len(AGAIN_S)) - 1]
                    break
                with self.lock:
                    if not any(outlet.is_pressing for outlet in self._speaking):
                        break
        finally:
            self._going = None
            with self.lock:
                more = bool(self._speaking)
            if more:
                self._go_in(wait_s)

    def _next(self) -> list[tuple[JobStream, StreamAppend]]:
        with self.lock:
            passages = [
                (outlet, passage)
                for outlet in list(self._speaking)
                if (passage := _take_passage(outlet)) is not None
            ]
            self._speaking = dict.fromkeys(outlet for outlet, _ in passages)
        return passages

    async def _write_passages(self, passages: list[tuple[JobStream, StreamAppend]]) -> int:
        """Writes the passages. Returns how often in a row the store was unavailable; 0: it has answered."""
        try:
            outcomes = await self._streams.append([passage for _, passage in passages])
        except Unavailable:
            with self.lock:
                return max(outlet.count_failure() for outlet, _ in passages)
        except Exception:
            # Nothing depends on a stream: the jobs continue without their output.
            log.exception("the output streams of jobs could not be stored; they end here")
            outcomes = [False] * len(passages)
        with self.lock:
            for (outlet, _), is_kept in zip(passages, outcomes, strict=True):
                outlet.settle(is_kept=is_kept)
                if not outlet.has_more:
                    self._speaking.pop(outlet, None)
        return 0

    def forget(self, outlet: JobStream) -> None:
        """Removes a stream: nothing more of it is written. Call it with the lock."""
        self._speaking.pop(outlet, None)


class JobStream:
    """Output of one run of one job. The writer's lock guards its state: plain functions emit from threads."""

    def __init__(self, scribe: StreamWriter, held: HeldLease, attempts: Mapping[str, int]) -> None:
        self.held = held
        self._scribe = scribe
        self._attempts = dict(attempts)
        self._number = 0
        self._size = 0
        self._unsaid: deque[_PendingChunk] = deque()
        self._fresh: list[_PendingChunk] = []
        self._sent: StreamAppend | None = None
        self._sent_size = 0
        self._failures = 0
        self._hurry = False
        self._closed = False
        self._less: threading.Condition | None = None
        self._waiters: list[asyncio.Future[None]] = []

    # ── emitting ──────────────────────────────────────────────────────────────────────────────────

    def voice(self, step_key: str) -> AttemptOutput:
        """The voice of a call that is about to be made. If an earlier attempt of the call has emitted, that attempt is
        superseded for readers, whether or not this one emits."""
        attempt = self._attempts.get(step_key, 0) + 1
        voice = AttemptOutput(self, step_key, attempt)
        if attempt > 1:
            with self._scribe.lock:
                self._add(voice, "", 0, None, _OVERHEAD)
        return voice

    def say(self, voice: AttemptOutput, stream: str, value: Any, size: int) -> None:
        with self._scribe.lock:
            if voice.is_over:
                return
            offset = voice.offsets.get(stream, 0)
            voice.offsets[stream] = offset + 1
            self._add(voice, stream, offset, value, size + _OVERHEAD)
            while not self._scribe.is_here and self._is_full:
                # A short wait each time, so that a cancelled thread notices.
                self._less = self._less or threading.Condition(self._scribe.lock)
                self._less.wait(_STALL_S)

    def _add(self, voice: AttemptOutput, stream: str, offset: int, value: Any, size: int) -> None:
        if self._closed:
            return
        self._attempts[voice.step_key] = voice.attempt
        self._number += 1
        word = _PendingChunk(self._number, stream, voice.step_key, voice.attempt, offset, value, size)
        self._unsaid.append(word)
        self._fresh.append(word)
        self._size += size
        if self._size > UNSAID_BYTES_MAX:
            self._let_go()
        if len(self._fresh) > HEARD_MAX:
            del self._fresh[:-HEARD_MAX]
        self._scribe.poke(self)

    def _let_go(self) -> None:
        """Drops the oldest chunks that are not stored, to make room. The notice that an attempt is superseded is never
        dropped."""
        notices: list[_PendingChunk] = []
        while self._size > UNSAID_BYTES_MAX and len(self._unsaid) > 1:
            word = self._unsaid.popleft()
            if word.stream:
                self._size -= word.size
            else:
                notices.append(word)
        self._unsaid.extendleft(reversed(notices))

    @property
    def _is_full(self) -> bool:
        return self._size > UNSAID_BYTES_FULL and not self._closed

    async def room(self) -> None:
        """Waits until there is not too much that is not stored yet."""
        while True:
            with self._scribe.lock:
                if not self._is_full:
                    return
                waiter = self._waits()
            await waiter

    async def flush(self) -> None:
        """Waits until all output is stored, or never will be."""
        while True:
            with self._scribe.lock:
                if self._closed or not self.has_more:
                    return
                self._hurry = True
                waiter = self._waits()
                self._scribe.poke(self)
            await waiter

    def _waits(self) -> asyncio.Future[None]:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def close(self) -> None:
        """Closes the stream: nothing more is accepted or written."""
        with self._scribe.lock:
            self._close()

    def _close(self) -> None:
        self._closed = True
        self._unsaid.clear()
        self._fresh.clear()
        self._sent, self._size, self._sent_size = None, 0, 0
        self._scribe.forget(self)
        self._wake()

    # ── writing: with the lock ────────────────────────────────────────────────────────────────────

    @property
    def has_more(self) -> bool:
        return bool(self._unsaid) or self._sent is not None

    @property
    def is_pressing(self) -> bool:
        """Whether there is a full page, or a run waits for the end of its stream."""
        return self._size - self._sent_size >= GATHER_BYTES or (self._hurry and self.has_more)

    def take_fresh(self) -> list[_PendingChunk]:
        fresh, self._fresh = self._fresh, []
        return fresh

    def take(self) -> StreamAppend | None:
        """The next passage: the one whose outcome is unknown, byte for byte, or a page of the buffer."""
        if self._sent is None and self._unsaid:
            words = [self._unsaid.popleft()]
            self._sent_size = words[0].size
            while self._follows(words[-1]) and self._sent_size < GATHER_BYTES:
                words.append(self._unsaid.popleft())
                self._sent_size += words[-1].size
            passage = passage_of(self.held.fence, words[-1].number, _group_lines(words))
            self._sent = StreamAppend(self.held, passage)
        return self._sent

    def _follows(self, word: _PendingChunk) -> bool:
        """Whether the next chunk directly follows this one; dropped chunks leave a gap."""
        return bool(self._unsaid) and self._unsaid[0].number == word.number + 1

    def settle(self, *, is_kept: bool) -> None:
        if not is_kept:
            self._close()
        elif not self._closed:
            self._size -= self._sent_size
            self._sent, self._sent_size, self._failures = None, 0, 0
            self._wake()

    def count_failure(self) -> int:
        """Counts one more failed write to an unavailable store. Returns how many there were in a row."""
        self._failures += 1
        if self._hurry and self._failures >= LAST_TRIES:
            self._close()
        return self._failures

    def _wake(self) -> None:
        if self._less is not None:
            self._less.notify_all()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _take_passage(outlet: JobStream) -> StreamAppend | None:
    """The stream's next passage. A stream that cannot encode it is closed, and does not affect the others."""
    try:
        return outlet.take()
    except HoldfastError:
        log.exception("the output stream of job %s could not be encoded; it ends here", outlet.held.job_id)
        outlet.settle(is_kept=False)
        return None


def _group_lines(words: list[_PendingChunk]) -> list[StreamLine]:
    """Groups consecutive words of the same attempt on the same stream into one line."""
    lines: list[StreamLine] = []
    for word in words:
        last = lines[-1] if lines else None
        same = (
            last
            and word.stream
            and (last.stream, last.step_key, last.attempt) == (word.stream, word.step_key, word.attempt)
        )
        if last is not None and same:
            last.said.append(word.said)
        else:
            chunks = [word.said] if word.stream else []
            lines.append(StreamLine(word.stream, word.step_key, word.attempt, word.offset, chunks))
    return lines


def _to_chunk(fence: int, word: _PendingChunk) -> Chunk | AttemptSuperseded:
    cursor = str(Cursor(fence, word.number))
    if not word.stream:
        return AttemptSuperseded(word.step_key, word.attempt, cursor)
    return Chunk(word.stream, word.step_key, word.attempt, word.offset, word.said, cursor)


class AttemptOutput(msgspec.Struct, eq=False):
    """Voice: the output of one attempt of one call. A struct: one is made for every call, and few emit anything."""

    outlet: JobStream | None
    step_key: str
    attempt: int
    offsets: dict[str, int] = {}
    is_over: bool = False

    def say(self, value: Any, stream: str) -> Room:
        """Emits the value. Await the result to wait while the store is behind."""
        if self.outlet is not None:
            if isinstance(value, str) and len(value) <= CHUNK_BYTES_MAX // 8:
                value = redact(value)  # listeners get what will be stored
                size = len(value)
            else:  # a copy: its author may change the value afterwards
                data = canonical.encode(value, bytes_max=CHUNK_BYTES_MAX)
                value, size = canonical.decode_stored(data), len(data)
            self.outlet.say(self, stream, value, size)
        return Room(self.outlet)


class Room:
    """Awaited, it waits until there is room for more output."""

    __slots__ = ("_outlet",)

    def __init__(self, outlet: JobStream | None = None) -> None:
        self._outlet = outlet

    def __await__(self) -> Generator[Any, None, None]:
        if self._outlet is not None:
            yield from self._outlet.room().__await__()


VOICE: Final[contextvars.ContextVar[AttemptOutput | None]] = contextvars.ContextVar(
    "holdfast_voice", default=None
)
"""The voice of the call that runs here; None outside of calls."""


POLL_S: Final = 1.0
PAGE: Final = 100

Heard = Chunk | AttemptSuperseded


async def watch(
    store: Store,
    job_id: str,
    *,
    after: str | None = None,
    stream: str | None = None,
    scribe: StreamWriter | None = None,
) -> AsyncGenerator[Heard, None]:
    """Yields the job's output after the cursor, of this stream or of all; ends when the job has ended."""
    listener = Listener(job_id) if scribe is None else scribe.listen(job_id)
    watcher = _Watcher(store, listener, parse_cursor(after))
    try:
        while True:
            # Checked before the read: the output of a job that has ended is stored by then.
            is_over = (await store.jobs.head(job_id)).status in TERMINAL
            async for chunk in watcher.stored():
                if _is_wanted(chunk, stream):
                    yield chunk
            if is_over:
                return
            while True:
                for chunk in watcher.live():
                    if _is_wanted(chunk, stream):
                        yield chunk
                if watcher.must_read or not await watcher.wait_for_more():
                    break
    finally:
        if scribe is not None:
            scribe.unlisten(listener)


def _is_wanted(chunk: Heard, stream: str | None) -> bool:
    return stream is None or isinstance(chunk, AttemptSuperseded) or chunk.stream == stream


class _Watcher:
    def __init__(self, store: Store, listener: Listener, cursor: Cursor) -> None:
        self._store = store
        self._listener = listener
        self._cursor = cursor
        self._read_for: Cursor | None = None
        self.must_read = False
        """A live chunk does not follow the cursor: the store may have the chunks between."""

    async def stored(self) -> AsyncGenerator[Heard, None]:
        self.must_read = False
        while True:
            passages = await self._store.streams.read(self._listener.job_id, after=self._cursor, limit=PAGE)
            for passage in passages:
                for chunk in select_chunks(passage, self._cursor):
                    self._cursor = parse_cursor(chunk.cursor)
                    yield chunk
            if len(passages) < PAGE:
                return

    def live(self) -> Iterator[Heard]:
        """Live chunks, as long as each is exactly the next one."""
        waiting = self._listener.heard
        while waiting:
            place = parse_cursor(waiting[0].cursor)
            if place <= self._cursor:
                waiting.popleft()
            elif self._is_next(place):
                self._cursor = place
                yield waiting.popleft()
            elif place == self._read_for:
                waiting.clear()  # the store has it once it has the chunks before
            else:
                self._read_for, self.must_read = place, True
                return

    def _is_next(self, place: Cursor) -> bool:
        """Whether the chunk follows the cursor. The first chunk of a holder does when the store has been read since:
        all output of earlier holders was stored by then."""
        if place.fence == self._cursor.fence:
            return place.number == self._cursor.number + 1
        return place.number == 1 and place == self._read_for

    async def wait_for_more(self) -> bool:
        """Waits. True: a live chunk has come. False: it is time to read the store."""
        listener = self._listener
        job_id = listener.job_id
        topics = frozenset({f"stream:{job_id}", f"job:{job_id}"})
        woken = asyncio.ensure_future(self._store.wakeups.wait(topics, POLL_S))
        heard = asyncio.ensure_future(listener.changed.wait())
        try:
            await asyncio.wait([woken, heard], return_when=asyncio.FIRST_COMPLETED)
            return not woken.done()
        finally:
            listener.changed.clear()
            woken.cancel()
            heard.cancel()
