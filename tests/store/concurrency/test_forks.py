"""A store does not survive a fork, and says so before it can do harm."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import pytest

from tests.store.concurrency.processes import child
from tests.store.concurrency.stores import BOTH, POLL_S, Place, opened


@pytest.mark.parametrize("place", BOTH, indirect=True)
async def test_a_store_opened_before_a_fork_is_refused_after_it(place: Place) -> None:
    """Goal: a child that uses its parent's store is told so, and the parent is not harmed. Method: a process opens a
    store, forks, and the child writes, reads and closes it; then the parent goes on."""
    async with opened(place) as store:
        with child("forker", **asdict(place)) as parent:
            said = await asyncio.to_thread(parent.hear)
            hearing = asyncio.create_task(asyncio.to_thread(parent.hear))
            while not hearing.done():
                store.wakeups.hint("queue:after the fork")
                await asyncio.wait([hearing], timeout=POLL_S)
            assert (await hearing)["heard"], "the child did not take away its parent's ears"
            await asyncio.to_thread(parent.wait)
        assert said["child"] == {
            "write": "misuse",
            "append": "misuse",
            "read": "misuse",
            "brief read": "misuse",
            "snapshot": "misuse",
            "close": "accepted",
        }
        assert said["accepted"]
        assert said["events"] == 3
        assert await store.namespaces.list(), "others go on as well"
