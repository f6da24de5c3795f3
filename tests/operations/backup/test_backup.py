"""Backup and restore: a copy under fire, a restore that fences the past, and files that are not what they should be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from holdfast.client.keys import create_key, revoke_key
from holdfast.engine.schedules import fire_due
from holdfast.engine.verify.verify import verify
from holdfast.errors import ClaimLost, Fenced, ForeignFile, Misuse, NotFound, StoreCorrupt
from holdfast.model.access import Role
from holdfast.model.append import Move
from holdfast.model.audit import read_act
from holdfast.model.configured_agents import HostedAgent
from holdfast.model.events import JobCompleted
from holdfast.model.ids import SequentialIds
from holdfast.model.inbox import Boundary
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.lease import epoch_of
from holdfast.model.mailbox import MailDraft
from holdfast.model.queue_limits import QueueLimits
from holdfast.model.schedule import CatchUp, Schedule
from holdfast.model.session import TurnCommit
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.store.backup.files import Backup
from holdfast.store.backup.stage import RestoreResult
from holdfast.store.backup.transfer import back_up, restore
from holdfast.store.contract import Store
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.driver import Driver, step
from tests.support.fixtures.populated import populate
from tests.support.fixtures.stores import AnyBackend, MemoryBackend, SqliteBackend

SQL_STORES = ("sqlite", "postgres")


async def saved(backend: AnyBackend, store: Store, target: Path) -> Backup:
    return await back_up(store, target, clock=backend.clock, ids=SequentialIds(77))


async def restored(backend: AnyBackend, store: Store, source: Path) -> RestoreResult:
    return await restore(store, source, clock=backend.clock, ids=SequentialIds(78))


async def opened(backend: AnyBackend) -> SqlStore:
    store = await backend.open()
    assert isinstance(store, SqlStore)
    return store


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_a_backup_under_writers_is_one_instant(backend: AnyBackend, tmp_path: Path) -> None:
    """Back up again and again while jobs are written: each copy verifies, and holds what was acknowledged before it."""
    store = await opened(backend)
    await populate(store, backend.clock)
    acknowledged: list[str] = []
    stop = asyncio.Event()

    async def write_on() -> None:
        while not stop.is_set():
            submitted = await store.jobs.submit(JobDraft(kind="more", input=len(acknowledged)))
            acknowledged.append(submitted.job_id)

    async with asyncio.TaskGroup() as group:
        group.create_task(write_on())
        for round_ in range(4):
            before = list(acknowledged)
            target = tmp_path / f"backup-{round_}.db"
            backup = await saved(backend, store, target)
            copy = await open_sqlite(target, clock=backend.clock, ids=SequentialIds(79))
            report = await verify(copy)
            assert report.clean, report.violations
            assert report.jobs == backup.jobs
            known = {record.job_id for record in (await copy.jobs.list(JobFilter(), limit=100_000)).items}
            assert known >= set(before), "what was acknowledged before the backup began is in it"
            await copy.close()
        stop.set()
    assert acknowledged, "the writer wrote while the backups were made"
    await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_a_restore_fences_every_older_worker(backend: AnyBackend, tmp_path: Path) -> None:
    """Restore while a worker holds a job and a claim: its append and its turn are refused, and leave nothing behind."""
    store = await opened(backend)
    driver = await populate(store, backend.clock)
    claim = await store.inbox.claim("s1", "w", Boundary.IDLE, ttl_us=MINUTE, max_batches=1, token="held")
    assert claim is not None
    await saved(backend, store, tmp_path / "b.db")
    after_backup = await store.jobs.submit(JobDraft(kind="forgotten"))

    done = await restored(backend, store, tmp_path / "b.db")

    assert (done.epoch, done.held) == (2, 4)
    with pytest.raises(Fenced):
        await driver.write(step("late"))
    with pytest.raises(ClaimLost):
        await store.sessions.commit(TurnCommit(session_id="s1", completes=(claim.completion(),)))
    with pytest.raises(NotFound):
        await store.jobs.get(after_backup.job_id)
    assert not await store.leases.claim(
        ClaimRequest(worker="w2", token="t9", queues=("default", "chats"), limit=9)
    )
    report = await verify(store)
    assert report.clean, report.violations
    await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_after_a_restore_no_schedule_fires_by_itself(backend: AnyBackend, tmp_path: Path) -> None:
    """What it fired after the backup is forgotten here, and would be fired again as missed; a person resumes it, and
    agents, limits and schedules are otherwise as they were."""
    store = await opened(backend)
    now = backend.clock.wall_us()
    agent = await store.agents.create(HostedAgent(agent_id="agent_1", name="helper"))
    limits = QueueLimits(queue="q", depth_max=7, age_max_us=MINUTE)
    await store.queues.limit(limits)
    one = await store.schedules.put(
        Schedule(
            schedule_id="s", kind="k", cron="* * * * *", next_at=now, catch_up=CatchUp.ALL, input={"a": [1]}
        )
    )
    await saved(backend, store, tmp_path / "b.db")
    assert len(await fire_due(store)) == 1
    done = await restored(backend, store, tmp_path / "b.db")
    assert done.paused == 1
    assert await store.schedules.get("s") == msgspec.structs.replace(one, paused=True)
    assert await fire_due(store) == []
    assert await store.agents.find("helper") == agent
    assert await store.queues.list() == [limits]
    await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_s04_after_a_restore_no_key_opens_anything(backend: AnyBackend, tmp_path: Path) -> None:
    """One that was revoked after the backup is open in it. So all are revoked, with a line each; the log goes on from
    where the backup had it."""
    store = await opened(backend)
    kept, _ = await create_key(store, [Role.VIEWER], name="kept", who="ada", why="x")
    lost, _ = await create_key(store, [Role.ADMIN], name="lost", who="ada", why="x")
    await saved(backend, store, tmp_path / "b.db")
    await revoke_key(store, lost.key_id, who="ada", why="it was in a log")
    assert (await restored(backend, store, tmp_path / "b.db")).revoked == 2
    assert all(key.revoked_at is not None for key in await store.keys.list())
    acts = [read_act(line) for line in await store.audit.read()]
    assert [(act.what, act.who) for act in acts] == [("key.create", "ada")] * 2 + [
        ("key.revoke", "restore")
    ] * 2
    assert {act.object for act in acts[2:]} == {kept.key_id, lost.key_id}
    report = await verify(store)
    assert report.clean, report.violations
    await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_unfinished_jobs_wait_for_a_person_and_go_on(backend: AnyBackend, tmp_path: Path) -> None:
    """After a restore a signal starts nothing; a person's word does, under a fence of the new epoch."""
    store = await opened(backend)
    await populate(store, backend.clock)
    await saved(backend, store, tmp_path / "b.db")
    await restored(backend, store, tmp_path / "b.db")

    head = await store.jobs.head("job-open")
    assert (head.status, head.wait_reason) == (Status.WAITING, WaitReason.RESTORE_REVIEW)
    signal = MailDraft(job_id="job-open", kind=MailKind.SIGNAL, operation_id="s")
    assert not (await store.post.send(signal)).woke
    assert (await store.post.send(MailDraft(job_id="job-open", kind=MailKind.RESUME, operation_id="r"))).woke
    (grant,) = await store.leases.claim(ClaimRequest(worker="w2", token="t9", queues=("default",), limit=9))
    assert epoch_of(grant.fence) == 2
    await Driver(store, backend.clock, grant).write(JobCompleted(), move=Move(status=Status.COMPLETED))
    assert (await verify(store)).clean
    await store.close()


@pytest.mark.parametrize("backend", ["postgres"], indirect=True)
async def test_a_backup_moves_between_databases(backend: AnyBackend, tmp_path: Path) -> None:
    """Postgres → file → SQLite → file → Postgres: the same jobs, journals and sessions at every station."""
    server = await opened(backend)
    await populate(server, backend.clock)
    await saved(backend, server, tmp_path / "from-postgres.db")
    local_backend = SqliteBackend(tmp_path)
    local = await opened(local_backend)
    await restored(backend, local, tmp_path / "from-postgres.db")
    assert (await verify(local)).clean
    await saved(backend, local, tmp_path / "from-sqlite.db")
    await restored(backend, server, tmp_path / "from-sqlite.db")
    assert (await verify(server)).clean
    assert (await server.info()).epoch == (await local.info()).epoch + 1
    assert await server.sessions.load("s1") == await local.sessions.load("s1")
    assert (await server.journal.read("job-done")) == await local.journal.read("job-done")
    await server.close()
    await local.close()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_what_is_not_a_backup_is_refused(backend: AnyBackend, tmp_path: Path) -> None:
    """A missing, a foreign and a damaged file, and a target that exists: typed errors, and the store as it was."""
    store = await opened(backend)
    await populate(store, backend.clock)
    (tmp_path / "foreign.db").write_bytes(b"not a database at all, but long enough to look at" * 100)
    await saved(backend, store, tmp_path / "good.db")
    damaged = bytearray((tmp_path / "good.db").read_bytes())
    damaged[8192 * 3 : 8192 * 6] = bytes(8192 * 3)
    (tmp_path / "damaged.db").write_bytes(damaged)
    before = await store.jobs.list(JobFilter())
    with pytest.raises(NotFound):
        await restored(backend, store, tmp_path / "missing.db")
    with pytest.raises(ForeignFile):
        await restored(backend, store, tmp_path / "foreign.db")
    with pytest.raises(StoreCorrupt):
        await restored(backend, store, tmp_path / "damaged.db")
    with pytest.raises(Misuse, match="exists"):
        await saved(backend, store, tmp_path / "good.db")
    with pytest.raises(NotFound, match="folder"):
        await saved(backend, store, tmp_path / "nowhere" / "b.db")
    assert await store.jobs.list(JobFilter()) == before
    assert (await store.info()).epoch == 1
    assert not list(tmp_path.glob("*.part*")), "nothing half-made is left"
    await store.close()


@pytest.mark.store("memory")
async def test_memory_has_nothing_to_back_up(tmp_path: Path) -> None:
    """Ask a store that survives nothing for a backup: a sentence, not a crash."""
    backend = MemoryBackend()
    with pytest.raises(Misuse, match="memory"):
        await saved(backend, await backend.open(), tmp_path / "b.db")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_a_backup_is_private(backend: AnyBackend, tmp_path: Path) -> None:
    """A backup holds everything the store holds: nobody but its owner may read it."""
    store = await opened(backend)
    backup = await saved(backend, store, tmp_path / "b.db")
    assert (tmp_path / "b.db").stat().st_mode & 0o077 == 0
    assert backup.bytes == (tmp_path / "b.db").stat().st_size
    await store.close()
