"""Many processes write to one SQLite file: Holdfast, and raw SQLite in two ways. Driven by lines, as peers are.

    python -m bench.writers holdfast '{"address": …}'

A write is a submitted job for Holdfast, a row in a transaction of its own for the raw ones: `flock` takes turns at a
lock file, as Holdfast does, `busy` leaves it to SQLite's busy handler.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.contest import Contestant
from bench.material import AT, BODY, FENCE, HASH
from bench.peers import Lines
from bench.peers.line import Storm, Told, main
from bench.places import File, Place
from bench.raw import sqlite
from holdfast.model.jobs import JobDraft
from holdfast.store.sqlite import filesystem
from holdfast.store.sqlite.connection import check_file_is_ours, connect, make_durable

BUSY_MS = 30_000


class Submitted(Storm):
    def open(self) -> None:
        asyncio.run(self._count())

    def writer(self, nth: int) -> Callable[[int], object]:
        runner = asyncio.Runner()
        store = runner.run(self._store())
        return lambda number: runner.run(store.jobs.submit(JobDraft(kind="bench", input={"number": number})))

    async def _store(self) -> Any:
        return await File(_get_path(self.told)).open_store()

    async def _count(self) -> int:
        store = await self._store()
        try:
            return sum((await store.jobs.counts()).values())
        finally:
            await store.close()

    def count(self) -> dict[str, int]:
        return {"jobs": asyncio.run(self._count())}


class Raw(Storm):
    """Rows of different writers have different jobs."""

    turns = False

    def open(self) -> None:
        path = _get_path(self.told)
        filesystem.make_private(path)
        db = connect(path)
        check_file_is_ours(db, path)
        make_durable(db)
        db.execute(sqlite.EVENTS)
        db.close()
        self.lap = 0

    def begin(self) -> None:
        self.lap += 1
        super().begin()

    def writer(self, nth: int) -> Callable[[int], object]:
        db = connect(_get_path(self.told))
        make_durable(db)
        db.set_busy_timeout(BUSY_MS)
        lock = Path(f"{_get_path(self.told)}-turns").open("w")  # noqa: SIM115 - held as long as the process
        job_id = f"job-{self.lap}-{nth}"

        def write(number: int) -> None:
            if self.turns:
                fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                db.execute("BEGIN IMMEDIATE")
                db.execute(
                    sqlite.INSERT_EVENT, (job_id, number, "step_finished", 1, FENCE, AT, BODY, HASH, HASH)
                )
                db.execute("COMMIT")
            finally:
                if self.turns:
                    fcntl.flock(lock, fcntl.LOCK_UN)

        return write

    def count(self) -> dict[str, int]:
        db = connect(_get_path(self.told))
        try:
            return {"jobs": int(db.execute("SELECT count(*) FROM events").get)}
        finally:
            db.close()


class Turns(Raw):
    turns = True


def _get_path(told: Told) -> Path:
    return Path(told.address.removeprefix("sqlite:///"))


# ── as contestants ────────────────────────────────────────────────────────────────────────────────


class Writers(Lines):
    """One of the above, in a process of its own."""

    def program(self) -> list[str]:
        return [sys.executable, "-m", "bench.writers"]


OURS = {
    "flock": "raw, turns at a lock file",
    "busy": "raw, SQLite's busy handler",
    "holdfast": "holdfast, submitted jobs",
}


def writers(work: str, told: dict[str, Any]) -> Callable[[Place], Contestant]:
    return lambda place: Writers(place, OURS[work], work, told)


if __name__ == "__main__":
    main({"holdfast": Submitted, "flock": Turns, "busy": Raw})
