"""Goal: a disk that is full, broken or read-only costs an error and nothing else. Method: make the nth call of SQLite
to the kernel fail, for every n; where the machine allows it, also fill and lock a real filesystem.
"""

from __future__ import annotations

import errno
import itertools
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import (
    HoldfastError,
    OutcomeUnknown,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.model.jobs import JobDraft
from holdfast.store.sqlite.write_lock import WriteLock
from tests.store.disk_faults.conftest import FreshCopy
from tests.store.disk_faults.disks import DISKS, Disk
from tests.store.disk_faults.failing_disk import FaultyCalls, FaultyFlush, Kind
from tests.store.disk_faults.workload import Trial, open_store
from tests.store.power_cut.evidence import Eye

pytestmark = pytest.mark.store("sqlite")


class Trouble(msgspec.Struct, frozen=True):
    kind: Kind
    errno: int
    error: type[HoldfastError]
    short: bool = False
    also: tuple[type[HoldfastError], ...] = ()
    """What the same trouble is called while a store is made."""


# The shared memory file that cannot grow has an error of its own, whatever the kernel said.
NO_MEMORY_FILE = (StoreFull,)

TROUBLES = {
    "no-room": Trouble("write", errno.ENOSPC, StoreFull),
    "half-a-write-then-no-room": Trouble("write", errno.ENOSPC, StoreFull, short=True),
    "write-error": Trouble("write", errno.EIO, StoreUnavailable, also=NO_MEMORY_FILE),
    "half-a-write-then-an-error": Trouble(
        "write", errno.EIO, StoreUnavailable, short=True, also=NO_MEMORY_FILE
    ),
    "suddenly-read-only": Trouble("write", errno.EROFS, StoreUnavailable, also=NO_MEMORY_FILE),
    # SQLite takes a page that cannot be read for a damaged file, not for a passing trouble.
    "read-error": Trouble("read", errno.EIO, StoreCorrupt, also=(StoreUnavailable,)),
}


@pytest.fixture(params=list(TROUBLES.values()), ids=list(TROUBLES))
def trouble(request: pytest.FixtureRequest) -> Trouble:
    chosen: Trouble = request.param
    return chosen


async def test_every_failing_call_leaves_nothing_behind(
    trouble: Trouble, fresh_copy: FreshCopy, pictures: list[str]
) -> None:
    """Goal: a write refused at any of its calls has left nothing, and succeeds when it is sent again. Method: fail the
    first call of each write, then the second, … until it gets through; compare all rows with an undisturbed run.
    """
    path = fresh_copy()
    with FaultyCalls(path) as calls:
        store = await open_store(path)
        trial = Trial(path, pictures)
        await trial.play(store, spoil=lambda n: _cause(calls, trouble, after=n), mend=calls.mend)
    print(f"{len(trial.refusals)} refusals")
    refused = {type(error) for error in trial.refusals}
    assert trouble.error in refused
    assert refused <= {trouble.error, *trouble.also}  # the others, while a reader is opened
    assert len(trial.refusals) > (100 if trouble.kind == "write" else 20)


async def test_short_writes_are_continued(fresh_copy: FreshCopy, pictures: list[str]) -> None:
    """Goal: a write that the kernel takes in two halves is no trouble. Method: halve the nth write, for every n."""
    path = fresh_copy()
    with FaultyCalls(path) as calls:
        store = await open_store(path)
        halves = itertools.count()
        trial = Trial(path, pictures)

        def halve(_: int) -> None:
            calls.fail("write", errno.ENOSPC, after=next(halves) % 4, times=1, short=True)

        await trial.play(store, spoil=halve, mend=calls.mend)
    assert trial.refusals == []


async def test_opening_on_a_failing_disk(trouble: Trouble, quick_folder: Path) -> None:
    """Goal: a store that cannot be made says so, and can be made later. Method: fail every seventh call of making a new
    one, each time in a new file; then open it on a good disk.
    """
    refusals = await _open_on_failing_disks(trouble, quick_folder, every=7)
    assert {type(error) for error in refusals} <= {trouble.error, *trouble.also}
    assert all(error.hint for error in refusals)
    assert len(refusals) > (10 if trouble.kind == "write" else 0)


@pytest.mark.chaos
@pytest.mark.timeout(600)
async def test_opening_on_a_failing_disk_at_every_call(trouble: Trouble, quick_folder: Path) -> None:
    """Goal and method as `test_opening_on_a_failing_disk`, with every single call."""
    refusals = await _open_on_failing_disks(trouble, quick_folder, every=1)
    assert {type(error) for error in refusals} <= {trouble.error, *trouble.also}
    assert all(error.hint for error in refusals)
    assert len(refusals) > (10 if trouble.kind == "write" else 0)


async def _open_on_failing_disks(trouble: Trouble, folder: Path, *, every: int) -> list[HoldfastError]:
    """What making a store was refused with; each could be made later, and is whole."""
    refusals: list[HoldfastError] = []
    for after in itertools.count(0, every):
        path = folder / f"new-{trouble.kind}-{trouble.errno}-{trouble.short}-{every}-{after}.db"
        with FaultyCalls(path) as calls:
            _cause(calls, trouble, after=after)
            try:
                store = await open_store(path)
            except HoldfastError as error:
                refusals.append(error)
            else:
                await store.close()
                break
            finally:
                calls.mend()
            await (await open_store(path)).close()
            assert Eye().look(path).damage == ()
        path.unlink()
    print(f"{len(refusals)} refusals")
    return refusals


def _cause(calls: FaultyCalls, trouble: Trouble, *, after: int) -> None:
    calls.fail(trouble.kind, trouble.errno, after=after, short=trouble.short)


# ── flushes ───────────────────────────────────────────────────────────────────────────────────────


async def test_failed_flush_is_an_unknown_outcome(fresh_copy: FreshCopy, pictures: list[str]) -> None:
    """Goal: a commit that could not be flushed is neither promised nor denied, and never half there. Method: fail the
    first flush of each write, then the second, … until it gets through.
    """
    path = fresh_copy()
    with FaultyFlush("faulty-flush") as disk:
        store = await open_store(path, vfs=disk.name)
        trial = Trial(path, pictures)
        await trial.play(store, spoil=lambda n: disk.fail(after=n), mend=disk.mend)
    assert {type(error) for error in trial.refusals} == {OutcomeUnknown}
    assert len(trial.refusals) > 10


async def test_unflushed_commit_may_come_back(fresh_copy: FreshCopy, tmp_path: Path) -> None:
    """Goal: show why the outcome is unknown. Method: fail a commit's flush, crash, and find the commit in the log."""
    path = fresh_copy()
    with FaultyFlush("faulty-flush-once") as disk:
        store = await open_store(path, vfs=disk.name)
        await store.namespaces.create("first")  # the log has begun
        disk.fail()
        with pytest.raises(OutcomeUnknown) as refused:
            await store.jobs.submit(JobDraft(kind="work", job_id="job-1", request_key="r-1"))
        assert refused.value.retry
        for name in (path.name, f"{path.name}-wal"):
            shutil.copy(path.with_name(name), tmp_path)
        disk.mend()
        await store.close()
    after_crash = await open_store(tmp_path / path.name)
    repeated = await after_crash.jobs.submit(JobDraft(kind="work", job_id="job-1", request_key="r-1"))
    await after_crash.close()
    assert not repeated.created, "the job was there, and sending it again has recognised it"


# ── full and read-only ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=list(DISKS.values()), ids=list(DISKS))
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    made: Disk = request.param(tmp_path)
    made.open()
    yield made
    made.mend()
    made.close()


async def test_full_disk_goes_on_once_there_is_room(disk: Disk, template: bytes, pictures: list[str]) -> None:
    """Goal: a full disk refuses with StoreFull and nothing is lost. Method: fill it before each write; where that is
    refused, make room and send it again.
    """
    disk.path.write_bytes(template)
    store = await open_store(disk.path)
    trial = Trial(disk.path, pictures)
    await trial.play(store, spoil=lambda _: disk.fill(), mend=disk.mend, tries=1)
    assert {type(error) for error in trial.refusals} == {StoreFull}
    assert {(error.code, error.retry, bool(error.hint)) for error in trial.refusals} == {
        ("store_full", True, True)
    }


async def test_no_room_for_a_new_store(disk: Disk) -> None:
    """Goal: a store that has no room to be made says so, and is made later. Method: open one on a full disk."""
    disk.fill()
    with pytest.raises(StoreFull):
        await open_store(disk.path)
    disk.mend()
    await (await open_store(disk.path)).close()


@pytest.mark.parametrize("existing", [True, False], ids=["existing", "new"])
async def test_read_only_is_refused(disk: Disk, existing: bool, template: bytes) -> None:
    """Goal: a file that cannot be written is refused at open, not at the first write. Method: a disk on which nothing
    opens for writing; the file stays as it was, and opens once writing is allowed.
    """
    if existing:
        disk.path.write_bytes(template)
    disk.lock()
    with pytest.raises(StoreReadOnly) as refused:
        await open_store(disk.path)
    assert (refused.value.code, bool(refused.value.hint)) == ("store_read_only", True)
    if existing:
        assert disk.path.read_bytes() == template
    disk.mend()
    await (await open_store(disk.path)).close()


async def test_folder_that_is_not_there(tmp_path: Path) -> None:
    """Goal: a wrong path is named with what to type. Method: open a store in a folder that does not exist."""
    with pytest.raises(StoreReadOnly, match="no folder") as refused:
        await open_store(tmp_path / "nowhere" / "store.db")
    assert "mkdir" in refused.value.hint


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


async def test_too_many_open_files(fresh_copy: FreshCopy) -> None:
    """Goal: running out of file descriptors is an error of ours like any other. Method: allow one more at a time until
    the store opens; nothing may be left open by the tries that failed.
    """
    path = fresh_copy()
    await (await open_store(path)).close()  # whatever Python loads on first use is loaded now
    before = _open_files()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refusals: list[HoldfastError] = []
    try:
        for allowed in range(lowest := min(set(range(max(before) + 2)) - before), lowest + 50):
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            try:
                store = await open_store(path)
            except HoldfastError as error:
                refusals.append(error)
            else:
                await store.close()
                break
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(refusals) > 2
    assert {type(error) for error in refusals} == {StoreUnavailable}
    assert _open_files() == before


def test_turnstile_that_cannot_be_made(tmp_path: Path) -> None:
    """Goal: the lock files fail with errors of ours too. Method: put folders where they should be."""
    for name in ("store.db-gate", "store.db-turn"):
        (tmp_path / name).mkdir()
        before = _open_files()
        with pytest.raises(StoreReadOnly):
            WriteLock(tmp_path / "store.db")
        assert _open_files() == before
        (tmp_path / name).rmdir()


def _open_files() -> set[int]:
    """The descriptors of this process, without the one used for looking."""
    return {fd for fd in (int(entry.name) for entry in Path("/dev/fd").iterdir()) if _is_open(fd)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
