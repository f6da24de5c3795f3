"""Entries in NATS: what anybody writes is listed, what two change at once is both there, and garbage harms nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import nats
import pytest

from holdfast.errors import InvalidPayload
from holdfast.model.agent_registry import ENTRY_BYTES_MAX, EntryChanges
from holdfast.model.time import DAY, SECOND
from holdfast.registry import nats as place_module
from holdfast.registry.bucket import BUCKET, key_of, token_of
from holdfast.registry.registry import Registry
from holdfast.store.clock import SystemClock, VirtualClock
from tests.api.registry.worlds import entry, guids, linked, stranger, until, written
from tests.support.servers import NatsServer

LISTED_WITHIN_S = 2.0


async def test_an_entry_of_anybody_is_listed_within_two_seconds_and_vanishes_when_removed(
    server: NatsServer,
) -> None:
    async with linked(server.url) as link, stranger(server.url) as bucket:
        for operation in (bucket.delete, bucket.purge):
            await bucket.put("them", written("them", capabilities=["review"]))
            await until(lambda: _lists(link, {"them"}), LISTED_WITHIN_S)
            (seen,) = await link.place.list()
            assert (seen.entry.handle, seen.entry.capabilities) == ("@them", ("review",))
            assert abs(seen.heard_at - SystemClock().wall_us()) < 5 * SECOND, "the server says when"
            await operation("them")
            await until(lambda: _lists(link, set()), LISTED_WITHIN_S)
            assert await link.place.get("them") is None


async def test_what_is_put_is_what_is_read_and_only_over_what_was_read(server: NatsServer) -> None:
    async with linked(server.url) as link:
        place = link.place
        first = await place.put(entry("a"), over=0)
        assert first is not None
        assert await guids(link) == {"a"}, "what one writes one reads"
        assert await place.put(entry("a", handle="other"), over=0) is None
        second = await place.put(entry("a", handle="second"), over=first.revision)
        assert second is not None
        assert await place.put(entry("a", handle="late"), over=first.revision) is None
        assert not await place.remove("a", over=first.revision)
        found = await place.get("a")
        assert found is not None
        assert (found.entry, found.revision) == (second.entry, second.revision)
        assert abs(found.heard_at - second.heard_at) < 5 * SECOND
        assert await place.remove("a", over=second.revision)
        assert await place.get("a") is None
        assert await guids(link) == set()
        assert not await place.remove("a", over=second.revision)
        again = await place.put(entry("a"), over=0)
        assert again is not None, "a marker of a removal holds no place"
        assert again.revision > second.revision


async def test_fields_that_we_do_not_know_stay(server: NatsServer) -> None:
    clock = SystemClock()
    async with linked(server.url) as link, linked(server.url) as other, stranger(server.url) as bucket:
        await bucket.put("them", written("them", mood="fine", nested={"deep": [1, 2]}))
        await Registry(link.place, clock.wall_us).beat("them")
        # One that has read nothing before keeps them as well.
        found = await other.place.get("them")
        assert found is not None
        other.place._known.replace([])
        assert await other.place.put(found.entry, over=found.revision) is not None
        kept = json.loads((await bucket.get("them")).value or b"")
        assert (kept["mood"], kept["nested"]) == ("fine", {"deep": [1, 2]})
        assert kept["lastHeartbeat"]


async def test_beats_and_updates_of_two_processes_are_all_there(server: NatsServer) -> None:
    """200 heartbeats from one connection against 200 updates from another: no field goes back, none is lost."""
    clock = SystemClock()
    async with linked(server.url) as one, linked(server.url) as two, stranger(server.url) as bucket:
        beating, updating = (Registry(link.place, clock.wall_us) for link in (one, two))
        await beating.register(entry("a", metadata={"n": -1}))

        async def beats() -> None:
            for n in range(200):
                await beating.beat("a", tasks=n)

        async def updates() -> None:
            for n in range(200):
                await updating.update("a", EntryChanges(metadata={"n": n}))

        before = (await beating.get("a")).revision
        await asyncio.gather(beats(), updates())
        found = await updating.get("a")
        assert (found.entry.current_task_count, found.entry.metadata) == (199, {"n": 199})
        assert found.revision == before + 400, "each of them was written, over what it had read"
        assert (await bucket.get("a")).revision == found.revision


async def test_nobody_loses_for_ever_however_many_write_at_once(server: NatsServer) -> None:
    """Eight connections in step: whoever lost waits longer than whoever won, so each gets its turn."""
    clock = SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        links = [await stack.enter_async_context(linked(server.url)) for _ in range(8)]
        registries = [Registry(link.place, clock.wall_us) for link in links]
        before = (await registries[0].register(entry("a"))).revision

        async def beats(registry: Registry) -> None:
            for _ in range(25):
                await registry.beat("a")

        await asyncio.gather(*(beats(registry) for registry in registries))
        assert (await registries[0].get("a")).revision == before + 8 * 25


async def test_a_bucket_made_anew_is_another_one_though_it_looks_the_same(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "LOOK_US", SECOND // 5)
    async with linked(server.url) as link, await _client(server.url) as client:
        js = client.jetstream()
        await js.publish(f"$KV.{BUCKET}.a", written("a"))
        await until(lambda: _lists(link, {"a"}))
        await js.delete_key_value(BUCKET)
        bucket = await js.create_key_value(bucket=BUCKET)
        await bucket.put("b", written("b"))
        await until(lambda: _lists(link, {"b"}), 5)
        assert await link.place.get("a") is None


async def test_a_guid_that_cannot_be_a_key_is_kept_all_the_same(server: NatsServer) -> None:
    async with linked(server.url) as link, linked(server.url) as other:
        names = ["with space", "ümlaut", "a*b", "dots..dots", ".x", "x.", ">", "=b64", "a.b", "plain"]
        for guid in names:
            assert await link.place.put(entry(guid), over=0) is not None
        await until(lambda: _lists(other, set(names)))
        for guid in names:
            found = await other.place.get(guid)
            assert found is not None
            assert await other.place.remove(guid, over=found.revision)
    assert len({key_of(guid) for guid in names}) == len(names)
    assert (key_of("a.b"), key_of("plain")) == ("a.b", "plain")
    assert len({token_of(guid) for guid in names}) == len(names)


def _hostile() -> dict[str, bytes]:
    """Key → what lies there."""
    good: dict[str, Any] = {"guid": "g", "handle": "h", "agentType": "t"}

    def but(**more: Any) -> bytes:
        return json.dumps({**good, **more}).encode()

    kinds = [
        b"",
        b" ",
        b"garbage",
        b"\xff\xfe\x00",
        b"null",
        b"7",
        b'"text"',
        b"[]",
        b"{}",
        b"[" * 15_000,
        b'{"a":' * 3_000,
        json.dumps(good).encode()[:-3],
        b'{"guid":"g","guid":"g","handle":"h","agentType":"t"}',
        b'{"guid":"g","handle":"h","agentType":"t","n":NaN}',
        but(guid=7),
        but(guid="somebody-else"),
        but(guid=""),
        but(handle=None),
        but(handle="x" * 300),
        but(handle="a\x00b"),
        but(agentType=["t"]),
        but(capabilities="review"),
        but(capabilities=[1]),
        but(capabilities=[f"c{n}" for n in range(101)]),
        but(capabilities=["a", "a"]),
        but(maxConcurrentTasks=0),
        but(maxConcurrentTasks=10**30),
        but(currentTaskCount=-1),
        but(currentTaskCount=1.5),
        but(heartbeatIntervalMs=1),
        but(lastHeartbeat="yesterday"),
        but(lastHeartbeat="9999-99-99T00:00:00Z"),
        but(visibility="everyone"),
        but(status="sleeping"),
        but(metadata=[1]),
        but(metadata={"big": "x" * ENTRY_BYTES_MAX}),
        but(handle="\ud800"),
    ]
    return {f"k{nth}": data.replace(b'"g"', f'"k{nth}"'.encode()) for nth, data in enumerate(kinds)}


async def test_hostile_entries_are_passed_over_and_counted(server: NatsServer) -> None:
    """Whatever lies in the bucket, a listing has the good ones; and a bad one keeps nobody from its place."""
    hostile = _hostile()
    assert len(hostile) >= 30
    async with await nats.connect(server.url) as client:
        bucket = await client.jetstream().create_key_value(bucket=BUCKET)  # by somebody who sets no limits
        for key, data in hostile.items():
            await bucket.put(key, data)
        await bucket.put("good", written("good"))
        async with linked(server.url) as link:
            assert await guids(link) == {"good"}
            assert link.place.health().ignored == len(hostile)
            for key in hostile:
                assert await link.place.get(key) is None
            # While it is followed, too, and with headers that nobody expects.
            js = client.jetstream()
            await js.publish(f"$KV.{BUCKET}.odd", b"x", headers={"KV-Operation": "DANCE"})
            await js.publish(f"$KV.{BUCKET}.marked", b"x", headers={"Nats-Marker-Reason": "Whim"})
            await js.publish(f"$KV.{BUCKET}.deep.er", written("deep"))
            await bucket.put("k0", b"still garbage")
            await bucket.put("good2", written("good2"))
            await until(lambda: _lists(link, {"good", "good2"}), LISTED_WITHIN_S)
            assert link.place.health().ignored >= len(hostile) + 2
            for nth in range(3):
                assert await link.place.put(entry(f"k{nth}"), over=0) is not None
            await bucket.put("k3", written("k3"))
            await until(lambda: _lists(link, {"good", "good2", "k0", "k1", "k2", "k3"}), LISTED_WITHIN_S)


async def test_an_entry_that_is_too_large_is_not_written(server: NatsServer) -> None:
    async with linked(server.url) as link:
        with pytest.raises(InvalidPayload, match="bytes"):
            await link.place.put(entry("a", metadata={"big": "x" * ENTRY_BYTES_MAX}), over=0)
        assert await guids(link) == set()


async def test_entries_beyond_all_measure_are_passed_over(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.registry.bucket_cache.BYTES_MAX", 3 * len(written("e0")))
    async with linked(server.url) as link, stranger(server.url) as bucket:
        for nth in range(5):
            await bucket.put(f"e{nth}", written(f"e{nth}"))
        await until(lambda: link.place.health().ignored == 2)
        assert len(await link.place.list()) == 3
        await bucket.delete("e0")
        await bucket.put("e4", written("e4"))
        await until(lambda: _lists(link, {"e1", "e2", "e4"}))


async def test_what_comes_without_a_word_is_noticed(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher's consumer, messages and at last the whole bucket are deleted behind its back."""
    monkeypatch.setattr(place_module, "LOOK_US", SECOND // 5)
    async with linked(server.url) as link, await _client(server.url) as client:
        js = client.jetstream()
        stream = f"KV_{BUCKET}"
        for guid in ("a", "b"):
            await js.publish(f"$KV.{BUCKET}.{guid}", written(guid))
        await until(lambda: _lists(link, {"a", "b"}), LISTED_WITHIN_S)

        for consumer in await js.consumers_info(stream):
            await js.delete_consumer(stream, consumer.name)
        await js.publish(f"$KV.{BUCKET}.c", written("c"))
        await until(lambda: _lists(link, {"a", "b", "c"}), 10)

        await js.purge_stream(stream, subject=f"$KV.{BUCKET}.a")
        await until(lambda: _lists(link, {"b", "c"}), 10)

        ours = await link.place.put(entry("ours"), over=0)
        assert ours is not None
        await js.delete_stream(stream)
        await until(lambda: _lists(link, {"ours"}), 10)
        found = await link.place.get("ours")
        assert found is not None, "it is in the bucket that was made again, and not here alone"
        assert link.well


async def test_watchers_leave_nothing_behind(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place_module, "RELIST_US", SECOND // 10)
    monkeypatch.setattr("holdfast.registry.bucket.WATCH_IDLE_S", 1.0)
    async with linked(server.url) as link, await _client(server.url) as client:
        js = client.jetstream()
        listed = link.place._known
        first = listed._told
        await until(lambda: listed._told is not first)
        second = listed._told
        await until(lambda: listed._told is not second)
        monkeypatch.setattr(place_module, "RELIST_US", 60 * SECOND)

        async def one() -> bool:
            return len(await js.consumers_info(f"KV_{BUCKET}")) == 1

        await until(one)
        assert link.well, "and the one that is left is followed"


async def test_markers_of_what_was_removed_long_ago_are_swept(server: NatsServer) -> None:
    clock = VirtualClock(SystemClock().wall_us())
    async with linked(server.url) as link:
        for guid in ("a", "b"):
            seen = await link.place.put(entry(guid), over=0)
            assert seen is not None
        assert await link.place.remove("a", over=1)
    async with await _client(server.url) as client:
        js = client.jetstream()
        async with linked(server.url, clock):
            assert (await js.stream_info(f"KV_{BUCKET}")).state.messages == 2
        clock.advance(2 * DAY)
        async with linked(server.url, clock) as link:
            await until(lambda: link.place._known.keys == 1)
            assert (await js.stream_info(f"KV_{BUCKET}")).state.messages == 1
            assert await guids(link) == {"b"}


async def test_a_bucket_that_keeps_more_than_the_last_is_read_as_well(server: NatsServer) -> None:
    async with await _client(server.url) as client:
        bucket = await client.jetstream().create_key_value(bucket=BUCKET, history=5)
        for nth in range(3):
            await bucket.put("a", written("a", handle=f"h{nth}"))
        async with linked(server.url) as link:
            (seen,) = await link.place.list()
            assert seen.entry.handle == "h2"
            assert link.place._known.keys == 1


async def _lists(link: Any, expected: set[str]) -> bool:
    return await guids(link) == expected


async def _client(url: str) -> Any:
    return await nats.connect(url)
