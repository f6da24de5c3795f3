"""What running code says: gathered, fenced, taken back when a call is made again, read from a cursor on."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Any

import msgspec
import pytest

from holdfast.agents.threads import in_thread
from holdfast.engine import streams
from holdfast.engine.durable_call import READS, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.streams import VOICE, JobStream, Room, StreamWriter, watch
from holdfast.errors import InvalidPayload, NotFound, StoreUnavailable
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft
from holdfast.model.limits import UNSAID_BYTES_FULL, UNSAID_BYTES_MAX
from holdfast.model.streams import START, AttemptSuperseded, Chunk, Cursor, Passage, select_chunks
from holdfast.model.time import MINUTE, SECOND
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store
from holdfast.store.memory.store import MemoryStore
from holdfast.store.ports.leases import ClaimRequest, HeldLease
from holdfast.store.ports.streams import StreamAppend
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)

Heard = Chunk | AttemptSuperseded


def say(said: Any, stream: str = "out") -> Room:
    voice = VOICE.get()
    assert voice is not None
    return voice.say(said, stream)


@contextmanager
def speaking(outlet: JobStream, step_key: str) -> Iterator[None]:
    """In the block the call of this step speaks, as when it is performed."""
    voice = outlet.voice(step_key)
    token = VOICE.set(voice)
    try:
        yield
    finally:
        voice.is_over = True
        VOICE.reset(token)


async def spoken(drive: Execution, name: str, speech: Callable[[], Awaitable[Any]]) -> Any:
    """A call whose code is this."""

    async def run(_key: str) -> Any:
        return await speech()

    return await drive.call(DurableCall(name, [], run, READS))


def desk_with(shop: Shop, scribe: StreamWriter) -> RunnerConfig:
    return msgspec.structs.replace(shop.desk(), scribe=scribe)


async def all_of(heard: AsyncIterator[Heard]) -> list[Heard]:
    return [one async for one in heard]


def page(heard: Sequence[Heard]) -> dict[str, list[Any]]:
    """What somebody has on the screen who does as the stream says."""
    shown: dict[str, list[Any]] = defaultdict(list)
    for one in heard:
        if isinstance(one, AttemptSuperseded):
            shown[one.step_key].clear()
        else:
            shown[one.step_key].append(one.said)
    return dict(shown)


class Counting:
    """Streams that count commits, and can be slow or away."""

    def __init__(self, store: Store) -> None:
        self.inner = store.streams
        self.commits = 0
        self.largest = 0
        self.open = asyncio.Event()
        self.open.set()
        self.away = 0
        self.refused = asyncio.Event()

    async def append(self, passages: Sequence[StreamAppend]) -> list[bool]:
        await self.open.wait()
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        self.commits += 1
        self.largest = max([self.largest, *(len(one.passage.body) for one in passages)])
        kept = await self.inner.append(passages)
        if False in kept:
            self.refused.set()
        return kept

    async def read(self, job_id: str, *, after: Cursor = START, limit: int = 100) -> list[Passage]:
        return await self.inner.read(job_id, after=after, limit=limit)

    async def attempts(self, job_id: str) -> dict[str, int]:
        return await self.inner.attempts(job_id)


async def outlet_of(
    store: MemoryStore, scribe: StreamWriter | None = None, attempts: dict[str, int] | None = None
) -> JobStream:
    """Where the holder of a job called `job` speaks."""
    await store.jobs.submit(JobDraft(kind="talk", job_id="job"))
    ask = ClaimRequest(worker="worker", token="token", queues=("default",), ttl_us=MINUTE)
    [grant] = await store.leases.claim(ask)
    held = HeldLease(grant.job_id, grant.fence, grant.lease_token)
    return (StreamWriter(store.streams) if scribe is None else scribe).outlet(held, attempts or {})


async def stored(store: MemoryStore) -> list[Heard]:
    """All that the job called `job` has said, as it is stored."""
    found: list[Heard] = []
    cursor = START
    for passage in await store.streams.read("job", limit=10_000):
        found += select_chunks(passage, cursor)
        cursor = Cursor(passage.fence, passage.last)
    return found


def said(heard: Sequence[Heard]) -> list[Any]:
    """The words; the number of the attempt, where one is announced."""
    return [one.said if isinstance(one, Chunk) else one.attempt for one in heard]


# ── saying and hearing ────────────────────────────────────────────────────────────────────────────


@on_every_store
async def test_a_reader_hears_everything_in_order_and_ends_with_the_job(backend: Backend) -> None:
    async with opened(backend) as shop:

        async def talk(drive: Execution, _: Any) -> str:
            async def speech() -> None:
                for word in ("a", "b", {"percent": 50}):
                    say(word)
                say("aside", "notes")
                say("c")

            await spoken(drive, "talk", speech)
            return "done"

        job_id = await shop.submit(talk)
        watching = asyncio.create_task(all_of(watch(shop.store, job_id)))
        await shop.drive_all()
        heard = await watching
        assert [one for one in heard if isinstance(one, AttemptSuperseded)] == []
        assert [(one.stream, one.offset, one.said) for one in heard if isinstance(one, Chunk)] == [
            ("out", 0, "a"),
            ("out", 1, "b"),
            ("out", 2, {"percent": 50}),
            ("notes", 0, "aside"),
            ("out", 3, "c"),
        ]
        assert {(one.step_key, one.attempt) for one in heard} == {("0/talk#1", 1)}
        assert said(await all_of(watch(shop.store, job_id, stream="notes"))) == ["aside"]


@on_every_store
async def test_a_cursor_goes_on_without_gaps_and_repeats(backend: Backend) -> None:
    """Stop reading after every single chunk, and go on from its cursor with a new reader."""
    async with opened(backend) as shop:
        words = [f"{n} " for n in range(40)]

        async def talk(drive: Execution, _: Any) -> None:
            async def speech() -> None:
                for word in words:
                    say(word)

            await spoken(drive, "talk", speech)

        job_id = await shop.submit(talk)
        await shop.drive_all()
        found: list[Heard] = []
        while True:
            async with aclosing(
                watch(shop.store, job_id, after=found[-1].cursor if found else None)
            ) as reader:
                one = await anext(reader, None)
            if one is None:
                break
            found.append(one)
        assert said(found) == words
        with pytest.raises(InvalidPayload):
            await anext(watch(shop.store, job_id, after="yesterday"))
        with pytest.raises(NotFound):
            await anext(watch(shop.store, "nobody"))


async def test_who_listens_in_the_process_hears_it_before_it_is_stored() -> None:
    """Hold the store's answer back: the chunk is heard, and the cursor it came with leads on."""
    store = MemoryStore(VirtualClock(), SequentialIds())
    shop = Shop(store, VirtualClock())
    counting = Counting(store)
    scribe = StreamWriter(counting)
    go_on = asyncio.Event()

    async def talk(drive: Execution, _: Any) -> None:
        async def speech() -> None:
            say("early")
            await go_on.wait()
            say("late")

        await spoken(drive, "talk", speech)

    job_id = await shop.submit(talk)
    counting.open.clear()
    run = asyncio.create_task((await shop.claim(desk=desk_with(shop, scribe))).go())
    reader = watch(store, job_id, scribe=scribe)
    first = await anext(reader)
    assert isinstance(first, Chunk)
    assert first.said == "early"
    assert await store.streams.read(job_id) == []
    counting.open.set()
    go_on.set()
    assert await run == "completed"
    rest = await all_of(reader)
    assert [one.said for one in rest if isinstance(one, Chunk)] == ["late"], "nothing twice"
    again = await all_of(watch(store, job_id, after=first.cursor))
    assert again == rest, "what was heard and what is stored have the same places"


async def test_what_is_heard_waits_for_what_was_said_before_it() -> None:
    """Begin to listen in the middle: what is heard comes behind what is still on its way to the store."""
    store = MemoryStore(VirtualClock(), SequentialIds())
    counting = Counting(store)
    counting.open.clear()
    scribe = StreamWriter(counting)
    outlet = await outlet_of(store, scribe)
    with speaking(outlet, "0/a#1"):
        say("a")
        early = scribe.listen("job")
        await early.changed.wait()  # whoever listened then has heard it
        async with aclosing(watch(store, "job", scribe=scribe)) as reader:
            first = asyncio.ensure_future(anext(reader))
            await asyncio.wait([first], timeout=0.05)
            say("b")
            await asyncio.wait([first], timeout=0.05)
            assert not first.done(), "nothing is told out of turn"
            counting.open.set()
            assert said([await first, await anext(reader)]) == ["a", "b"]


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────


@on_every_store
@pytest.mark.parametrize("second_speaks", [True, False])
async def test_a_worker_that_dies_in_mid_sentence_is_taken_back(
    backend: Backend, second_speaks: bool
) -> None:
    """Kill a worker between two chunks: what its step had said is taken back, what a finished step said stays."""
    async with opened(backend) as shop:
        counting = Counting(shop.store)
        lives = 0

        async def talk(drive: Execution, _: Any) -> str:
            async def plan() -> None:
                say("the plan")

            async def answer() -> None:
                nonlocal lives
                lives += 1
                if lives == 1:
                    say("half an ")
                    say("ans", "notes")
                    await asyncio.get_running_loop().create_future()
                if second_speaks:
                    say("a whole answer")

            await spoken(drive, "plan", plan)
            await spoken(drive, "answer", answer)
            return "done"

        job_id = await shop.submit(talk)
        first = await shop.claim(worker="first", ttl_us=SECOND, desk=desk_with(shop, StreamWriter(counting)))
        dying = asyncio.create_task(first.go())
        reader = watch(shop.store, job_id)
        seen = [await anext(reader) for _ in range(3)]
        dying.cancel()
        await asyncio.wait([dying])
        shop.clock.advance(2 * SECOND)
        assert await shop.drive_all(worker="second") == ["completed"]
        seen += await all_of(reader)
        answers = ["a whole answer"] if second_speaks else []
        assert page(seen) == {"0/plan#1": ["the plan"], "0/answer#1": answers}
        resets = [one for one in seen if isinstance(one, AttemptSuperseded)]
        assert [(one.step_key, one.attempt) for one in resets] == [("0/answer#1", 2)]
        assert await all_of(watch(shop.store, job_id, after=seen[2].cursor)) == seen[3:]
        assert page(await all_of(watch(shop.store, job_id))) == page(seen)


@on_every_store
async def test_a_zombie_is_not_heard(backend: Backend) -> None:
    """Let a worker be taken over while it speaks: what it says afterwards is refused, and its outlet ends."""
    async with opened(backend) as shop:
        wake, counting = asyncio.Event(), Counting(shop.store)

        async def talk(drive: Execution, who: str) -> None:
            async def speech() -> None:
                zombie = not wake.is_set()
                say("zombie: before" if zombie else "heir")
                if zombie:
                    await wake.wait()
                    for n in range(100):
                        say(f"zombie: after {n}")
                    await asyncio.get_running_loop().create_future()

            await spoken(drive, "talk", speech)

        job_id = await shop.submit(talk, "x")
        old = await shop.claim(worker="zombie", ttl_us=SECOND, desk=desk_with(shop, StreamWriter(counting)))
        zombie = asyncio.create_task(old.go())
        reader = watch(shop.store, job_id)
        seen = [await anext(reader)]
        shop.clock.advance(2 * SECOND)
        heir = await shop.claim(worker="heir")
        wake.set()
        await counting.refused.wait()
        assert await heir.go() == "completed"
        seen += await all_of(reader)
        zombie.cancel()
        await asyncio.wait([zombie])
        assert said(seen) == ["zombie: before", 2, "heir"]
        fences = [passage.fence for passage in await shop.store.streams.read(job_id)]
        assert fences == sorted(fences)


async def test_the_same_call_tried_again_in_one_run_takes_back_what_it_said() -> None:
    store = MemoryStore(VirtualClock(), SequentialIds())
    outlet = await outlet_of(store)
    for attempt in (1, 2, 3):
        with speaking(outlet, "0/a#1"):
            say(f"try {attempt}")
    with speaking(outlet, "0/b#1"):
        pass  # says nothing, and there is nothing to take back
    await outlet.flush()
    assert said(await stored(store)) == ["try 1", 2, "try 2", 3, "try 3"]


# ── gathering ─────────────────────────────────────────────────────────────────────────────────────


@on_every_store
async def test_a_hundred_thousand_words_are_few_commits_and_little_memory(backend: Backend) -> None:
    async with opened(backend) as shop:
        counting = Counting(shop.store)
        most = 0

        async def talk(drive: Execution, _: Any) -> None:
            async def speech() -> None:
                nonlocal most
                outlet = VOICE.get().outlet  # type: ignore[union-attr]
                for n in range(100_000):
                    await say(f"word {n} ")
                    most = max(most, outlet._size)  # type: ignore[union-attr]

            await spoken(drive, "talk", speech)

        job_id = await shop.submit(talk)
        run = await shop.claim(desk=desk_with(shop, StreamWriter(counting)))
        assert await run.go() == "completed"
        heard = await all_of(watch(shop.store, job_id))
        assert said(heard) == [f"word {n} " for n in range(100_000)]
        assert counting.commits <= 200, "not one for every word"
        assert most <= UNSAID_BYTES_FULL + streams.GATHER_BYTES
        assert counting.largest <= 4 * streams.GATHER_BYTES


async def test_words_that_come_one_by_one_are_gathered() -> None:
    """A word in every pass of the loop, as a model sends them: the store is asked once in a while."""
    store = MemoryStore(VirtualClock(), SequentialIds())
    counting = Counting(store)
    outlet = await outlet_of(store, StreamWriter(counting))
    loop = asyncio.get_running_loop()
    began = loop.time()
    with speaking(outlet, "0/a#1"):
        for n in range(5000):
            await say(str(n))
            await asyncio.sleep(0)
    await outlet.flush()
    assert said(await stored(store)) == [str(n) for n in range(5000)]
    pages = sum(len(str(n)) + streams._OVERHEAD for n in range(5000)) / streams.GATHER_BYTES
    assert counting.commits <= (loop.time() - began) / streams.GATHER_S + pages + 2


async def test_a_slow_store_does_not_slow_code_that_does_not_wait() -> None:
    """Never let the store answer, and talk far beyond every limit: what is kept is bounded, and readers are told."""
    store = MemoryStore(VirtualClock(), SequentialIds())
    counting = Counting(store)
    counting.open.clear()
    outlet = await outlet_of(store, StreamWriter(counting), attempts={"0/a#1": 1})
    word = "x" * 1000
    count = 3 * UNSAID_BYTES_MAX // len(word)
    with speaking(outlet, "0/a#1"):
        for _ in range(count):
            say(word)
        assert outlet._size <= UNSAID_BYTES_MAX
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await say("this one waits")
        counting.open.set()
        await outlet.flush()
    read = await stored(store)
    assert isinstance(read[0], AttemptSuperseded), "that is never let go"
    chunks = [one for one in read if isinstance(one, Chunk)]
    assert (chunks[-1].said, chunks[-1].offset) == ("this one waits", count)
    missing = sum(one.missing for one in chunks)
    assert missing > 0
    assert missing + len(chunks) == count + 1


async def test_a_plain_function_waits_in_its_thread_for_a_slow_store() -> None:
    store = MemoryStore(VirtualClock(), SequentialIds())
    counting = Counting(store)
    counting.open.clear()
    outlet = await outlet_of(store, StreamWriter(counting))
    word, count = "x" * 10_000, 3 * UNSAID_BYTES_FULL // 10_000
    full = threading.Event()
    most = 0

    def speech() -> None:
        nonlocal most
        for _ in range(count):
            if outlet._size + len(word) > UNSAID_BYTES_FULL:
                full.set()
            say(word)
            most = max(most, outlet._size)

    with speaking(outlet, "0/a#1"):
        talking = asyncio.create_task(in_thread(speech))
        await asyncio.to_thread(full.wait)
        assert not talking.done()
        counting.open.set()
        await talking
    assert most <= UNSAID_BYTES_FULL
    await outlet.flush()
    read = await stored(store)
    assert said(read) == [word] * count
    assert [one.offset for one in read if isinstance(one, Chunk)] == list(range(count))


async def test_a_store_that_is_away_for_a_while_loses_nothing() -> None:
    store = MemoryStore(VirtualClock(), SequentialIds())
    counting = Counting(store)
    counting.away = 2
    outlet = await outlet_of(store, StreamWriter(counting))
    with speaking(outlet, "0/a#1"):
        say("a")
    await outlet.flush()
    assert said(await stored(store)) == ["a"]


async def test_the_end_of_a_job_does_not_wait_for_ever_for_its_stream() -> None:
    store = MemoryStore(VirtualClock(), SequentialIds())
    counting = Counting(store)
    counting.away = 10_000
    outlet = await outlet_of(store, StreamWriter(counting))
    with speaking(outlet, "0/a#1"):
        say("a")
    async with asyncio.timeout(20):
        await outlet.flush()
    assert await stored(store) == []


async def test_what_is_left_of_a_call_that_is_over_is_not_heard() -> None:
    store = MemoryStore(VirtualClock(), SequentialIds())
    outlet = await outlet_of(store)
    with speaking(outlet, "0/a#1"):
        voice = VOICE.get()
        assert voice is not None
        changing = {"n": 1}
        voice.say(changing, "out")
        changing["n"] = 2
    voice.say("too late", "out")
    await outlet.flush()
    assert said(await stored(store)) == [{"n": 1}]
