"""Goal: a process that dies in the middle of a write stops nobody and leaves nothing. Method: kill -9 one that holds
the turn to write, the database's write lock, and half a transaction in the log.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import StoreBusy
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft
from holdfast.store.clock import VirtualClock
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore
from tests.store.disk_faults.conftest import FreshCopy
from tests.store.power_cut.evidence import Eye

pytestmark = pytest.mark.store("sqlite")

HALF_WAY = """
import sys
from pathlib import Path
from holdfast.store.sqlite.connection import connect
from holdfast.store.sqlite.write_lock import WriteLock

path = Path(sys.argv[1])
connection = connect(path)
connection.execute("PRAGMA cache_size = 2")         # so that much of the transaction is in the log already
WriteLock(path).enter()
connection.execute("BEGIN IMMEDIATE")
for number in range(100):
    connection.execute("INSERT INTO namespaces VALUES (?, 0)", (f"half {number} " + "x" * 2000,))
print("half way", flush=True)
sys.stdin.read()
"""


class Victim:
    """A process in the middle of a write."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HALF_WAY, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "half way\n"

    def kill(self) -> None:
        with self._process:
            self._process.kill()


async def _open(path: Path, patience_s: float = 60.0) -> SqlStore:
    return await open_sqlite(path, clock=VirtualClock(), ids=SequentialIds(1), patience_s=patience_s)


async def test_others_go_on_after_a_kill(fresh_copy: FreshCopy) -> None:
    """Goal: the others wait while it lives and go on when it is dead. Method: a write that waits, then the kill."""
    path = fresh_copy()
    store = await _open(path)
    before = Eye().look(path)
    victim = Victim(path)
    try:
        assert path.with_name(f"{path.name}-wal").stat().st_size > 100_000, "much of it is in the log"
        waiting = asyncio.create_task(store.jobs.submit(JobDraft(kind="work")))
        done, _ = await asyncio.wait({waiting}, timeout=0.1)
        assert not done, "it waits for its turn"
        assert Eye().look(path) == before, "readers are not held up, and see nothing of it"
    finally:
        victim.kill()
    assert (await asyncio.wait_for(waiting, 60)).created
    assert [record.namespace for record in await store.namespaces.list()] == ["default"]
    await store.close()
    assert Eye().look(path).damage == ()


async def test_new_store_opens_after_a_kill(fresh_copy: FreshCopy) -> None:
    """Goal: the last one to die leaves nothing to clean up. Method: kill it while nobody else is there, then open."""
    path = fresh_copy()
    before = Eye().look(path)
    Victim(path).kill()
    store = await _open(path)
    assert (await store.jobs.submit(JobDraft(kind="work"))).created
    assert [record.namespace for record in await store.namespaces.list()] == ["default"]
    await store.close()
    assert Eye().look(path).damage == before.damage == ()


async def test_waiting_has_an_end(fresh_copy: FreshCopy) -> None:
    """Goal: nobody waits for ever for one that is stuck, and busy means that nothing was written. Method: little
    patience and a writer that does not end; then it is killed and the same call succeeds.
    """
    path = fresh_copy()
    store = await _open(path, patience_s=0.05)
    victim = Victim(path)
    try:
        with pytest.raises(StoreBusy) as refused:
            await store.jobs.submit(JobDraft(kind="work", request_key="r-1"))
        assert (refused.value.code, refused.value.retry) == ("store_busy", True)
    finally:
        victim.kill()
    await store.close()
    store = await _open(path)
    assert (await store.jobs.submit(JobDraft(kind="work", request_key="r-1"))).created, (
        "nothing had been written"
    )
    await store.close()
