"""Metadata of the store itself."""

from __future__ import annotations

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model.time import DAY
from holdfast.store.ports.cache import CacheCounts
from holdfast.store.ports.metadata import VALUE_BYTES_MAX, MetadataEntry
from holdfast.testing.conformance.harness import Bench


async def metadata_has_the_last_value_and_its_time(bench: Bench) -> None:
    metadata = bench.store.metadata
    assert await metadata.get("last_sweep") is None
    await metadata.put("last_sweep", {"by": "w1", "ü": [1, None, True]})
    now = bench.clock.wall_us()
    assert await metadata.get("last_sweep") == MetadataEntry({"by": "w1", "ü": [1, None, True]}, now)
    bench.clock.advance(400 * DAY)
    assert await metadata.get("last_sweep") is not None, "metadata does not expire"
    await metadata.put("last_sweep", None)
    assert await metadata.get("last_sweep") == MetadataEntry(None, bench.clock.wall_us())
    assert await metadata.get("last_backup") is None


async def metadata_is_no_part_of_the_cache(bench: Bench) -> None:
    await bench.store.metadata.put("last_sweep", 1)
    assert await bench.store.cache.counts() == CacheCounts(0, 0, 0)
    bench.clock.advance(400 * DAY)
    await bench.store.cache.drop_expired()
    assert await bench.store.metadata.get("last_sweep") is not None


async def metadata_that_cannot_be_stored_is_refused(bench: Bench) -> None:
    metadata = bench.store.metadata
    for key in ("", "Last", "a b", "a" * 65):
        async with bench.refuses(InvalidPayload):
            await metadata.put(key, 1)
    for value in (object(), float("nan")):
        async with bench.refuses(InvalidPayload):
            await metadata.put("key", value)
    async with bench.refuses(TooLarge):
        await metadata.put("key", "x" * VALUE_BYTES_MAX)
    assert await metadata.get("key") is None


async def metadata_survives_a_new_handle(bench: Bench) -> None:
    await bench.store.metadata.put("last_backup", {"at": 7})
    await bench.reopen()
    entry = await bench.store.metadata.get("last_backup")
    assert entry is not None
    assert entry.value == {"at": 7}
