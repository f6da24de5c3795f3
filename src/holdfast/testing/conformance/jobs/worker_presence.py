"""Worker presence: workers are listed as they report, lost when they are silent, forgotten after a day."""

from __future__ import annotations

import msgspec

from holdfast.errors import InvalidMove, InvalidName, InvalidPayload, NotFound
from holdfast.model.audit import ActDraft, read_act
from holdfast.model.jobs import JobDraft
from holdfast.model.time import SECOND
from holdfast.model.worker_presence import (
    BEAT_US,
    FORGOTTEN_US,
    LOST_US,
    HeartbeatReply,
    Presence,
    SessionKind,
    WorkerOffer,
    WorkerState,
)
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.harness import Bench

ANT = Presence(
    worker="ant",
    identity="boot/1/17/4",
    host="hill",
    pid=17,
    offer=WorkerOffer(
        kinds=("clerk", "report"),
        sessions=(SessionKind(name="clerk", queue="talk", priority=7),),
        queues=("default", "talk"),
        capabilities=("gpu",),
        concurrency=4,
        drains=True,
    ),
)
BEE = Presence(worker="bee", identity="boot/1/18/5")


async def a_worker_is_listed_as_it_said(bench: Bench) -> None:
    """Started once, seen at every heartbeat, with the number of jobs that it holds."""
    presences, began = bench.store.presences, bench.clock.wall_us()
    await presences.beat(ANT)
    for number in range(3):
        await bench.store.jobs.submit(JobDraft(kind="report", job_id=f"job-{number}"))
    await bench.store.leases.claim(
        ClaimRequest(worker="ant", token="t1", queues=("default",), limit=2, ttl_us=60 * SECOND)
    )
    bench.clock.advance(BEAT_US)
    draining = msgspec.structs.replace(ANT, draining=True)
    await presences.beat(draining)
    await bench.reopen()
    (seen,) = await bench.store.presences.list()
    assert (seen.presence, seen.state, seen.holds) == (draining, WorkerState.DRAINING, 2)
    assert (seen.started_at, seen.seen_at) == (began, began + BEAT_US)


async def a_silent_worker_is_lost_and_then_forgotten(bench: Bench) -> None:
    presences = bench.store.presences
    await presences.beat(ANT)
    for after_us, state in ((LOST_US - 1, WorkerState.HERE), (1, WorkerState.LOST)):
        bench.clock.advance(after_us)
        assert [seen.state for seen in await presences.list()] == [state]
    bench.clock.advance(FORGOTTEN_US - LOST_US - 1)
    assert await presences.beat(BEE) == HeartbeatReply(listed={"ant": ANT.identity, "bee": BEE.identity})
    assert [seen.presence.worker for seen in await presences.list()] == ["ant", "bee"]
    bench.clock.advance(1)
    assert [seen.presence.worker for seen in await presences.list()] == ["bee"]
    assert await presences.beat(BEE) == HeartbeatReply(listed={"bee": BEE.identity})
    assert not await presences.remove("ant", ANT.identity), "it is not there any more"


async def a_worker_that_comes_back_in_time_is_never_lost(bench: Bench) -> None:
    presences = bench.store.presences
    await presences.beat(ANT)
    bench.clock.advance(LOST_US + 1)
    await presences.beat(ANT)
    assert [seen.state for seen in await presences.list()] == [WorkerState.HERE]


async def another_process_of_the_same_name_takes_its_place(bench: Bench) -> None:
    """The end of the first process does not remove the entry of the second."""
    presences = bench.store.presences
    await presences.beat(ANT)
    bench.clock.advance(SECOND)
    heir = msgspec.structs.replace(ANT, identity="boot/1/99/6", pid=99)
    await presences.beat(heir)
    assert not await presences.remove("ant", ANT.identity)
    (seen,) = await presences.list()
    assert (seen.presence, seen.started_at) == (heir, bench.clock.wall_us())
    assert await presences.remove("ant", heir.identity)
    assert not await presences.remove("ant", heir.identity)
    assert list(await presences.list()) == []


async def a_worker_hears_that_it_shall_drain(bench: Bench) -> None:
    """The worker gets the request with each heartbeat from then on, also after a restart of the store. The first
    request counts, with its audit entry; the next process of that name does not get it."""
    presences = bench.store.presences
    await presences.beat(BEE)
    assert not (await presences.beat(ANT)).drain
    bench.clock.advance(SECOND)
    asked_at = bench.clock.wall_us()
    seen = await presences.ask_to_drain("ant", _draft_act("first"))
    assert (seen.presence, seen.state, seen.drain_asked_at) == (ANT, WorkerState.HERE, asked_at)
    bench.clock.advance(SECOND)
    assert await presences.ask_to_drain("ant", _draft_act("second")) == seen
    await bench.reopen()
    presences = bench.store.presences
    assert (await presences.beat(ANT)).drain
    assert not (await presences.beat(BEE)).drain
    assert [worker.drain_asked_at for worker in await presences.list()] == [asked_at, None]
    lines = [read_act(line) for line in await bench.store.audit.read()]
    assert [(line.act_id, line.who, line.reason) for line in lines] == [
        ("first", "ada", "the machine is needed")
    ]
    heir = msgspec.structs.replace(ANT, identity="boot/1/99/6")
    assert not (await presences.beat(heir)).drain
    assert [worker.drain_asked_at for worker in await presences.list()] == [None, None]


async def who_would_not_drain_is_not_asked(bench: Bench) -> None:
    """A worker that is not listed any more, and one that does not drain on request. The audit log has no entry."""
    presences = bench.store.presences
    async with bench.refuses(NotFound):
        await presences.ask_to_drain("ant", _draft_act("nobody"))
    await presences.beat(BEE)
    async with bench.refuses(InvalidMove):
        await presences.ask_to_drain("bee", _draft_act("deaf"))
    await presences.beat(ANT)
    bench.clock.advance(FORGOTTEN_US)
    async with bench.refuses(NotFound):
        await presences.ask_to_drain("ant", _draft_act("forgotten"))
    assert list(await bench.store.audit.read()) == []


def _draft_act(act_id: str) -> ActDraft:
    return ActDraft(
        act_id=act_id, what="worker.drain", who="ada", object="ant", reason="the machine is needed"
    )


async def workers_are_listed_by_name_in_pages(bench: Bench) -> None:
    presences = bench.store.presences
    for name in ("cow", "ant", "bee"):
        await presences.beat(Presence(worker=name, identity=f"of {name}"))
    first = await presences.list(limit=2)
    assert [seen.presence.worker for seen in first] == ["ant", "bee"]
    second = await presences.list(limit=2, cursor=first.next)
    assert ([seen.presence.worker for seen in second], second.next) == (["cow"], None)


async def a_presence_that_makes_no_sense_is_refused(bench: Bench) -> None:
    for wrong, error in (
        (Presence(worker="", identity="x"), InvalidName),
        (Presence(worker="ant", identity=""), InvalidName),
        (Presence(worker="ant", identity="x", offer=WorkerOffer(concurrency=0)), InvalidPayload),
        (Presence(worker="ant", identity="x", offer=WorkerOffer(queues=("a", "a"))), InvalidPayload),
        (Presence(worker="ant", identity="x", offer=WorkerOffer(capabilities=("\x1b",))), InvalidName),
    ):
        async with bench.refuses(error):
            await bench.store.presences.beat(wrong)
