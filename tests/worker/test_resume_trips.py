"""What a new worker asks of the store before a job that somebody left is where it was. The figures may fall, and are
then lowered; they do not rise."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from holdfast.engine.execution import Execution
from holdfast.engine.suspension import sleep
from holdfast.model.time import HOUR
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import opened
from tests.support.fixtures.stores import STORES
from tests.worker.test_store_calls import Counted

RESUME = {"leases.claim": 1, "journal.since_commit": 1, "streams.attempts": 1}
"""One claim, one read of its journal, however long, one look at what it had said."""


@pytest.mark.parametrize("backend", STORES, indirect=True)
@pytest.mark.parametrize("steps", [100, 1_000])
async def test_a_resume_of_any_length_is_one_read(backend: Backend, steps: int) -> None:
    """Counted up to where the code goes on; no step runs again on the way."""
    async with opened(backend) as shop:
        asked: list[Counter[str]] = []
        counted = Counted(shop, strict=False)

        async def reader(drive: Execution, _: Any) -> None:
            for number in range(steps):
                await shop.look(drive, f"look {number}")
            await sleep(drive, HOUR)
            asked.append(counted.calls.copy())

        job_id = await shop.submit(reader)
        assert await shop.drive_all() == ["waiting"]
        backend.clock.advance(HOUR)
        async with counted.working():
            while not asked:
                await shop.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
        assert asked == [Counter(RESUME)]
        assert shop.done == Counter(f"look {number}" for number in range(steps))
