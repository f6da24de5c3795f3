"""Goal: seed 004 by name, 19 of 19 on each store. Method: the shipped checks; the plugin counts them."""

from __future__ import annotations

import pytest

from holdfast.testing.conformance import SEED_004, Backend, Check, bench_on, name_of
from tests.support.fixtures.stores import STORES


@pytest.mark.seed("004")
@pytest.mark.parametrize("check", SEED_004, ids=name_of)
@pytest.mark.parametrize("backend", STORES, indirect=True)
async def test_seed_004(backend: Backend, check: Check) -> None:
    async with bench_on(backend) as bench:
        await check(bench)
