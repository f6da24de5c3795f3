"""Ready means that it was written just now; and whatever stands against that has a name."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import StoreReadOnly
from holdfast.model.time import SECOND
from holdfast.server.health import PROBE_EVERY_US, Pulse
from holdfast.store.contract import StoreInfo
from holdfast.store.sql.migrate import SCHEMA_VERSION
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import Api, api

pytestmark = pytest.mark.store("sqlite")


async def state(web: Api, path: str = "/health/ready") -> tuple[int, str, list[str]]:
    answer = await web.ask("GET", path)
    told = answer.json()
    return answer.status_code, told["status"], told["degraded"]


async def test_a_store_that_cannot_be_written_is_not_ready(backend: Backend, monkeypatch: Any) -> None:
    """It can be read: that is not enough. And it is ready again as soon as it can."""

    async def refuses(*_: Any, **__: Any) -> None:
        raise StoreReadOnly("the server is a replica")

    async with api(backend) as web:
        assert await state(web) == (200, "ok", [])
        with monkeypatch.context() as broken:
            broken.setattr(web.one.store.cache, "put", refuses)
            assert await state(web) == (200, "ok", []), "written a moment ago"
            web.one.clock.advance(PROBE_EVERY_US)
            assert await state(web) == (503, "unavailable", ["store_read_only"])
            assert await state(web, "/health") == (503, "unavailable", ["store_read_only"])
            assert (await state(web, "/health/live"))[0] == 200, "it need not be restarted"
            await web.get("/api/jobs")
        assert await state(web) == (200, "ok", [])


async def test_a_probe_is_made_now_and_then_however_many_ask(backend: Backend, monkeypatch: Any) -> None:
    async with api(backend) as web:
        writes = 0
        put = web.one.store.cache.put

        async def counted(*args: Any, **options: Any) -> None:
            nonlocal writes
            writes += 1
            await put(*args, **options)

        monkeypatch.setattr(web.one.store.cache, "put", counted)
        for _ in range(5):
            await state(web)
        assert writes == 1
        web.one.clock.advance(10 * SECOND)
        await state(web)
        assert writes == 2


async def test_a_schema_that_wants_newer_code_is_not_ready(backend: Backend, monkeypatch: Any) -> None:
    """Somebody newer has migrated the store past us while we run."""
    async with api(backend) as web:
        info = web.one.store.info

        async def newer() -> StoreInfo:
            import msgspec

            return msgspec.structs.replace(await info(), min_reader=SCHEMA_VERSION + 1)

        monkeypatch.setattr(web.one.store, "info", newer)
        assert await state(web) == (503, "unavailable", ["schema_mismatch"])


@pytest.mark.parametrize(
    "free, stops, warns",
    [
        (0.5, (), ()),
        (0.15, (), ()),
        (0.1499, (), ("disk",)),
        (0.05, (), ("disk",)),
        (0.0499, ("disk",), ()),
        (None, (), ()),
    ],
)
async def test_a_disk_that_fills_up(
    backend: Backend, free: float | None, stops: tuple[str, ...], warns: tuple[str, ...]
) -> None:
    store = await backend.open()
    try:
        assert await Pulse(store, backend.clock, lambda _: free).feel() == (stops, warns)
    finally:
        await store.close()
