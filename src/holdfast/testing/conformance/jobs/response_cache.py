"""The response cache: responses are stored for a limited time."""

from __future__ import annotations

import hashlib

from holdfast.errors import InvalidPayload, NotFound, TooLarge
from holdfast.model.limits import BLOB_BYTES_MAX, DURATION_US_MAX
from holdfast.model.time import HOUR, MINUTE
from holdfast.store.ports.cache import CacheCounts
from holdfast.testing.conformance.harness import Bench, present


def key_of(question: str) -> bytes:
    return hashlib.sha256(question.encode()).digest()


async def an_answer_is_kept_for_its_time(bench: Bench) -> None:
    cache, key = bench.store.cache, key_of("why?")
    assert await cache.get(key) is None
    await cache.put(key, b"because \x00\xff", ttl_us=HOUR)
    found = present(await cache.get(key), "the answer")
    now = bench.clock.wall_us()
    assert (found.body, found.created_at, found.expires_at) == (b"because \x00\xff", now, now + HOUR)
    bench.clock.advance(HOUR - 1)
    assert await cache.get(key) is not None, "not a microsecond early"
    bench.clock.advance(1)
    assert await cache.get(key) is None


async def an_expired_answer_is_replaced(bench: Bench) -> None:
    cache, key = bench.store.cache, key_of("why?")
    await cache.put(key, b"old", ttl_us=MINUTE)
    bench.clock.advance(HOUR)
    await cache.put(key, b"new", ttl_us=MINUTE)
    assert present(await cache.get(key), "the new answer").body == b"new"
    await cache.put(key, b"newer", ttl_us=HOUR)
    bench.clock.advance(2 * MINUTE)
    assert present(await cache.get(key), "the newest, with its own time").body == b"newer"
    assert await cache.counts() == CacheCounts(entries=1, expired=0, body_bytes=5)


async def an_answer_can_be_taken_back(bench: Bench) -> None:
    cache, key = bench.store.cache, key_of("why?")
    await cache.put(key, b"wrong", ttl_us=HOUR)
    assert await cache.drop(key)
    assert await cache.get(key) is None
    assert not await cache.drop(key), "once is enough"


async def expired_answers_are_cleared_away(bench: Bench) -> None:
    cache = bench.store.cache
    for minutes in range(1, 6):
        await cache.put(key_of(str(minutes)), b"xx", ttl_us=minutes * MINUTE)
    bench.clock.advance(3 * MINUTE)
    assert await cache.counts() == CacheCounts(entries=5, expired=3, body_bytes=10)
    assert await cache.drop_expired(2) == 2
    assert await cache.drop_expired() == 1
    assert await cache.drop_expired() == 0
    assert await cache.counts() == CacheCounts(entries=2, expired=0, body_bytes=4)


async def namespaces_share_no_answers(bench: Bench) -> None:
    await bench.store.namespaces.create("other")
    cache, key = bench.store.cache, key_of("why?")
    await cache.put(key, b"here", ttl_us=HOUR)
    assert await cache.get(key, namespace="other") is None
    await cache.put(key, b"there", ttl_us=HOUR, namespace="other")
    assert present(await cache.get(key), "its own").body == b"here"
    assert await cache.drop(key, namespace="other")
    assert await cache.get(key) is not None


async def an_answer_that_cannot_be_kept_is_refused(bench: Bench) -> None:
    cache, key = bench.store.cache, key_of("why?")
    for short, body, ttl_us in ((b"short", b"", HOUR), (key, b"", 0), (key, b"", DURATION_US_MAX + 1)):
        async with bench.refuses(InvalidPayload):
            await cache.put(short, body, ttl_us=ttl_us)
    async with bench.refuses(TooLarge):
        await cache.put(key, bytes(BLOB_BYTES_MAX + 1), ttl_us=HOUR)
    async with bench.refuses(NotFound):
        await cache.put(key, b"", ttl_us=HOUR, namespace="nowhere")
    assert await cache.counts() == CacheCounts(0, 0, 0)


async def answers_survive_a_new_handle(bench: Bench) -> None:
    await bench.store.cache.put(key_of("why?"), b"because", ttl_us=HOUR)
    await bench.reopen()
    assert present(await bench.store.cache.get(key_of("why?")), "the answer").body == b"because"
