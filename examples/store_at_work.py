"""The store at work: a worker dies, another takes its job over, and the first one comes back too late.

Run it with `make demo`. Everything below is the real thing: a SQLite file, fenced appends, a hash-chained journal.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from holdfast.engine.verify.verify import verify
from holdfast.errors import Fenced
from holdfast.model.append import Holder, Move, after, append_of
from holdfast.model.chain import Head, unseal
from holdfast.model.events import Event, JobCompleted, StepFinished
from holdfast.model.ids import RandomIds
from holdfast.model.jobs import JobDraft
from holdfast.model.lease import Grant
from holdfast.model.states import Status
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimAsk
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore

MILLISECOND = 1000


def holder_of(grant: Grant) -> Holder:
    return Holder(
        grant.job_id, grant.namespace, grant.fence, grant.lease_token, Head(grant.head_seq, grant.head_hash)
    )


async def write(store: SqlStore, holder: Holder, *events: Event, move: Move | None = None) -> Holder:
    append = append_of(holder, events, at=SystemClock().wall_us(), move=move)
    await store.journal.append(append)
    return after(holder, append)


async def claim(store: SqlStore, worker: str, ttl_us: int) -> Grant:
    """The job, as soon as it can be had."""
    while True:
        token = RandomIds().new("lease")
        granted = await store.leases.claim(
            ClaimAsk(worker=worker, token=token, queues=("default",), ttl_us=ttl_us)
        )
        if granted:
            return granted[0]
        await store.wakeups.wait(frozenset({"queue:default"}), 0.01)


async def main(folder: Path) -> None:
    path = folder / "demo.db"
    store = await open_sqlite(path, clock=SystemClock(), ids=RandomIds())
    info = await store.info()
    print(f"a store in one file: {path.name}, tier {info.tier}, SQLite {info.details['library']}\n")

    job = await store.jobs.submit(JobDraft(kind="report", input={"for": "ada"}, request_key="report-42"))
    again = await store.jobs.submit(JobDraft(kind="report", input={"for": "ada"}, request_key="report-42"))
    print(f"submitted twice under one key: one job ({job.job_id == again.job_id})")

    first = await claim(store, "worker-1", ttl_us=50 * MILLISECOND)
    zombie = await write(
        store, holder_of(first), StepFinished(step_key="0/fetch#1", args_digest="a1", result="rows")
    )
    print(f"worker-1 holds it under fence {first.fence} and finishes a step, then falls silent")

    second = await claim(store, "worker-2", ttl_us=30_000 * MILLISECOND)
    print(f"worker-2 takes over under fence {second.fence} (takeover: {second.takeover})")
    done = Move(status=Status.COMPLETED)
    await write(store, holder_of(second), JobCompleted(output="report for ada"), move=done)

    try:
        await write(store, zombie, StepFinished(step_key="0/send#1", args_digest="b2", result="sent"))
    except Fenced as refused:
        print(f"worker-1 wakes up and writes: refused, [{refused.code}] {refused}\n")

    print("the journal, from its first event to its last:")
    for event in await store.journal.read(job.job_id):
        print(f"  {event.seq}  fence …{event.fence % 2**32}  {event.type:<14} {_told(unseal(event))}")
    report = await verify(store)
    print(
        f"\n{report.checks} invariants checked over {report.events} events: {'all hold' if report.clean else 'BROKEN'}"
    )
    await store.close()
    if not report.clean:
        raise SystemExit(1)


def _told(event: Event) -> str:
    text = str(event)
    return text[text.index("(") : 60]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(main(Path(scratch)))
