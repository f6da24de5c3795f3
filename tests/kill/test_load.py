"""Goal: at load nothing is lost and nothing happens twice, whatever is killed. Method: orders over HTTP to an API and
three workers on Postgres; every second a worker is killed, every few seconds the database and the API; the client sends
again what was not answered, under the same key. In the end every order is done once, by the receivers' own log."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.engine.verify.verify import verify
from holdfast.runtime import open_store
from holdfast.store.tables.store import SqlStore
from tests.api.server.api import as_owner
from tests.support.deployment.receivers import serving
from tests.support.deployment.stage import Stage
from tests.support.fixtures.stores import postgres_template
from tests.support.servers import PostgresServer

__all__ = ["postgres_template"]


WAVES = 4
"""Orders come in as many: each after one kill more, so that there is something to do when the next one comes."""

KILLS_BETWEEN_RESTARTS = 4
AWAY = frozenset({401, 429, 503})
"""The token is that of a start before, there is too much to do, the database is down: sent again."""


@pytest.fixture
def stage(tmp_path: Path, durable_postgres_database: str) -> Iterator[Stage]:
    with serving() as outside:
        made = Stage(tmp_path, durable_postgres_database, outside)
        try:
            yield made
        finally:
            made.close()


@pytest.mark.store("postgres")
@pytest.mark.timeout(300)
def test_orders_outlive_workers_database_and_api(
    stage: Stage, durable_postgres_server: PostgresServer
) -> None:
    assert storm(stage, durable_postgres_server, orders=60) >= 3, "there was a storm"


@pytest.mark.store("postgres")
@pytest.mark.chaos
@pytest.mark.timeout(3000)
def test_five_thousand_orders_outlive_workers_database_and_api(
    stage: Stage, durable_postgres_server: PostgresServer
) -> None:
    assert storm(stage, durable_postgres_server, orders=5000) >= 3, "there was a storm"


def storm(stage: Stage, server: PostgresServer, *, orders: int) -> int:
    """Every order is done once in the end; how many workers were killed meanwhile."""
    stage.serve()
    for _ in range(3):
        stage.work()
    jobs: dict[str, str] = {}
    gates = [threading.Event() for _ in range(WAVES)]
    sending = threading.Thread(
        target=lambda: jobs.update(asyncio.run(send_all(stage, orders, gates))), daemon=True
    )
    sending.start()
    kills = weather(stage, server, sending, orders, gates)
    assert len(set(jobs.values())) == orders, "each order is one job"
    assert finished(stage) == {"completed": orders}
    outside = stage.outside
    assert {name: len(keys) for name, keys in outside.keys.items() if name.startswith("pay/")} == {
        f"pay/{nth}": 1 for nth in range(orders)
    }, "one key for each payment, however often it was sent"
    mails = {name: count for name, count in outside.arrived.items() if name.startswith("mail/")}
    assert mails == {f"mail/{nth}": 1 for nth in range(orders)}, "a mail that arrived was not sent again"
    assert asyncio.run(violations(stage.store)) == []
    return kills


def weather(
    stage: Stage,
    server: PostgresServer,
    sending: threading.Thread,
    orders: int,
    gates: Sequence[threading.Event],
) -> int:
    """Until all is done: a kill every second, and a gate opened by each. How many workers were killed."""
    kills, second, chance = 0, threading.Event(), random.Random(7)
    gates[0].set()
    while sending.is_alive() or finished(stage).get("completed", 0) < orders:
        second.wait(1.0)  # the pace of the storm
        victim = chance.choice(stage.workers)
        stage.kill(victim)
        stage.workers.remove(victim)
        kills += 1
        if kills < len(gates):
            gates[kills].set()
        if kills % KILLS_BETWEEN_RESTARTS == 0:
            server.restart(immediate=True)
        if kills % (KILLS_BETWEEN_RESTARTS + 1) == 0:
            stage.kill(stage.api)
            stage.serve()
        stage.work()
        requeue(stage)
    return kills


async def send_all(stage: Stage, orders: int, gates: Sequence[threading.Event]) -> dict[str, str]:
    """Every order has been answered with 2xx, an equal part behind each gate; what was not answered was sent again
    under its key."""
    places = asyncio.Semaphore(8)

    async def send(what: str) -> tuple[str, str]:
        async with places:
            while True:
                try:
                    async with httpx2.AsyncClient(timeout=30, trust_env=False) as http:
                        body = {"kind": "order", "input": {"what": what}}
                        named = as_owner(stage.url) | {"Idempotency-Key": f"order-{what}"}
                        answer = await http.post(f"{stage.url}/api/jobs", json=body, headers=named)
                except httpx2.TransportError:
                    continue
                if answer.status_code in {200, 201}:
                    return what, str(answer.json()["job_id"])
                assert answer.status_code in AWAY, answer.text

    answered: dict[str, str] = {}
    for wave, gate in enumerate(gates):
        assert await asyncio.to_thread(gate.wait, 60), "a kill every second opens it"
        answered |= await asyncio.gather(*(send(str(nth)) for nth in range(wave, orders, len(gates))))
    return answered


def asked(stage: Stage, method: str, path: str, body: Any = None) -> Any:
    """The answer; None while the API or its database is away."""
    try:
        answer = httpx2.request(
            method, stage.url + path, json=body, headers=as_owner(stage.url), timeout=30, trust_env=False
        )
    except httpx2.TransportError:
        return None
    if answer.status_code in AWAY:
        return None
    assert answer.is_success, answer.text
    return answer.json()


def finished(stage: Stage) -> dict[str, int]:
    told = asked(stage, "GET", "/api/stats")
    counts: dict[str, int] = {} if told is None else told["totals"]
    return {status: count for status, count in counts.items() if count and status != "jobs"}


def requeue(stage: Stage) -> None:
    """Whoever was taken over three times is held for a person: that person says go on."""
    letters = asked(stage, "GET", "/api/dead-letters")
    for letter in [] if letters is None else letters["items"]:
        asked(stage, "POST", f"/api/dead-letters/{letter['job_id']}/requeue", {"why": "there was a storm"})


async def violations(where: str) -> list[Any]:
    store = await open_store(where)
    try:
        assert isinstance(store, SqlStore)
        return list((await verify(store)).violations)
    finally:
        await store.close()


ORDERS_MAX = 60


@pytest.mark.timeout(200)
@pytest.mark.parametrize("lane", ["sqlite", "postgres"])
def test_everything_is_killed_at_once_and_nothing_that_was_answered_is_lost(
    lane: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Orders are being sent; API and workers die in the same instant; what was answered with 2xx is done, once."""
    where = f"sqlite:///{tmp_path / 'holdfast.db'}"
    if lane == "postgres":
        where = request.getfixturevalue("durable_postgres_database")
    with serving() as outside:
        one = Stage(tmp_path, where, outside)
        try:
            one.serve()
            one.work()
            one.work()
            answered: dict[str, str] = {}
            sending = threading.Thread(target=lambda: asyncio.run(send_until_refused(one, answered)))
            sending.start()
            outside.until(lambda: outside.arrived.total() >= 20, "orders are being worked on")
            dying = [process for process in (one.api, *one.workers) if process is not None]
            for process in dying:
                process.kill()
            for process in dying:
                process.wait(60)
            sending.join(60)
            assert len(answered) >= 10
            one.serve()
            one.work()
            for what, job_id in answered.items():
                assert one.ended(job_id)["input"] == {"what": what}
            for what in answered:
                assert len(outside.keys[f"pay/{what}"]) == 1
                assert outside.arrived[f"mail/{what}"] == 1
        finally:
            one.close()


async def send_until_refused(stage: Stage, answered: dict[str, str]) -> None:
    """Orders one after the other, over a few connections, until nobody answers any more; not many more than are worked
    on meanwhile, since all of them have to be done afterwards."""

    async def send(first: int) -> None:
        async with httpx2.AsyncClient(
            base_url=stage.url, headers=as_owner(stage.url), timeout=30, trust_env=False
        ) as http:
            for number in range(first, ORDERS_MAX, 4):
                body = {"kind": "order", "input": {"what": str(number)}}
                try:
                    answer = await http.post("/api/jobs", json=body)
                except httpx2.TransportError:
                    return
                assert answer.status_code == 201, answer.text
                answered[str(number)] = answer.json()["job_id"]

    await asyncio.gather(*(send(first) for first in range(4)))
