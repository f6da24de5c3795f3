"""A dead letter tells all of its causes, whoever buried it."""

from __future__ import annotations

import pytest

from holdfast.engine.recovery import sweep
from holdfast.model.lease import TAKEOVERS_MAX
from holdfast.model.time import SECOND
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api
from tests.api.server.test_work import claim, ready

pytestmark = pytest.mark.store("sqlite")


async def test_the_sweep_that_buries_work_knows_the_last_holder_and_all_are_told(backend: Backend) -> None:
    """Goal: every cause, where work and dead letters are read. Method: each holder is lost, and the sweep, which sees
    nothing but the head, finds it; afterwards a person begins again, and what was before is over."""
    async with api(backend) as web:
        work_id = await ready(web)
        takers = ["ant-1", "bee-1", "ant-1"]
        assert len(takers) == TAKEOVERS_MAX
        for guid in takers:
            await claim(web, guid, leaseSeconds=5)
            web.one.clock.advance(10 * SECOND)
            await sweep(web.one.store, web.one.clock)
        view = await web.get(f"/api/work/{work_id}")
        assert view["status"] == "dead-letter"
        lost = [f"agent:{guid}" for guid in takers]
        assert [one["holder"] for one in view["error"]["causes"]] == lost
        (dead,) = (await web.get("/api/dead-letters"))["items"]
        assert [one["holder"] for one in dead["evidence"]] == lost
        await web.post(f"/api/dead-letters/{work_id}/requeue", {"why": "mended", "by": "ada"})
        for _ in takers:
            await claim(web, "bee-1", leaseSeconds=5)
            web.one.clock.advance(10 * SECOND)
            await sweep(web.one.store, web.one.clock)
        view = await web.get(f"/api/work/{work_id}")
        assert [one["holder"] for one in view["error"]["causes"]] == ["agent:bee-1"] * TAKEOVERS_MAX
