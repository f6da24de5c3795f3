"""Streams: written by the holder, read from a cursor on, removed with the job."""

from __future__ import annotations

from holdfast.errors import InvalidPayload
from holdfast.model.retention import PruneMode, RetentionPolicy
from holdfast.model.streams import START, Cursor, Passage, StreamLine, passage_of
from holdfast.model.time import DAY, MINUTE
from holdfast.store.ports.leases import HeldLease
from holdfast.store.ports.streams import StreamAppend
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Bench

HINT_TIMEOUT_S = 20.0


def _make_stream_append(
    held: HeldLease, last: int, *chunks: str, step_key: str = "0/a#1", attempt: int = 1
) -> StreamAppend:
    line = StreamLine("out", step_key, attempt, last - len(chunks), list(chunks))
    return StreamAppend(held, passage_of(held.fence, last, [line]))


async def _read_cursors(bench: Bench, job_id: str, after: Cursor = START, limit: int = 100) -> list[Cursor]:
    passages = await bench.store.streams.read(job_id, after=after, limit=limit)
    return [Cursor(passage.fence, passage.last) for passage in passages]


async def what_a_holder_says_is_read_as_it_was_said(bench: Bench) -> None:
    driver, streams = await bench.drive_new(), bench.store.streams
    first, second = (
        _make_stream_append(driver.held, 3, "a", "\x00", "ü"),
        _make_stream_append(driver.held, 4, "d"),
    )
    assert await streams.append([first, second]) == [True, True]
    found = await streams.read(driver.job_id)
    assert [passage.at for passage in found] == [bench.clock.wall_us()] * 2
    assert [
        (passage.fence, passage.last, passage.chunks, passage.voices, passage.body) for passage in found
    ] == [
        (passage.fence, passage.last, passage.chunks, passage.voices, passage.body)
        for passage in (first.passage, second.passage)
    ]
    await bench.reopen()
    assert await bench.store.streams.read(driver.job_id) == found


async def a_reader_goes_on_behind_its_cursor(bench: Bench) -> None:
    driver, streams = await bench.drive_new(), bench.store.streams
    fence = driver.held.fence
    for last in (2, 4, 12):
        await streams.append([_make_stream_append(driver.held, last, *"ab")])
    assert await _read_cursors(bench, driver.job_id) == [
        Cursor(fence, 2),
        Cursor(fence, 4),
        Cursor(fence, 12),
    ]
    assert await _read_cursors(bench, driver.job_id, Cursor(fence, 3)) == [
        Cursor(fence, 4),
        Cursor(fence, 12),
    ], "a passage that only begins before the cursor is still given"
    assert await _read_cursors(bench, driver.job_id, Cursor(fence, 4), 1) == [Cursor(fence, 12)]
    assert await _read_cursors(bench, driver.job_id, Cursor(fence, 12)) == []
    assert await _read_cursors(bench, driver.job_id, Cursor(fence - 1, 99), 1) == [Cursor(fence, 2)]
    assert await _read_cursors(bench, "nobody") == []


async def a_passage_sent_again_is_there_once(bench: Bench) -> None:
    driver, streams = await bench.drive_new(), bench.store.streams
    passage = _make_stream_append(driver.held, 1, "a")
    assert await streams.append([passage]) == [True]
    assert await streams.append([passage, _make_stream_append(driver.held, 2, "b")]) == [True, True]
    assert len(await streams.read(driver.job_id)) == 2
    await driver.complete()
    assert await streams.append([passage]) == [True], "it was said in time; only the reply was lost"
    assert len(await streams.read(driver.job_id)) == 2


async def who_has_lost_the_job_is_not_heard(bench: Bench) -> None:
    old, streams = await bench.drive_new("first", ttl_us=MINUTE), bench.store.streams
    assert await streams.append([_make_stream_append(old.held, 1, "before")]) == [True]
    bench.clock.advance(2 * MINUTE)
    assert await streams.append([_make_stream_append(old.held, 2, "late, and nobody has taken over")]) == [
        True
    ]
    [grant] = [
        candidate
        for candidate in await bench.grants("second", queues=(old.grant.queue,))
        if candidate.takeover
    ]
    new = bench.driver(grant)
    bench_said = [_make_stream_append(old.held, 3, "zombie"), _make_stream_append(new.held, 1, "after")]
    assert await streams.append(bench_said) == [False, True], "one that is refused harms no other"
    fences = (old.held.fence, new.held.fence)
    assert await _read_cursors(bench, old.job_id) == [
        Cursor(fences[0], 1),
        Cursor(fences[0], 2),
        Cursor(fences[1], 1),
    ]


async def only_a_running_job_speaks(bench: Bench) -> None:
    driver, streams = await bench.drive_new(), bench.store.streams
    stranger = HeldLease(driver.job_id, driver.held.fence, "another token")
    nobody = HeldLease(driver.job_id, driver.held.fence, "")
    unknown = HeldLease("no such job", 1, "token")
    refused = [_make_stream_append(held, 1, "a") for held in (stranger, nobody, unknown)]
    assert await streams.append(refused) == [False, False, False]
    await driver.complete()
    assert await streams.append(
        [_make_stream_append(driver.held, 1, "after the end"), _make_stream_append(nobody, 1, "a")]
    ) == [
        False,
        False,
    ]
    assert await streams.read(driver.job_id) == []


async def what_cannot_be_a_passage_is_refused(bench: Bench) -> None:
    driver = await bench.drive_new()
    good = _make_stream_append(driver.held, 1, "a")
    held, passage = good.held, good.passage
    wrong = (
        StreamAppend(held, Passage(held.fence, 1, 0, passage.voices, passage.body)),
        StreamAppend(held, Passage(held.fence, 1, 2, passage.voices, passage.body)),
        StreamAppend(held, Passage(held.fence + 1, 1, 1, passage.voices, passage.body)),
    )
    for invalid in wrong:
        async with bench.refuses(InvalidPayload):
            await bench.store.streams.append([good, invalid])
    assert await bench.store.streams.read(driver.job_id) == []


async def the_last_attempt_of_each_step_is_known(bench: Bench) -> None:
    driver, streams = await bench.drive_new(), bench.store.streams
    assert await streams.attempts(driver.job_id) == {}
    for last, step_key, attempt in ((1, "0/b#1", 1), (2, "0/a#1", 1), (3, "0/b#1", 2), (4, "0/b#1", 10)):
        await streams.append(
            [_make_stream_append(driver.held, last, "a", step_key=step_key, attempt=attempt)]
        )
    assert await streams.attempts(driver.job_id) == {"0/a#1": 1, "0/b#1": 10}


async def whoever_watches_is_told(bench: Bench) -> None:
    driver, wakeups = await bench.drive_new(), bench.store.wakeups
    topic = frozenset({f"stream:{driver.job_id}"})
    await wakeups.wait(topic, 0.0)  # from now on no wake-up is missed
    await bench.store.streams.append([_make_stream_append(driver.held, 1, "a")])
    assert await wakeups.wait(topic, HINT_TIMEOUT_S) == topic


async def what_was_said_leaves_with_its_job(bench: Bench) -> None:
    for how in (PruneMode.ERASE, PruneMode.REMOVE):
        gone, running = await _append_and_complete(bench), await bench.drive_new()
        await bench.store.streams.append([_make_stream_append(running.held, 1, "a")])
        bench.clock.advance(2 * DAY)
        policy = RetentionPolicy(older_than_us=DAY, how=how)
        assert len(await bench.store.streams.read(gone.job_id)) == 1
        [pruned] = await bench.store.retention.prune([gone.job_id], policy)
        assert pruned.kept is None
        assert await bench.store.streams.read(gone.job_id) == []
        assert len(await bench.store.streams.read(running.job_id)) == 1
        await running.complete()


async def _append_and_complete(bench: Bench) -> Driver:
    driver = await bench.drive_new()
    assert await bench.store.streams.append([_make_stream_append(driver.held, 1, "a")]) == [True]
    await driver.complete()
    return driver
