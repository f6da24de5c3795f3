"""`holdfast db prune` as a person types it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from holdfast.model.jobs import JobDraft
from holdfast.model.time import HOUR
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.driver import Driver, step
from tests.cli.test_db import holdfast

pytestmark = pytest.mark.store("sqlite")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with a store: two jobs are over, one is not."""

    async def fill() -> None:
        clock = SystemClock()
        store = await open_store(f"sqlite:///{tmp_path / 'holdfast.db'}", migrating=True)
        await store.jobs.submit_many([JobDraft(kind="k", job_id=name) for name in ("one", "two", "three")])
        grants = await store.leases.claim(
            ClaimRequest(worker="w", token="t", queues=("default",), limit=2, ttl_us=HOUR)
        )
        for grant in grants:
            driver = Driver(store, clock, grant)
            await driver.write(step("s", result="said"))
            await driver.complete("done")
        await store.close()

    asyncio.run(fill())
    return tmp_path


def test_pruning_says_how_much(store: Path) -> None:
    dry = holdfast("db", "prune", "--older-than", "0s", "--dry-run", cwd=store)
    assert (dry.returncode, dry.stdout.split(":")[0]) == (0, "2 jobs would be erased")
    erased = json.loads(holdfast("db", "prune", "--older-than", "0s", "--yes", "--json", cwd=store).stdout)
    assert (erased["jobs"], erased["events"], erased["kept"]) == (2, 2, {})
    assert erased["size"] > 0
    assert "all hold" in holdfast("db", "verify", cwd=store).stdout
    removed = holdfast("db", "prune", "--older-than", "0s", "--remove", "--yes", cwd=store)
    assert removed.stdout.startswith("2 jobs removed: 8 events, ")
    status = json.loads(holdfast("db", "status", "--json", cwd=store).stdout)
    assert status["jobs"] == {"pending": 1}
    assert "all hold" in holdfast("db", "verify", cwd=store).stdout


def test_nothing_goes_unasked(store: Path) -> None:
    """Without --yes it asks, and no answer is no; what is young stays; nonsense is refused."""
    assert holdfast("db", "prune", "--older-than", "0s", cwd=store).returncode == 130
    assert holdfast("db", "prune", cwd=store).returncode == 2
    wrong = holdfast("db", "prune", "--older-than", "soon", "--yes", cwd=store)
    assert (wrong.returncode, "is not a duration" in wrong.stderr) == (2, True)
    young = holdfast("db", "prune", "--older-than", "1d", "--remove", "--yes", cwd=store)
    assert young.stdout.startswith("0 jobs removed")
    status = json.loads(holdfast("db", "status", "--json", cwd=store).stdout)
    assert status["jobs"] == {"completed": 2, "pending": 1}
