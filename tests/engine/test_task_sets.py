"""Goal: a set of tasks has one order, in whatever order its tasks were made. Method: pairs of tasks made both ways
round, enough of them that some share a slot of the set, where the one that was put in first comes first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine import task_scopes
from holdfast.engine.execution import Execution
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened

on_memory = pytest.mark.parametrize("backend", ["memory"], indirect=True)
PAIRS = 40


async def _say(number: int) -> int:
    return number


async def _wait_for_pairs(_drive: Execution, given: Any) -> list[list[int]]:
    orders = []
    for number in range(PAIRS):
        pair = [2 * number, 2 * number + 1]
        tasks = [asyncio.create_task(_say(one)) for one in (reversed(pair) if given else pair)]
        done, _ = await asyncio.wait(tasks)
        orders.append([task.result() for task in done])
    return orders


async def _order(shop: Shop, *, is_reversed: bool) -> Any:
    job_id = await shop.submit(_wait_for_pairs, is_reversed)
    assert await shop.drive_all() == ["completed"]
    last: Any = (await shop.events(job_id))[-1]
    return last.output


@on_memory
async def test_tasks_of_a_set_come_in_one_order_however_they_were_made(backend: Backend) -> None:
    async with opened(backend) as shop:
        assert await _order(shop, is_reversed=False) == await _order(shop, is_reversed=True)


@on_memory
async def test_the_order_would_depend_on_how_a_set_was_filled(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pairs above show it: put in as they were made, some come in another order."""
    monkeypatch.setattr(task_scopes, "sort_by_scope", list)
    async with opened(backend) as shop:
        assert await _order(shop, is_reversed=False) != await _order(shop, is_reversed=True)
