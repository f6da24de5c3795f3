"""The sweep and the proof of death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import msgspec
import pytest

from holdfast.engine.host_processes import HostProcesses
from holdfast.engine.recovery import RecoveryRules, SweepStats, prove_dead, sweep
from holdfast.errors import StoreUnavailable
from holdfast.model.crash_suspects import lone_label
from holdfast.model.events import JobDeadLettered, JobRequeued
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE, SECOND
from holdfast.model.worker_identity import Identity, ProcessStatus, identity_in, worker_name
from holdfast.store.clock import SystemClock
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance import Backend, bench_on
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench
from tests.support.fixtures.stores import STORES

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)


def figures(stats: SweepStats) -> dict[str, float]:
    told = msgspec.structs.asdict(stats)
    assert told.pop("scan_duration_ms") >= 0
    return told


async def lose(bench: Bench, count: int, *, worker: str = "gone") -> list[str]:
    """The ids of claimed jobs whose lease is over."""
    await bench.store.jobs.submit_many([JobDraft(kind="work", queue="lost") for _ in range(count)])
    ask = ClaimRequest(worker=worker, token=bench.fresh("t"), queues=("lost",), limit=count, ttl_us=SECOND)
    granted = await bench.store.leases.claim(ask)
    bench.clock.advance(2 * SECOND)
    return [grant.job_id for grant in granted]


def test_the_statistics_are_the_seeds() -> None:
    assert list(SweepStats.__struct_fields__) == (
        "expired_found recovered failed checkpoints_created errors scan_duration_ms".split()
    )


@on_every_store
async def test_two_recoveries_then_a_dead_letter(backend: Backend) -> None:
    """Let a job lose its holder three times under rules for one item at a time: twice it is queued again, the third
    time it is held with the causes."""
    async with bench_on(backend) as bench:
        (job_id,) = await lose(bench, 1)
        for takeovers in (1, 2):
            stats = await sweep(bench.store, bench.clock, RecoveryRules(takeovers_max=3, by="sweeper"))
            assert figures(stats) | {"recovered": 1, "expired_found": 1} == figures(stats)
            assert stats.failed == stats.errors == 0
            head = await bench.store.jobs.head(job_id)
            assert (head.status, head.takeovers) == (Status.PENDING, takeovers)
            fact = unseal((await bench.store.journal.read(job_id))[-1])
            assert fact == JobRequeued("its lease ran out", "sweeper", takeover=True, holder="gone")
            await bench.grants("gone", queues=("lost",), ttl_us=SECOND)
            bench.clock.advance(2 * SECOND)
        stats = await sweep(bench.store, bench.clock, RecoveryRules(takeovers_max=3))
        assert (stats.expired_found, stats.recovered, stats.failed) == (1, 0, 1)
        head = await bench.store.jobs.head(job_id)
        assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.DEAD_LETTER)
        fact = unseal((await bench.store.journal.read(job_id))[-1])
        assert isinstance(fact, JobDeadLettered)
        assert fact.causes[0] == {
            "why": "its lease ran out",
            "holder": "gone",
            "takeovers": 3,
            "attempts": 0,
        }
        assert await bench.claimable(queues=("lost",)) == []


@on_every_store
async def test_no_number_of_lost_workers_convicts_a_job(backend: Backend) -> None:
    """Sweep a job after each of nine deaths, as a worker does: it is queued again each time, and counted."""
    async with bench_on(backend) as bench:
        (job_id,) = await lose(bench, 1)
        for takeovers in range(1, 10):
            stats = await sweep(bench.store, bench.clock)
            assert (stats.recovered, stats.failed) == (1, 0)
            head = await bench.store.jobs.head(job_id)
            assert (head.status, head.takeovers) == (Status.PENDING, takeovers)
            await bench.grants("gone", queues=("lost",), ttl_us=SECOND)
            bench.clock.advance(2 * SECOND)


@on_every_store
async def test_a_job_with_mail_is_not_buried(backend: Backend) -> None:
    """Goal: no resume is lost. Method: the worker that claimed a resumed dead letter dies before it has read why; the
    sweep gives the job back, and the next claim finds the letter."""
    async with bench_on(backend) as bench:
        (job_id,) = await lose(bench, 1)
        await sweep(bench.store, bench.clock, RecoveryRules(takeovers_max=1))
        assert (await bench.store.jobs.head(job_id)).wait_reason is WaitReason.DEAD_LETTER
        letter = MailDraft(job_id=job_id, kind=MailKind.RESUME, operation_id="again", sender="grace")
        assert (await bench.store.post.send(letter)).woke
        await bench.grants("gone", queues=("lost",), ttl_us=SECOND)
        bench.clock.advance(2 * SECOND)
        stats = await sweep(bench.store, bench.clock, RecoveryRules(takeovers_max=1))
        assert (stats.recovered, stats.failed) == (1, 0)
        assert (await bench.store.jobs.head(job_id)).status is Status.PENDING


@on_every_store
async def test_progress_starts_the_count_again(backend: Backend) -> None:
    async with bench_on(backend) as bench:
        (job_id,) = await lose(bench, 1)
        for _ in range(5):
            await sweep(bench.store, bench.clock)
            (grant,) = await bench.grants("gone", queues=("lost",), ttl_us=SECOND)
            await bench.driver(grant).write(step(bench.fresh("one")), progress=True)
            bench.clock.advance(2 * SECOND)
        assert (await bench.store.jobs.head(job_id)).status is Status.RUNNING


@on_every_store
async def test_more_than_one_transaction_holds(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.engine.recovery.AT_ONCE", 4)
    async with bench_on(backend) as bench:
        jobs = await lose(bench, 10)
        alive = await bench.drive_new("alive", ttl_us=MINUTE)
        stats = await sweep(bench.store, bench.clock)
        assert (stats.expired_found, stats.recovered, stats.failed, stats.errors) == (10, 10, 0, 0)
        assert {(await bench.store.jobs.head(job)).status for job in jobs} == {Status.PENDING}
        await alive.write(step("undisturbed"))


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_store_that_is_away_is_counted(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench_on(backend) as bench:
        await lose(bench, 1)

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("gone fishing")

        with monkeypatch.context() as patched:
            patched.setattr(bench.store.journal, "hold_expired", away)
            assert (await sweep(bench.store, bench.clock)).errors == 1
        assert (await sweep(bench.store, bench.clock)).recovered == 1


# ── proof of death ────────────────────────────────────────────────────────────────────────────────


class Town:
    """Processes that a test makes up."""

    def __init__(self, **seen: int | ProcessStatus) -> None:
        self._seen = {int(pid.removeprefix("p")): sight for pid, sight in seen.items()}

    def here(self) -> Identity | None:
        return Identity("boot", 1, 10, 10)

    def look_up(self, pid: int) -> int | ProcessStatus:
        return self._seen.get(pid, ProcessStatus.GONE)


@on_every_store
async def test_jobs_of_the_proven_dead_are_free_at_once(backend: Backend) -> None:
    """Four workers of this host and one of another: only those whose process is gone lose their leases."""
    names = {
        "gone": worker_name("w", Identity("boot", 1, 2, 20)),
        "reused": worker_name("w", Identity("boot", 1, 3, 30)),
        "alive": worker_name("w", Identity("boot", 1, 4, 40)),
        "hidden": worker_name("w", Identity("boot", 1, 5, 50)),
        "far": worker_name("w", Identity("elsewhere", 1, 6, 60)),
        "named": "worker-7",
    }
    async with bench_on(backend) as bench:
        held = {who: await bench.drive_new(name, ttl_us=MINUTE) for who, name in names.items()}
        town = Town(p3=31, p4=40, p5=ProcessStatus.UNKNOWN)
        assert sorted(await prove_dead(bench.store, town)) == sorted([names["gone"], names["reused"]])
        assert await prove_dead(bench.store, town) == [names["gone"], names["reused"]], (
            "until somebody takes over"
        )
        stats = await sweep(bench.store, bench.clock)
        assert stats.recovered == 2
        assert await prove_dead(bench.store, town) == []
        for who in ("alive", "hidden", "far", "named"):
            await held[who].write(step("undisturbed"))


@on_every_store
async def test_a_child_that_drives_a_job_alone_is_left_to_its_parent(backend: Backend) -> None:
    """Two such children are dead: that of a living parent keeps its lease, for the parent says how it died; that of a
    dead one loses it."""
    kept = worker_name(lone_label("w", 4), Identity("boot", 1, 2, 20))
    lost = worker_name(lone_label("w", 5), Identity("boot", 1, 3, 30))
    async with bench_on(backend) as bench:
        for name in (kept, lost):
            await bench.drive_new(name, ttl_us=MINUTE)
        assert await prove_dead(bench.store, Town(p4=40)) == [lost]


def test_a_killed_process_is_seen_to_be_gone() -> None:
    """Start a process, read its name from /proc, kill it with -9: gone while its parent has not looked, and after."""
    processes = HostProcesses(SystemClock().boot())
    here = processes.here()
    assert here is not None
    assert here.pid == os.getpid()
    assert processes.look_up(os.getpid()) == here.began
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        began = processes.look_up(child.pid)
        assert not isinstance(began, ProcessStatus)
        assert began >= here.began
        name = worker_name("child", Identity(here.boot, here.space, child.pid, began))
        assert identity_in(name) == Identity(here.boot, here.space, child.pid, began)
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet looked at
        assert processes.look_up(child.pid) is ProcessStatus.GONE
    finally:
        child.kill()
        child.communicate()
    assert processes.look_up(child.pid) is ProcessStatus.GONE
