"""Processes for the checks of seed 002: one that works until it is killed, and crowds that come at once.

    python -m tests.acceptance.crew_002 WHAT DATABASE FOLDER [NUMBER …]

A crowd is forked from a warm parent that has never opened the store. Each of them leaves a JSON file in FOLDER; the
parent prints one JSON line when all of them are gone.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.kit import (
    CheckpointManager,
    Evidence,
    EvidencePack,
    EvidenceType,
    LeaseManager,
    RecoverySweep,
    ToolLedger,
    get_db,
)
from holdfast.store.sqlite.open import open_sqlite

assert callable(open_sqlite), "imported before the fork, so that a hundred children need not"

STEPS = 12
TASK = "report"


def say(**told: Any) -> None:
    print(json.dumps(told), flush=True)


# ── one that is killed ────────────────────────────────────────────────────────────────────────────


def checkpoints_for_ever(database: str, folder: str) -> None:
    """Checkpoint after checkpoint, each told only once it is durable."""
    manager = CheckpointManager(database, base_path=folder)
    number = 0
    while True:
        number += 1
        (Path(folder) / f"page-{number}").write_text(str(number))
        proof = Evidence(EvidenceType.ARTIFACT_EXISTS, "the page", {"path": f"page-{number}", "type": "file"})
        step = manager.begin_step(TASK, "iteration_end", {"number": number})
        say(committed=manager.commit_step(step, EvidencePack([proof])).sequence_number, number=number)


def hold_an_item(database: str, _folder: str, seconds: str) -> None:
    """Acquires a lease, says so, and never comes back."""
    item = LeaseManager(get_db(database), "worker-1", lease_duration_seconds=float(seconds)).acquire_lease()
    assert item is not None
    say(item=item.work_item_id)
    signal.pause()


def work(database: str, folder: str) -> None:
    """The whole errand: take the item, go on from the last point that holds, twelve pages, done."""
    db, place = get_db(database), Path(folder)
    RecoverySweep(db).scan_and_recover()
    item = LeaseManager(db, lease_duration_seconds=30)
    lease = item.acquire_lease(task_id_filter=TASK)
    assert lease is not None, "the item is free: done by nobody, or its worker is gone"
    manager, ledger = CheckpointManager(conn=db, base_path=place), ToolLedger(db)
    last = manager.get_last_verified_checkpoint(TASK)
    done = 0 if last is None else manager.rollback_to_checkpoint(last.checkpoint_id)["done"]
    say(resumed=done)
    for page in range(done + 1, STEPS + 1):
        step = manager.begin_step(TASK, "iteration_end", {"done": page}, work_item_id=lease.work_item_id)
        printed = ledger.execute_or_replay(
            "print", f"page {page}", partial(print_page, place, page), TASK, effect="idempotent"
        )
        proof = Evidence(EvidenceType.FILE_SHA256, "", {"path": printed["path"], "sha256": printed["sha256"]})
        manager.commit_step(step, EvidencePack([proof]))
        say(committed=page)
    item.release_lease(lease.work_item_id, success=True, output_data={"pages": STEPS})
    manager.finish_task(TASK, output={"pages": STEPS})
    say(finished=True)


def print_page(folder: Path, page: int) -> dict[str, str]:
    """A receiver that knows what it has: the same page again changes nothing."""
    path = folder / f"page-{page}.txt"
    content = f"page {page}\n" * 100
    if not path.exists():
        with (folder / "printed.log").open("a", encoding="utf-8") as log:
            log.write(f"{page}\n")
        path.write_text(content, encoding="utf-8")
    return {"path": path.name, "sha256": hashlib.sha256(content.encode()).hexdigest()}


# ── crowds ────────────────────────────────────────────────────────────────────────────────────────


def crowd(count: int, folder: str, one: Callable[[int], dict[str, Any]]) -> None:
    """Everybody has run; what they told is in the folder, and the parent says how many failed."""
    began = time.monotonic()
    members = [_forked(number, folder, one) for number in range(count)]
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in members)
    say(failed=failed, seconds=round(time.monotonic() - began, 2))


def _forked(number: int, folder: str, one: Callable[[int], dict[str, Any]]) -> int:
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nobody outlives the parent
    try:
        told = one(number)
        Path(folder, f"{number}.json").write_text(json.dumps(told))
    except BaseException as error:  # a child that fails must be seen, and must not return into its parent
        print(f"member {number} failed: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def writers(database: str, folder: str, count: str, each: str, shared: str) -> None:
    """So many processes, so many checkpoints each, on one task or on one each."""

    def one(number: int) -> dict[str, Any]:
        manager = CheckpointManager(database, base_path=folder)
        task = TASK if shared == "shared" else f"task-{number}"
        numbers, longest = [], 0.0
        for round_ in range(int(each)):
            began = time.monotonic()
            step = manager.begin_step(task, "iteration_end", {"writer": number, "round": round_})
            numbers.append(manager.commit_step(step).sequence_number)
            longest = max(longest, time.monotonic() - began)
        manager.db.close()
        return {"task": task, "numbers": numbers, "longest_s": longest}

    crowd(int(count), folder, one)


def workers(database: str, folder: str, count: str) -> None:
    """Workers that share items: each holds its first until all of them hold one, then they compete for the rest."""
    ready_r, ready_w = os.pipe()
    go_r, go_w = os.pipe()

    def one(number: int) -> dict[str, Any]:
        os.close(go_w)
        manager = LeaseManager(get_db(database), f"worker-{number}", lease_duration_seconds=300)
        first, done = manager.acquire_lease(), []
        os.write(ready_w, b"x")
        os.read(go_r, 1)  # ends when the parent closes its side
        item = first
        while item is not None:
            manager.release_lease(item.work_item_id, success=True, output_data={"by": number})
            done.append(item.work_item_id)
            item = manager.acquire_lease()
        manager.db.close()
        return {"done": done}

    began = time.monotonic()
    members = [_forked(number, folder, one) for number in range(int(count))]
    os.close(ready_w)
    waiting = int(count)
    while waiting and (told := os.read(ready_r, waiting)):
        waiting -= len(told)
    os.close(go_w)
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in members)
    say(failed=failed, seconds=round(time.monotonic() - began, 2))


WHAT: dict[str, Callable[..., None]] = {
    "checkpoints": checkpoints_for_ever,
    "hold": hold_an_item,
    "work": work,
    "writers": writers,
    "workers": workers,
}

if __name__ == "__main__":
    WHAT[sys.argv[1]](*sys.argv[2:])
