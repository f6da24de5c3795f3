"""Processes that migrate: several at once, or one that is killed on the way.

`python -m tests.operations.migration.victims` is a kennel. It has loaded everything, takes one order a line, forks for
it, and says what became of its children. A fork is ready in a millisecond, where a new interpreter takes half a second.

A child that is to die counts its *moments*: every call and return that Python sees. On SQLite each step of the
database's own machine and each write to the file is one of these too, so it also dies inside a statement and between
the writes of a commit. At the given moment it sends itself SIGKILL, which no process can tell from anybody else's.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from holdfast.store.sql.migrate import Schema, migrate
from holdfast.store.sqlite.schema import SqliteSchema
from tests.operations.migration.grounds import PostgresGround, SqliteGround, ground_at
from tests.operations.migration.next_migrations import all_migrations
from tests.store.power_cut.recording_disk import PowerCutDisk

STEPS_A_MOMENT = 25


# ── one that dies ─────────────────────────────────────────────────────────────────────────────────


def die(moment: int, **place: str) -> dict[str, Any]:
    """How the process ended that migrates this place, and after how many moments if it lived."""
    pid, answer = _forked(lambda: asyncio.run(_migrate(ground_at(**place), moment)))
    return _ending(pid, answer)


async def _migrate(ground: SqliteGround | PostgresGround, moment: int) -> int:
    with PowerCutDisk("counted") as disk:
        async with ground.schema(vfs=disk.name) as schema:
            return await _counted(schema, ground, moment)


async def _counted(schema: Schema, ground: SqliteGround | PostgresGround, moment: int) -> int:
    count = 0

    def tick(*_: object) -> None:
        nonlocal count
        count += 1
        if count == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    if isinstance(schema, SqliteSchema):
        schema._connection.set_progress_handler(lambda: False, STEPS_A_MOMENT)
    sys.setprofile(tick)
    try:
        await migrate(schema, all_migrations(ground.dialect))
    finally:
        sys.setprofile(None)
    return count


# ── several at once ───────────────────────────────────────────────────────────────────────────────


def race(count: int, **place: str) -> list[dict[str, Any]]:
    """How the processes ended that opened this place at the same time."""
    start, hold = os.pipe()

    def run() -> str:
        os.close(hold)
        os.read(start, 1)  # until the kennel has closed the other end, which all of them see at once
        return asyncio.run(_open(ground_at(**place)))

    children = [_forked(run) for _ in range(count)]
    os.close(start)
    os.close(hold)
    return [_ending(*child) for child in children]


async def _open(ground: SqliteGround | PostgresGround) -> str:
    store = await ground.open()
    try:
        return (await store.info()).store_id
    finally:
        await store.close()


# ── forks ─────────────────────────────────────────────────────────────────────────────────────────


def _forked(work: Callable[[], object]) -> tuple[int, int]:
    """A child that does this work, and the pipe by which it answers."""
    answer, mine = os.pipe()
    pid = os.fork()
    if pid:
        os.close(mine)
        return pid, answer
    status = 1
    try:
        os.write(mine, json.dumps(work()).encode())
        status = 0
    except BaseException:
        os.write(mine, json.dumps(traceback.format_exc()).encode())
    finally:
        os._exit(status)


def _ending(pid: int, answer: int) -> dict[str, Any]:
    with os.fdopen(answer, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return {"code": code, "said": json.loads(said) if said else None}


ORDERS: dict[str, Callable[..., object]] = {"die": die, "race": race}


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        sys.stdout.write(json.dumps(ORDERS[order.pop("do")](**order)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
