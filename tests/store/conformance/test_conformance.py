"""Goal: every store keeps every promise of the ports. Method: the shipped checks, each on a fresh store."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.testing.conformance import ALL, CORNERS, JOBS, SEED_004, Backend, Check, bench_on, name_of
from tests.support.fixtures.stores import STORES


@pytest.mark.parametrize("check", ALL, ids=name_of)
@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_store_keeps_its_promise(backend: Backend, check: Check) -> None:
    async with bench_on(backend) as bench:
        await check(bench)


def test_every_check_has_its_own_name() -> None:
    counts = Counter(name_of(check) for check in ALL)
    assert [name for name, times in counts.items() if times > 1] == []


def test_the_groups_are_the_whole() -> None:
    assert SEED_004 + CORNERS + JOBS == ALL
    assert len(SEED_004) == 19
