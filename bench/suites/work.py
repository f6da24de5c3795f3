"""Work for agents that live elsewhere: how long a claim takes when twenty ask, and how soon an idle agent has new work.

Claims. One API process, twenty agents, each with a connection of its own, and enough work for all. *At once*: all of
them ask in the same instant, again and again, so that each answer waits for those in front of it. *At a pace*: each
agent works on what it got for a while, as agents do, and asks again. What is measured is the client's own call, from
before it is sent until the grant is read. Upstream of seed 003 publishes a p95 of 77 ms, over 100 items that lay ready.

Straight on the store. Twenty workers in one process, without HTTP between them and their jobs: at once and at a pace,
as above.

Pickup. One agent that has nothing to do, and one item that is submitted: until the agent holds it, found by a claim
that waits at the server, by a hint over NATS and a claim then, and by asking every second.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from statistics import median, quantiles
from time import perf_counter

import nats

from bench.arena import Arena
from bench.contest import Figure, make_figure
from bench.report import Findings, Row, make_goal
from bench.served import serving
from holdfast.api.work_records import ClaimedWork
from holdfast.client import RemoteClient
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.registry.hints import subject_of
from holdfast.store.ports.leases import ClaimRequest
from tests.support.servers import NatsServer

AGENTS = 20
P95_MS = 10.0
UPSTREAM_P95_MS = 77.0
BUSY_S = (0.5, 1.5)
"""How long an agent at a pace works on an item. Real ones take longer, and ask less often."""

POLL_S = 1.0
OF_POLLING = 0.1
LEASE_S = 3600
CAPABILITY = "bench"


async def run(arena: Arena, findings: Findings) -> None:
    for store in arena.stores:
        await _measure_store_claims(arena, store, findings)
        await _measure_claims(arena, store, findings)
        await _measure_pickup(arena, store, findings)


# ── claims ────────────────────────────────────────────────────────────────────────────────────────


async def _measure_claims(arena: Arena, store: str, findings: Findings) -> None:
    each = max(arena.scale.singles // 12, 3)
    shapes = {"at once": _claim_at_once, "at a pace": _claim_at_a_pace}
    async with serving(await arena.address(store)) as url, _register_agents(url) as agents:
        laps: dict[str, list[list[float]]] = {shape: [] for shape in shapes}
        for nth in range(arena.scale.rounds + 1):
            for shape, play in shapes.items():
                await _submit_items(agents[0][0], AGENTS * each)
                times = await play(agents, each, arena.scale.pace)
                if nth:  # the first round is to warm up
                    laps[shape].append(times)
    for shape, its in laps.items():
        p50, p95 = (make_figure([_find_percentile(lap, percent) for lap in its]) for percent in (50, 95))
        contest = f"claim, {AGENTS} agents {shape}, {AGENTS * each} items"
        findings.rows += [
            _make_row(contest, store, f"holdfast {name}", found)
            for name, found in (("p50", p50), ("p95", p95))
        ]
        findings.rows.append(
            _make_row(contest, store, "upstream of seed 003, its p95", make_figure([UPSTREAM_P95_MS]))
        )
        findings.goals += [
            make_goal(f"claim p95 {shape} {store}", p95, "at most", P95_MS, "ms"),
            make_goal(f"claim p95 {shape} {store}, upstream", p95, "at most", UPSTREAM_P95_MS, "ms"),
        ]


# ── claims without HTTP ───────────────────────────────────────────────────────────────────────────


async def _measure_store_claims(arena: Arena, store: str, findings: Findings) -> None:
    each = max(arena.scale.singles // 12, 3)
    ids = RandomIds()
    opened = await (await arena.place(store)).open_store()
    try:

        async def claim(nth: int, times: list[float]) -> None:
            ask = ClaimRequest(worker=f"worker-{nth}", token=ids.new("claim"), queues=("default",), limit=1)
            began = perf_counter()
            granted = await opened.leases.claim(ask)
            times.append(perf_counter() - began)
            assert len(granted) == 1

        async def at_once() -> list[float]:
            times: list[float] = []
            for _ in range(each):
                await asyncio.gather(*(claim(nth, times) for nth in range(AGENTS)))
            return times

        async def at_a_pace() -> list[float]:
            times: list[float] = []

            async def work(nth: int, chance: random.Random) -> None:
                for _ in range(each):
                    await asyncio.sleep(chance.uniform(*BUSY_S) / 5)
                    await claim(nth, times)

            await asyncio.gather(*(work(nth, random.Random(nth)) for nth in range(AGENTS)))
            return times

        laps: dict[str, list[list[float]]] = {"at once": [], "at a pace": []}
        for nth in range(arena.scale.rounds + 1):
            for shape, play in (("at once", at_once), ("at a pace", at_a_pace)):
                await opened.jobs.submit_many([JobDraft(kind="bench") for _ in range(AGENTS * each)])
                times = await play()
                if nth:  # the first round is to warm up
                    laps[shape].append(times)
    finally:
        await opened.close()
    for shape, its in laps.items():
        p50, p95 = (make_figure([_find_percentile(lap, percent) for lap in its]) for percent in (50, 95))
        contest = f"claim on the store, {AGENTS} workers {shape}, {AGENTS * each} jobs"
        findings.rows += [
            _make_row(contest, store, f"holdfast {name}", found)
            for name, found in (("p50", p50), ("p95", p95))
        ]
        findings.goals.append(make_goal(f"store claim p95 {shape} {store}", p95, "at most", P95_MS, "ms"))


Agents = Sequence[tuple[RemoteClient, str]]


@contextlib.asynccontextmanager
async def _register_agents(url: str) -> AsyncIterator[Agents]:
    """Registered, each over a connection of its own."""
    async with contextlib.AsyncExitStack() as stack:
        agents = []
        for nth in range(AGENTS):
            client = await stack.enter_async_context(RemoteClient(url))
            entry = await client.register_agent(f"agent-{nth}", "bench", capabilities=[CAPABILITY])
            agents.append((client, entry.guid))
        yield agents


async def _submit_items(client: RemoteClient, items: int) -> None:
    for number in range(items):
        await client.submit_work(f"item {number}", CAPABILITY)


async def _claim_at_once(agents: Agents, each: int, _pace: float) -> list[float]:
    """Everybody asks in the same instant, and again when everybody has been answered and is done."""
    times: list[float] = []
    for _ in range(each):
        granted = await asyncio.gather(*(_time_claim(client, guid, times) for client, guid in agents))
        await asyncio.gather(
            *(_complete(client, item) for (client, _), item in zip(agents, granted, strict=True))
        )
    return times


async def _claim_at_a_pace(agents: Agents, each: int, pace: float) -> list[float]:
    """Everybody asks when it is done with what it had."""
    times: list[float] = []

    async def work(client: RemoteClient, guid: str, chance: random.Random) -> None:
        await asyncio.sleep(chance.uniform(0, BUSY_S[1]) * pace)
        for _ in range(each):
            item = await _time_claim(client, guid, times)
            await asyncio.sleep(chance.uniform(*BUSY_S) * pace)
            await _complete(client, item)

    await asyncio.gather(*(work(*agent, random.Random(nth)) for nth, agent in enumerate(agents)))
    return times


async def _time_claim(client: RemoteClient, guid: str, times: list[float]) -> ClaimedWork:
    began = perf_counter()
    (item,) = await client.claim_work(guid, lease_seconds=LEASE_S)
    times.append(perf_counter() - began)
    return item


async def _complete(client: RemoteClient, item: ClaimedWork) -> None:
    await client.complete_work(item.id, fence=item.fence, lease_token=item.lease_token, result="done")


def _find_percentile(times: Sequence[float], percent: int) -> float:
    return quantiles(times, n=100, method="inclusive")[percent - 1] * 1000


# ── pickup ────────────────────────────────────────────────────────────────────────────────────────


async def _measure_pickup(arena: Arena, store: str, findings: Findings) -> None:
    operations = max(arena.scale.singles // 10, 2)
    with NatsServer() as server:
        async with (
            serving(await arena.address(store), HOLDFAST_NATS_URL=server.url) as url,
            RemoteClient(url) as client,
            RemoteClient(url) as asking,
            await nats.connect(server.url) as wire,
        ):
            while not (await client.list_registry()).registry.connected:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            heard = await wire.subscribe(subject_of(CAPABILITY))
            entry = await client.register_agent("idle", "bench", capabilities=[CAPABILITY])

            async def claim_one(wait_s: int) -> ClaimedWork | None:
                items = await asking.claim_work(entry.guid, wait_seconds=wait_s, lease_seconds=LEASE_S)
                return items[0] if items else None

            async def long_poll() -> ClaimedWork:
                while (found := await claim_one(30)) is None:
                    pass
                return found

            async def hint() -> ClaimedWork:
                while True:
                    await heard.next_msg(timeout=60)
                    if (found := await claim_one(0)) is not None:
                        return found

            async def polling() -> ClaimedWork:
                while (found := await claim_one(0)) is None:  # noqa: ASYNC110
                    await asyncio.sleep(POLL_S)
                return found

            ways = {
                "long poll over HTTP": long_poll,
                "NATS hint, then a claim": hint,
                "polling each second": polling,
            }
            laps: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(arena.scale.rounds):
                for way, wait in ways.items():
                    times = []
                    for nth in range(operations):
                        while heard.pending_msgs:
                            await heard.next_msg()  # of others
                        # Only to a poller does it matter when work comes: it comes all over the interval.
                        late_s = POLL_S * (nth + 0.5) / operations if wait is polling else 0.0
                        times.append(await _time_pickup(client, wait, 0.1 + late_s))
                    laps[way].append(median(times) * 1000)
    found = {way: make_figure(medians) for way, medians in laps.items()}
    contest = f"pickup by an idle agent, {operations} items"
    findings.rows += [
        _make_row(contest, store, way, of, measure="submit to granted") for way, of in found.items()
    ]
    polled = found["polling each second"].value
    for way, name in (("long poll over HTTP", "long poll"), ("NATS hint, then a claim", "hint")):
        findings.goals.append(
            make_goal(f"pickup {name} {store}", found[way].value / polled, "at most", OF_POLLING, "× polling")
        )


async def _time_pickup(
    client: RemoteClient, wait: Callable[[], Awaitable[ClaimedWork]], after_s: float
) -> float:
    """From before the item is submitted until the agent, which waits already, holds it."""
    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(after_s)
    began = perf_counter()
    sent = await client.submit_work("an item", CAPABILITY)
    held = await waiting
    took = perf_counter() - began
    assert held.id == sent.id
    await _complete(client, held)
    return took


def _make_row(
    contest: str, store: str, contestant: str, found: Figure, *, measure: str = "a granted claim"
) -> Row:
    return Row(
        suite="work",
        contest=contest,
        store=store,
        contestant=contestant,
        measure=measure,
        unit="ms",
        value=found.value,
        low=found.low,
        high=found.high,
    )
