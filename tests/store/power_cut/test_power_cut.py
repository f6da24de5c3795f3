"""Goal: what the store acknowledged survives a power cut at any moment. Method: a disk that remembers every write plays
one scenario; the files it would hold after a cut at each of its steps are rebuilt, reopened and looked at.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.model.hash_chain import find_break
from holdfast.model.ids import SequentialIds
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.store.clock import VirtualClock
from holdfast.store.sqlite.open import open_sqlite
from tests.store.power_cut.recording_disk import (
    Cut,
    Flush,
    Make,
    Remove,
    Step,
    Write,
    cut_at,
    cuts,
    killed_at,
)
from tests.store.power_cut.scenario import FILE, Recording, record
from tests.store.power_cut.verdict import Observatory, cut_everywhere, missing

pytestmark = pytest.mark.store("sqlite")

REOPEN_EVERY = 10
LOG_HEADER_BYTES = 32


@pytest.fixture(scope="module")
def full(quick_folder: Path) -> Recording:
    (quick_folder / "full").mkdir()
    return asyncio.run(record(quick_folder / "full", relaxed=False))


@pytest.fixture(scope="module")
def relaxed(quick_folder: Path) -> Recording:
    (quick_folder / "relaxed").mkdir()
    return asyncio.run(record(quick_folder / "relaxed", relaxed=True))


@pytest.fixture(scope="module")
def moments(full: Recording, quick_folder: Path) -> frozenset[str]:
    """A picture of the store after each of its commits: all that it may ever be seen as."""
    folder = quick_folder / "moments"
    folder.mkdir()
    ends = [at for at, step in enumerate(full.tape, 1) if isinstance(step, Flush | Remove)]
    observatory = Observatory(full, folder)
    return frozenset(observatory.see(killed_at(full.tape, at)).picture for at in [0, *ends])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_full_loses_nothing(full: Recording, moments: frozenset[str], seed: int, rebuilt: Path) -> None:
    """Goal: with FULL no acknowledged write is lost and none is half done. Method: cut before every step."""
    verdict = cut_everywhere(full, [seed], moments, rebuilt)
    print(f"FULL, seed {seed}: {verdict}")
    assert verdict.cuts == len(full.tape) + 1
    assert (verdict.damaged, verdict.strange, verdict.lost) == ([], [], [])


def test_normal_loses_commits(
    full: Recording, relaxed: Recording, moments: frozenset[str], rebuilt: Path
) -> None:
    """Goal: these cuts do find a store that flushes too little. Method: the same on `synchronous=NORMAL`, which must
    lose acknowledged writes, and still never leave a damaged file or half a write.
    """
    assert [ack.name for ack in relaxed.acks] == [ack.name for ack in full.acks], "the same scenario on both"
    verdict = cut_everywhere(relaxed, [1], moments, rebuilt)
    print(f"NORMAL, seed 1: {verdict}")
    assert (verdict.damaged, verdict.strange) == ([], [])
    assert verdict.cuts_that_lost > verdict.cuts // 4


def test_each_missing_flush_of_the_log_is_found(full: Recording, rebuilt: Path) -> None:
    """Goal: no commit's flush could be left out unnoticed. Method: take it out of the tape and cut right after the
    acknowledgement that rested on it.
    """
    logs = _files(full, f"{FILE}-wal")
    ends = {ack.at: full.tape[ack.at - 1] for ack in full.acks}
    rested = [at for at, last in ends.items() if isinstance(last, Flush) and last.file in logs]
    observatory = Observatory(full, rebuilt)
    for at in rested:
        unflushed = full.tape[: at - 1]
        images = (cut_at(unflushed, len(unflushed), seed) for seed in range(50))
        assert any(missing(observatory.see(cut), full, at) for cut in images), f"step {at}"
    print(f"{len(rested)} missing flushes of the log found")
    assert len(rested) > 25


def test_each_missing_flush_of_the_database_is_found(full: Recording, rebuilt: Path) -> None:
    """Goal: no checkpoint's flush could be left out unnoticed. Method: take it out of the tape and cut at each step
    until the file is flushed again; somewhere there something acknowledged is missing or the file is damaged.
    """
    (database,) = _files(full, FILE)
    flushes = [at for at, step in enumerate(full.tape) if isinstance(step, Flush) and step.file == database]
    checkpoints = [at for at in flushes if at > full.acks[0].at]
    observatory = Observatory(full, rebuilt)
    for flush in checkpoints:
        unflushed = full.tape[:flush] + full.tape[flush + 1 :]
        until = min((at for at in checkpoints if at > flush), default=len(unflushed))
        images = (cut_at(unflushed, at, seed) for seed in range(50) for at in range(flush, until + 1))
        assert any(_shows_loss(observatory, cut, full) for cut in images), f"step {flush}"
    print(f"{len(checkpoints)} missing flushes of the database found")
    assert len(checkpoints) >= 5


def _shows_loss(observatory: Observatory, cut: Cut, recording: Recording) -> bool:
    sight = observatory.see(cut)
    return bool(sight.damage or missing(sight, recording, cut.at))


def _files(recording: Recording, name: str) -> list[int]:
    return [step.file for step in recording.tape if isinstance(step, Make) and step.name == name]


def test_reopened_store_goes_on(full: Recording, rebuilt: Path) -> None:
    """Goal: after a cut the real store opens, has what it promised, and takes new work. Method: `open_sqlite` on every
    tenth cut; every journal is read and its chain checked, and a job submitted.
    """
    observatory = Observatory(full, rebuilt)
    reopened = 0
    for cut in cuts(full.tape, [4]):
        if cut.at % REOPEN_EVERY == 0:
            observatory.put(cut)
            asyncio.run(_go_on(observatory.path))
            sight = observatory.look()
            assert (sight.damage, missing(sight, full, cut.at)) == ((), []), f"after step {cut.at}"
            reopened += 1
    print(f"reopened {reopened} times")
    assert reopened > len(full.tape) // REOPEN_EVERY


async def _go_on(path: Path) -> None:
    store = await open_sqlite(path, clock=VirtualClock(), ids=SequentialIds(77))
    try:
        for record_ in await store.jobs.list(JobFilter(), limit=1000):
            journal = await store.journal.read(record_.job_id)
            assert len(journal) == record_.head_seq
            assert find_break(record_.job_id, journal) is None
        for session_id in ("talk", "busy"):
            view = await store.sessions.load(session_id)
            assert view is None or len(view.graph.nodes) == view.revision
        assert (await store.jobs.submit(JobDraft(kind="new"))).created
    finally:
        await store.close()


def test_scenario_is_worth_cutting(full: Recording) -> None:
    """Goal: the scenario touches what can go wrong. Method: count what the tape holds."""
    assert len(full.acks) >= 40
    removed = [step.name for step in full.tape if isinstance(step, Remove)]
    assert removed.count(f"{FILE}-wal") == 2, "both closes removed the log"
    assert any(name == f"{FILE}-journal" for name in removed), "a new file begins with a rollback journal"
    begun = [step for step in full.tape if _begins_a_log(step)]
    assert len(begun) > 2, "the log was copied back and started over in the middle"


def _begins_a_log(step: Step) -> bool:
    return isinstance(step, Write) and step.offset == 0 and len(step.data) == LOG_HEADER_BYTES


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(100, 125, 5))
def test_full_loses_nothing_on_25_disks(
    full: Recording, moments: frozenset[str], first: int, rebuilt: Path
) -> None:
    """Goal and method as `test_full_loses_nothing`, with 25 more seeds."""
    verdict = cut_everywhere(full, range(first, first + 5), moments, rebuilt)
    print(f"FULL, seeds from {first}: {verdict}")
    assert (verdict.damaged, verdict.strange, verdict.lost) == ([], [], [])


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", range(100, 125, 5))
def test_normal_stays_whole_on_25_disks(
    relaxed: Recording, moments: frozenset[str], first: int, rebuilt: Path
) -> None:
    """Goal and method as `test_normal_loses_commits`, with 25 more seeds."""
    verdict = cut_everywhere(relaxed, range(first, first + 5), moments, rebuilt)
    print(f"NORMAL, seeds from {first}: {verdict}")
    assert (verdict.damaged, verdict.strange) == ([], [])
    assert verdict.lost
