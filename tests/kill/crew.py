"""Workers that are killed with -9 again and again: a warm parent forks them, and never touches the store itself.

    python -m tests.kill.crew STORE WORLD KILLS SEED

The parent prints one JSON line: how often it killed. What the workers did to the outside is in the WORLD file, one line
each, appended; the judge reads that and the store, after everybody is gone.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.engine.runner_config import RunnerConfig
from holdfast.engine.suspension import sleep
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobFilter, JobRecord
from holdfast.model.mailbox import MailDraft
from holdfast.model.retry import Backoff
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import HOUR, MILLISECOND
from holdfast.runtime import open_store
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.worker.worker import Worker

TTL_US = 400 * MILLISECOND
WORKERS = 2
CONCURRENCY = 6
ATTEMPTS = 100
KEYED = CallPolicy(effect=Effect.IDEMPOTENT, key_lifetime_us=HOUR)


class World:
    """Receivers that keep a log of their own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def note(self, what: str, key: str) -> None:
        with Path(self.path).open("ab", buffering=0) as log:
            log.write(f"{what} {key}\n".encode())

    def has(self, key: str) -> bool:
        return any(line.split()[1] == key for line in Path(self.path).read_text().splitlines())

    async def keyed(self, key: str) -> str:
        await asyncio.sleep(random.uniform(0, 0.004))
        if not self.has(key):
            self.note("keyed", key)
        await asyncio.sleep(random.uniform(0, 0.004))
        return key

    async def plain(self, key: str) -> str:
        await asyncio.sleep(random.uniform(0, 0.004))
        self.note("plain", key)
        await asyncio.sleep(random.uniform(0, 0.004))
        return key

    async def look(self, _key: str) -> str:
        await asyncio.sleep(random.uniform(0, 0.003))
        return "seen"


def program(world: World) -> Callable[[Execution, Any], Coroutine[Any, Any, Any]]:
    async def errand(drive: Execution, given: Any) -> Any:
        async def branch(name: str) -> list[Any]:
            first = await drive.call(DurableCall("look", [name, 1], world.look, READS))
            sent = await drive.call(DurableCall("send", [name, first], world.keyed, KEYED))
            return [sent, await drive.call(DurableCall("look", [name, 2], world.look, READS))]

        branches = await asyncio.gather(branch("a"), branch("b"))
        paid = await drive.call(DurableCall("pay", [given], world.plain))
        await sleep(drive, 5 * MILLISECOND)
        return [given, branches, paid]

    return errand


async def work(store_address: str, world: World) -> None:
    store = await open_store(store_address)
    clock = SystemClock()
    desk = RunnerConfig(
        store,
        GroupCommit(store.journal),
        clock,
        {"errand": program(world)},
        Backoff(attempts=ATTEMPTS),
    )
    ids = RandomIds()
    name = f"worker-{os.getpid()}"
    renewal = LeaseRenewal(name, clock, lambda: ids.new("lease"), ttl_us=TTL_US)
    worker = Worker(desk, name, lambda: ids.new("claim"), concurrency=CONCURRENCY, renewal=renewal)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    await worker.work()
    await store.close()


async def settle(store_address: str, has: Callable[[str], bool]) -> None:
    """Whatever waits for a person's word gets it, from somebody who looked. Ends when every job is over."""
    store = await open_store(store_address)
    ids = RandomIds()
    while True:
        left = [job for job in await all_jobs(store) if job.status is not Status.COMPLETED]
        if not left:
            break
        for job in left:
            if job.wait_reason is not WaitReason.RECONCILE:
                continue
            for row in await store.ledger.list(job.job_id, status=CallStatus.UNCERTAIN):
                happened = has(row.idempotency_key)
                body = {
                    "step_key": row.step_key,
                    "generation": row.generation,
                    "decision": "happened" if happened else "not_happened",
                    "why": "the receiver's log",
                    "result": row.idempotency_key,
                }
                await store.post.send(
                    MailDraft(
                        job_id=job.job_id, kind=MailKind.RECONCILE, operation_id=ids.new("op"), body=body
                    )
                )
        await store.wakeups.wait(frozenset({f"job:{job.job_id}" for job in left[:1]}), 0.1)
    await store.close()


async def all_jobs(store: Store) -> list[JobRecord]:
    jobs: list[JobRecord] = []
    cursor = None
    while True:
        page = await store.jobs.list(JobFilter(), limit=500, cursor=cursor)
        jobs += page.items
        cursor = page.next
        if cursor is None:
            return jobs


async def warmed_up(store_address: str) -> None:
    """What children need is imported and prepared before the first of them is forked; nothing is left open."""
    store = await open_store(store_address)
    await store.jobs.list(JobFilter(), limit=1)
    await store.close()


def forked(run: Callable[[], Coroutine[Any, Any, None]]) -> int:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: nobody outlives the parent
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        random.seed(os.getpid())
        try:
            asyncio.run(run())
        except BaseException as error:  # a child that fails must be seen, and must not return into its parent
            print(f"child failed: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid


def _until_something_happens(world: World) -> None:
    """A receiver was told something: on a busy machine a kill before that would interrupt nobody."""
    log = Path(world.path)
    size = log.stat().st_size if log.exists() else 0
    give_up = time.monotonic() + 0.1
    while (log.stat().st_size if log.exists() else 0) == size and time.monotonic() < give_up:
        time.sleep(0.001)


def main(store_address: str, world_path: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    world = World(world_path)
    workers = [forked(lambda: work(store_address, world)) for _ in range(WORKERS)]
    for _ in range(kills):
        _until_something_happens(world)
        time.sleep(chance.uniform(0.01, 0.12))
        place = chance.randrange(WORKERS)
        os.kill(workers[place], signal.SIGKILL)
        os.waitpid(workers[place], 0)
        workers[place] = forked(lambda: work(store_address, world))
    settler = forked(lambda: settle(store_address, world.has))
    _, status = os.waitpid(settler, 0)
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
    print(json.dumps({"kills": kills, "settled": status == 0}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
