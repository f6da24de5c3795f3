"""Workers that are frozen at a chosen point, lose their job to another, and then go on.

    python -m tests.kill.frozen_workers.crew STORE FOLDER WAKE

For each kind of mail and each point one worker is forked. It claims its job and stops itself there with SIGSTOP. Once
all are stopped another worker starts, and takes over. The zombies are continued, by WAKE:

    nap         before anybody could take over: their leases are long
    taken       when their jobs belong to somebody else, who may be waiting for them to be surely quiet
    finished    when everything is done that can be done without a person

Then somebody says of every uncertain call what its receiver knows. The parent, which holds no store open, prints one
line of JSON: what each zombie said of itself, and how many mails had gone out before anybody said a word.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from holdfast.engine.crash_points import Point, Points, ignore_point
from holdfast.engine.durable_call import READS, CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.group_commit import GroupCommit
from holdfast.engine.lease_renewal import LeaseRenewal
from holdfast.engine.runner_config import Program, RunnerConfig
from holdfast.errors import HoldfastError
from holdfast.model.events import JobClaimed
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobRecord
from holdfast.model.lease import LEASE_TTL_US
from holdfast.model.side_effects import Effect
from holdfast.model.states import Status, WaitReason
from holdfast.model.time import HOUR, MILLISECOND, SECOND
from holdfast.runtime import open_store
from holdfast.store import address
from holdfast.store.clock import SystemClock
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.worker.worker import Worker
from tests.kill.crew import all_jobs, forked, settle, warmed_up
from tests.store.concurrency.children import freeze, is_free
from tests.store.concurrency.stores import Place
from tests.support.fixtures.file_receivers import FiledMail

POINTS: Final = (Point.BEFORE_INTENT, Point.AFTER_INTENT, Point.AFTER_SUCCESS, Point.BEFORE_LEDGER)
EFFECTS: Final = (Effect.IDEMPOTENT, Effect.VERIFIABLE, Effect.UNSAFE)
SHORT_TTL_US: Final = 1500 * MILLISECOND
START_WITHIN_US: Final = {"nap": 20 * SECOND, "taken": 4 * SECOND, "finished": 1 * SECOND}
"""Woken when it is `taken`, a zombie could still be in time by its deadline: only the lost lease stops it."""


def kind_of(effect: Effect, point: Point) -> str:
    return f"{effect}:{point}"


CASES: Final = {
    kind_of(effect, point): (effect, point) for effect, point in itertools.product(EFFECTS, POINTS)
}


def program(effect: Effect, mail: FiledMail, start_within_us: int) -> Program:
    """Write a text, mail it."""
    terms = CallPolicy(
        effect=effect,
        key_lifetime_us=HOUR,
        probe=mail.probe if effect is Effect.VERIFIABLE else None,
        longest_call_us=300 * MILLISECOND,
        start_within_us=start_within_us,
        quiet_margin_us=200 * MILLISECOND,
    )

    async def errand(drive: Execution, given: Any) -> Any:
        async def write(_key: str) -> str:
            return f"Dear {given}"

        async def send(key: str) -> str:
            return await mail.send("keyed" if effect is Effect.IDEMPOTENT else "plain", key, text)

        text = await drive.call(DurableCall("write", [given], write, READS))
        return await drive.call(DurableCall("send_mail", [text], send, terms))

    return errand


def desk_of(store: Store, programs: Mapping[str, Program], points: Points = ignore_point) -> RunnerConfig:
    return RunnerConfig(
        store,
        GroupCommit(store.journal),
        SystemClock(),
        programs,
        strict=True,  # nothing is on its way to the disk when the process stops
        points=points,
    )


class Zombie(logging.Handler):
    """A worker that stops at its point, and what it says of itself after that."""

    def __init__(self, kind: str, store_address: str) -> None:
        super().__init__()
        self._kind = kind
        self._place = address.parse(store_address)
        self._frozen = False
        self._ended = asyncio.Event()
        self.said: dict[str, Any] = {"kind": kind, "lost": None, "writes": []}
        logging.getLogger("holdfast.worker").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "was taken over by another worker" in record.getMessage():
            self.said["lost"] = record.getMessage()
            self._ended.set()

    def reached(self, point: Point, tool: str) -> None:
        if point is CASES[self._kind][1] and tool == "send_mail" and not self._frozen:
            self._frozen = True
            # Frozen inside a write it would hold up everybody: that is another test. What a thread has begun, it ends.
            while self._place.kind == "sqlite" and not is_free(Place("sqlite", str(self._place.path))):
                os.sched_yield()
            freeze()

    async def led(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = await call(*args, **options)
        if name == "journal.append_many" and self._frozen:
            for append, outcome in zip(args[0], result, strict=True):
                word = outcome.code if isinstance(outcome, HoldfastError) else "accepted"
                self.said["writes"].append(word)
                if append.move is not None and word == "accepted":
                    self._ended.set()
        return result

    async def work(
        self, store_address: str, programs: Mapping[str, Program], ttl_us: int, said: Path
    ) -> None:
        store = InterceptedStore(await open_store(store_address), self.led)
        desk = desk_of(store, {self._kind: programs[self._kind]}, self.reached)
        ids = RandomIds()
        name = f"zombie-{os.getpid()}"
        renewal = LeaseRenewal(name, desk.clock, lambda: ids.new("lease"), ttl_us=ttl_us)
        worker = Worker(desk, name, lambda: ids.new("claim"), concurrency=1, renewal=renewal)
        working = asyncio.create_task(worker.work())
        await self._ended.wait()
        worker.drain()
        await working
        await store.close()
        with said.open("ab", buffering=0) as log:
            log.write(json.dumps(self.said).encode() + b"\n")


async def rescue(store_address: str, programs: Mapping[str, Program]) -> None:
    store = await open_store(store_address)
    ids = RandomIds()
    worker = Worker(desk_of(store, programs), f"rescuer-{os.getpid()}", lambda: ids.new("claim"))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    await worker.work()
    await store.close()


async def until_all(
    store_address: str, is_so: Callable[[Store, JobRecord], Coroutine[Any, Any, bool]]
) -> None:
    """Ends when it is so for every job."""
    store = await open_store(store_address)
    while not all([await is_so(store, job) for job in await all_jobs(store)]):
        await store.wakeups.wait(frozenset({"queue:default"}), 0.05)
    await store.close()


async def is_taken(store: Store, job: JobRecord) -> bool:
    return [event.type for event in await store.journal.read(job.job_id)].count(JobClaimed.type) > 1


async def is_finished(_store: Store, job: JobRecord) -> bool:
    return job.status is Status.COMPLETED or job.wait_reason is WaitReason.RECONCILE


def ended(pid: int) -> bool:
    """Whether the child has ended well."""
    return os.waitpid(pid, 0)[1] == 0


def main(store_address: str, folder: str, wake: str) -> None:
    mail, said = FiledMail(Path(folder) / "mail.log"), Path(folder) / "said.log"
    programs = {kind: program(effect, mail, START_WITHIN_US[wake]) for kind, (effect, _) in CASES.items()}
    asyncio.run(warmed_up(store_address))
    ttl_us = LEASE_TTL_US if wake == "nap" else SHORT_TTL_US

    async def zombie(kind: str) -> None:
        await Zombie(kind, store_address).work(store_address, programs, ttl_us, said)

    zombies = {kind: forked(lambda kind=kind: zombie(kind)) for kind in CASES}  # type: ignore[misc]
    for kind, pid in zombies.items():
        seen = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert seen is not None
        assert seen.si_code == os.CLD_STOPPED, f"the worker of {kind} came past its point"
    rescuer = forked(lambda: rescue(store_address, programs))
    is_so = {"taken": is_taken, "finished": is_finished}.get(wake)
    if is_so is not None:
        assert ended(forked(lambda: until_all(store_address, is_so)))
    for pid in zombies.values():
        os.kill(pid, signal.SIGCONT)
    well = [ended(pid) for pid in zombies.values()]
    assert ended(forked(lambda: until_all(store_address, is_finished)))
    before = {kind: mail.count("mail", kind) for kind in CASES}
    assert ended(forked(lambda: settle(store_address, mail.has)))
    os.kill(rescuer, signal.SIGTERM)
    assert ended(rescuer)
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    print(json.dumps({"well": all(well), "before": before, "said": {line["kind"]: line for line in lines}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
