"""A hint is heard by whoever waits for it, says nothing when nobody can hear, and never fails or delays anybody."""

from __future__ import annotations

import asyncio

import nats

from holdfast.registry.hints import subject_of
from tests.api.registry.worlds import linked, until
from tests.support.servers import NatsServer

NAMES = ["review", "code.review", "code review", "ümlaut", "a*b", ">", "x" * 200]


async def test_a_hint_reaches_whoever_waits_for_it_and_nobody_else(server: NatsServer) -> None:
    async with linked(server.url) as said, linked(server.url) as heard:
        woken: dict[str, asyncio.Event] = {name: asyncio.Event() for name in NAMES}
        stops = [heard.hints.listen([name], event.set) for name, event in woken.items()]
        for event in woken.values():
            event.clear()
        for name in NAMES:
            said.hints.ready(name)
            await asyncio.wait_for(woken[name].wait(), 10)
            assert [other for other, event in woken.items() if event.is_set()] == [name]
            woken[name].clear()
        stops[0]()
        said.hints.ready(NAMES[0])
        said.hints.ready(NAMES[1])
        await asyncio.wait_for(woken[NAMES[1]].wait(), 10)
        assert not woken[NAMES[0]].is_set()


async def test_an_agent_with_a_client_of_its_own_hears_it(server: NatsServer) -> None:
    async with linked(server.url) as link, await nats.connect(server.url) as client:
        heard = await client.subscribe("holdfast.ready.review")
        await client.flush()
        link.hints.ready("review")
        await heard.next_msg(timeout=10)
    assert subject_of("review") == "holdfast.ready.review"
    assert len({subject_of(name) for name in NAMES}) == len(NAMES)
    for name in NAMES:
        assert subject_of(name).count(".") == 2
        assert not set("*> ") & set(subject_of(name))


async def test_after_a_reconnect_everybody_is_woken_once_and_hears_again(server: NatsServer) -> None:
    async with linked(server.url) as link:
        woken = asyncio.Event()
        link.hints.listen(["review"], woken.set)
        link.hints.listen(["review"], _breaks)
        server.kill()
        await until(lambda: not link.connection.connected)
        woken.clear()
        link.hints.ready("review")
        assert not link.hints._saying, "nobody can hear it"
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(woken.wait(), 30)
        woken.clear()
        link.hints.ready("review")
        await asyncio.wait_for(woken.wait(), 10)


async def test_hints_in_a_flood_are_one_hint(server: NatsServer) -> None:
    async with linked(server.url) as link, await nats.connect(server.url) as client:
        heard = await client.subscribe("holdfast.ready.*")
        await client.flush()
        for _ in range(1_000):
            link.hints.ready("review")
        assert len(link.hints._saying) == 1
        for nth in range(3_000):
            link.hints.ready(f"c{nth}")
        assert len(link.hints._saying) == 1_000
        await until(lambda: not link.hints._saying)
        await until(lambda: heard.pending_msgs > 0)  # what was said is on its way
        await client.flush()
        assert heard.pending_msgs <= 1_000


def _breaks() -> None:
    raise RuntimeError("a listener that breaks")
