"""The committer's ends: what was recorded a moment before it is closed arrives."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine.committer import Committer
from holdfast.engine.drive import Drive
from holdfast.errors import Fenced
from holdfast.model.events import StepFinished
from holdfast.model.instants import SECOND
from holdfast.testing.conformance.bench import Backend
from tests.engine.shop import opened
from tests.fixtures.stores import STORES


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_what_was_recorded_before_the_close_arrives(backend: Backend) -> None:
    """Method: record a fact and close in the same pass of the loop, before the committer has begun."""
    async with opened(backend) as shop:

        async def program(_drive: Drive, _: Any) -> Any: ...

        job_id = await shop.submit(program)
        desk = shop.desk()
        run = await shop.claim(desk=desk)
        assert isinstance(desk.committer, Committer)
        run._pen.record(StepFinished("0/look#1", "d"))
        await desk.committer.close()
        assert any(isinstance(event, StepFinished) for event in await shop.events(job_id))


@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_a_job_lost_and_won_again_by_one_process_is_written_by_its_holder(backend: Backend) -> None:
    """Method: one process claims a job twice, the lease between running out; both of its pens have something to say in
    the same moment. The old one is told that the job is lost, the new one is heard."""
    async with opened(backend) as shop:

        async def program(_drive: Drive, _: Any) -> Any: ...

        job_id = await shop.submit(program)
        desk = shop.desk()
        before = await shop.claim(desk=desk)
        backend.clock.advance(31 * SECOND)
        now = await shop.claim(desk=desk)
        before._pen.record(StepFinished("0/stale#1", "d"))
        now._pen.record(StepFinished("0/look#1", "d"))
        with pytest.raises(Fenced):
            await before._pen.durable()
        await now._pen.durable()
        steps = [event.step_key for event in await shop.events(job_id) if isinstance(event, StepFinished)]
        assert steps == ["0/look#1"]
