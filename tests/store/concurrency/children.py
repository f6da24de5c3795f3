"""What the child processes of races do. Each role is a function; it speaks in lines of JSON and obeys lines of text.

python -m tests.store.concurrency.children ROLE '{"store": "sqlite", "address": "/tmp/store.db"}'
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.append import Append, Extras, Move, Timer
from holdfast.model.events import JobCompleted, JobReleased
from holdfast.model.jobs import JobDraft
from holdfast.model.states import Status
from holdfast.model.time import SECOND
from holdfast.store.contract import Store
from holdfast.store.executor import Transaction
from holdfast.store.sqlite.write_lock import WriteLock
from holdfast.store.tables.jobs import submit_in
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.drafts import LARGE, call_row, intent_of
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import PATIENCE_S, Place, driving, open_at, opened, taken

MARK = "written by a process that had been asleep"


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def listen() -> str:
    return sys.stdin.readline().strip()


def freeze() -> None:
    """This process stops right here, as a laptop's lid or a supervisor would stop it."""
    os.kill(os.getpid(), signal.SIGSTOP)


# ── a worker that sleeps through its lease ────────────────────────────────────────────────────────


async def sleeper(place: Place, queue: str, ttl_us: int, kept_queue: str) -> None:
    """Claim a job for each way of writing, freeze right before the first write, and then try them all."""
    async with opened(place) as store:
        drivers = await taken(store, queue, limit=len(WRITES), ttl_us=ttl_us, worker="sleeper")
        kept = await taken(store, kept_queue, ttl_us=ttl_us, worker="sleeper")
        appends = [write(driver) for write, driver in zip(WRITES, drivers, strict=True)]
        late = kept[0].build(step("late, and nobody took the job"))
        say(jobs=[driver.job_id for driver in drivers], kept=kept[0].job_id)
        freeze()
        alone, *batch = appends
        said = [
            await _outcome(store.journal.append(alone)),
            *(map(_word, await store.journal.append_many(batch))),
        ]
        renewed = await store.leases.renew([driver.held for driver in drivers + kept], ttl_us=60 * SECOND)
        say(outcomes=said, renewed=sorted(renewed), late=await _outcome(store.journal.append(late)))


WRITES: tuple[Callable[[Driver], Append], ...] = (
    lambda driver: driver.build(step("alone", MARK)),
    lambda driver: driver.build(step("in a batch", MARK)),
    lambda driver: driver.build(step("with a blob", MARK + LARGE)),
    lambda driver: driver.build(step("with a timer", MARK), extras=Extras(timers=(Timer("1/sleep#1", 7),))),
    lambda driver: driver.build(
        intent_of(call_row(driver, "1/mail#1")), extras=Extras(calls=(call_row(driver, "1/mail#1"),))
    ),
    lambda driver: driver.build(JobReleased(why=MARK), move=Move(status=Status.PENDING)),
    lambda driver: driver.build(JobCompleted(output=MARK), move=Move(status=Status.COMPLETED)),
)


async def _outcome(call: Awaitable[object]) -> str:
    try:
        return _word(await call)
    except HoldfastError as error:
        return error.code


def _word(outcome: object) -> str:
    return outcome.code if isinstance(outcome, HoldfastError) else "accepted"


# ── at the turnstile ──────────────────────────────────────────────────────────────────────────────


async def turn_holder(place: Place) -> None:
    """Take the turn and keep it."""
    WriteLock(Path(place.address)).enter()
    say(inside=True)
    listen()


async def turn_waiter(place: Place) -> None:
    """Ask for the turn while somebody else has it, which takes a place in the line."""
    turnstile = WriteLock(Path(place.address))
    say(asking=True)
    turnstile.enter()
    say(inside=True)
    listen()


async def alternator(place: Place, name: str, turns: int, log: str) -> None:
    """Take so many turns, each time not leaving before the other one stands in the line or has finished."""
    turnstile = WriteLock(Path(place.address))
    done = Path(log + ".done")
    say(ready=True)
    listen()
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for _ in range(turns):
        turnstile.enter()
        while not done.exists() and in_line(place) <= (turnstile._ticket is not None):
            os.sched_yield()
        os.write(written, (name.upper() if done.exists() else name).encode())
        turnstile.leave()
    os.close(written)
    done.touch()
    say(done=True)


def is_free(place: Place) -> bool:
    """Whether nobody has the turn, seen from outside."""
    lock = os.open(f"{place.address}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def in_line(place: Place) -> int:
    """How many have a place in the line, seen from outside: those who wait, and who writes, if it had to wait."""
    inode = str(Path(f"{place.address}-gate").stat().st_ino)
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(line[1] == "OFDLCK" and line[5].rpartition(":")[2] == inode for line in lines)


async def half_writer(place: Place, request_key: str) -> None:
    """Write a job and freeze before the commit, in the middle of the transaction; the first time, not in a retry."""
    tries = itertools.count()

    async def work(tx: Transaction) -> None:
        await submit_in(tx, JobDraft(kind="work", job_id=request_key, request_key=request_key))
        if next(tries) == 0:
            say(inside=True)
            freeze()

    async with opened(place) as store:
        assert isinstance(store, SqlStore)
        await store.executor.write(work)
        say(done=True)


# ── hints ─────────────────────────────────────────────────────────────────────────────────────────


async def waiter(place: Place, topics: list[str]) -> None:
    """Wait for these topics, and say what came, whenever told to."""
    async with opened(place) as store:
        await store.wakeups.wait(frozenset(topics), 0.0)  # from now on nothing is missed
        say(pid=os.getpid())
        while listen() == "go":
            await say_what_comes(store, topics)


async def say_what_comes(store: Store, topics: list[str]) -> None:
    say(heard=sorted(await store.wakeups.wait(frozenset(topics), PATIENCE_S)))


# ── over a fork ───────────────────────────────────────────────────────────────────────────────────


async def forker(place: Place) -> None:
    """Open the store, fork, and use it in the child in every way; then go on using it here, and wait for a hint."""
    store = await open_at(place)
    (driver,) = await driving(store)
    append = driver.build(step("by the parent"))
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            said = _in_a_new_loop(store, append)
        except BaseException as error:
            said = {"failed": repr(error)}
        os.write(writing, json.dumps(said).encode())
        os._exit(0)
    said = json.loads(os.read(reading, 1 << 16))
    head = await store.journal.append(append)
    say(child=said, accepted=head == append.head, events=len(await store.journal.read(driver.job_id)))
    await say_what_comes(store, ["queue:after the fork"])
    await store.close()


def _in_a_new_loop(store: Store, append: Append) -> dict[str, str]:
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "write": lambda: store.jobs.submit(JobDraft(kind="work")),
        "append": lambda: store.journal.append(append),
        "read": lambda: store.journal.read(append.job_id),
        "brief read": lambda: store.jobs.head(append.job_id),
        "snapshot": lambda: store.inbox.list("session"),
        "close": store.close,
    }

    async def outcome(call: Callable[[], Awaitable[object]]) -> str:
        return await _outcome(call())

    return {name: asyncio.run(outcome(call)) for name, call in calls.items()}


ROLES: dict[str, Callable[..., Awaitable[None]]] = {
    role.__name__: role
    for role in (sleeper, turn_holder, turn_waiter, alternator, half_writer, waiter, forker)
}


def main(role: str, arguments: str) -> None:
    told = json.loads(arguments)
    place = Place(told.pop("store"), told.pop("address"))
    asyncio.run(_run(ROLES[role], place, told))


async def _run(role: Callable[..., Awaitable[None]], place: Place, told: dict[str, Any]) -> None:
    await role(place, **told)


if __name__ == "__main__":
    main(*sys.argv[1:])
