"""Random asyncio programs end as plain asyncio would have them end, wherever their workers die.

`make test` plays some hundreds, `make chaos ARGS="-k programs"` 20,000. A failure prints a smaller program and the
command that plays it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kill.programs import runner, writer
from tests.kill.programs.generator import FIRST_DEADLY, FIRST_LATE, generate
from tests.kill.programs.known_failures import KNOWN
from tests.kill.programs.long_run import play_programs
from tests.kill.programs.process import LOOPS, Crew, find_brief
from tests.kill.programs.runner import (
    SAMPLED,
    Found,
    Program,
    Report,
    find_program,
    run_program,
    sample_program,
)
from tests.kill.programs.shrink import shrink
from tests.kill.programs.stage import MEMORY
from tests.kill.programs.stores import Backend, Postgres, Sqlite
from tests.support.servers import PostgresServer

CHUNK = 30
CHUNKS = 10
"""`make test` plays so many programs in all: CHUNK × CHUNKS."""

PLAYS = 8
"""So many of its faults each of them meets, drawn by its number. In the long run each meets all of them."""

CHAOS = 20_000
CHAOS_LATE = 2_000
FIRST_OF_CHAOS = 100_000
"""Numbers of the long run begin here, so that it plays others than `make test`."""

CRASHES = (
    *(f"journal.append_many:{side}#{nth}" for nth in (1, 2, 3, 4) for side in ("before", "after")),
    *(f"after_intent_before_call#{nth}" for nth in (1, 2)),
    *(f"after_tool_success_before_receipt#{nth}" for nth in (1, 2)),
)
"""Where a real process dies."""

FIRST_OF_BOTH_WAYS = 10_000
FIRST_ON_SQLITE = 20_000
FIRST_ON_POSTGRES = 30_000


@pytest.mark.store("memory")
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_known_program_comes_out_right(name: str) -> None:
    report = run_program(Program.load(KNOWN[name]))
    assert not report.found, "\n".join(map(str, report.found[:10]))


@pytest.mark.store("memory")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs_come_out_right(chunk: int) -> None:
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        report = sample_program(find_program(number), MEMORY, PLAYS, SAMPLED)
        if report.found:
            pytest.fail(explain(report))


LONG = [pytest.mark.chaos, pytest.mark.timeout(3600)]


@pytest.mark.store("sqlite")
@pytest.mark.parametrize(
    "first, programs, plays",
    [
        (FIRST_ON_SQLITE, 8, 4),
        (FIRST_DEADLY, 3, 2),
        pytest.param(FIRST_ON_SQLITE, 400, 10, marks=LONG),
        pytest.param(FIRST_DEADLY, 100, 10, marks=LONG),
    ],
)
def test_programs_come_out_right_on_sqlite(
    first: int, programs: int, plays: int, volatile_folder: Path
) -> None:
    _play_on(Sqlite(volatile_folder), first, programs, plays)


@pytest.mark.store("postgres")
@pytest.mark.parametrize(
    "first, programs, plays",
    [
        (FIRST_ON_POSTGRES, 4, 3),
        (FIRST_DEADLY, 2, 1),
        pytest.param(FIRST_ON_POSTGRES, 200, 10, marks=LONG),
        pytest.param(FIRST_DEADLY, 50, 10, marks=LONG),
    ],
)
def test_programs_come_out_right_on_postgres(
    first: int, programs: int, plays: int, make_database: Callable[[], str]
) -> None:
    _play_on(Postgres(make_database()), first, programs, plays)


def _play_on(backend: Backend, first: int, programs: int, plays: int) -> None:
    for number in range(first, first + programs):
        report = sample_program(find_program(number), backend, plays)
        assert not report.found, f"program {number}: {report.found[0]}\n{report.program.source}"


@pytest.mark.parametrize("store, programs", [("sqlite", 3), ("postgres", 1)])
def test_programs_come_out_right_in_processes(
    store: str, programs: int, volatile_folder: Path, request: pytest.FixtureRequest
) -> None:
    _play_in_processes(store, programs, volatile_folder, request)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("store, programs", [("sqlite", 60), ("postgres", 30)])
def test_more_programs_come_out_right_in_processes(
    store: str, programs: int, volatile_folder: Path, request: pytest.FixtureRequest
) -> None:
    _play_in_processes(store, programs, volatile_folder, request)


def _play_in_processes(store: str, programs: int, folder: Path, request: pytest.FixtureRequest) -> None:
    """Each program is driven by a process that dies, and by another with another hash seed."""
    chance = random.Random(f"{store}/{programs}")
    for nth in range(programs):
        place = folder / str(nth)
        place.mkdir()
        where = f"sqlite:///{place / 'store.db'}"
        if store == "postgres":
            where = request.getfixturevalue("make_database")()
        brief, loop, crash_at = find_brief(nth), LOOPS[nth % len(LOOPS)], chance.choice(CRASHES)
        wrong = asyncio.run(Crew(place, where).play(brief, crash_at, loop))
        assert not wrong, f"program {nth} on {loop}, killed at {crash_at}: {wrong}\n{brief.source}"


@pytest.fixture
def make_database(postgres_server: PostgresServer) -> Iterator[Callable[[], str]]:
    """Makes databases that only this test has, for a test that runs loops of its own."""
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:

        def make() -> str:
            database = postgres_server.fresh_database(None)
            url = runner.run(database.__aenter__())
            stack.callback(lambda: runner.run(database.__aexit__(None, None, None)))
            return url

        runner.run(postgres_server.until_answers())
        yield make


@pytest.mark.store("memory")
def test_programs_with_retries_and_blocked_loops_come_out_right() -> None:
    for number in range(FIRST_LATE, FIRST_LATE + CHUNK):
        report = sample_program(find_program(number), MEMORY, PLAYS, SAMPLED)
        if report.found:
            pytest.fail(explain(report))


@pytest.mark.store("memory")
def test_programs_that_end_their_processes_come_out_right() -> None:
    """Goal: a job that costs its workers completes alone or is a dead letter at the death that the rules say, and the
    job beside it completes. Method: some programs, with faults of their workers and of child processes."""
    for number in range(FIRST_DEADLY, FIRST_DEADLY + CHUNK):
        report = sample_program(find_program(number), MEMORY, PLAYS, SAMPLED)
        if report.found:
            pytest.fail(explain(report))


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.store("memory")
@pytest.mark.parametrize("first", [FIRST_LATE, FIRST_DEADLY])
def test_many_programs_with_retries_or_deaths_come_out_right(first: int) -> None:
    tally = play_programs(first, first + CHAOS_LATE, jobs=min(os.cpu_count() or 1, 8))
    assert not tally.failing, f"{len(tally.failing)} programs: {sorted(tally.failing)[:50]}"


@pytest.mark.chaos
@pytest.mark.timeout(6 * 3600)
@pytest.mark.store("memory")
def test_many_programs_come_out_right() -> None:
    """Goal: no fault of the long run parks, sticks, differs or repeats. Method: `python -m
    tests.kill.programs --from … --to …`, in as many processes as there are cores. `HOLDFAST_PROGRAMS_PROGRESS` names
    a file to go on from."""
    where = os.environ.get("HOLDFAST_PROGRAMS_PROGRESS")
    tally = play_programs(
        FIRST_OF_CHAOS,
        FIRST_OF_CHAOS + CHAOS,
        jobs=min(os.cpu_count() or 1, 8),
        progress=None if where is None else Path(where),
    )
    assert tally.programs == CHAOS
    if tally.failing:
        number = min(tally.failing)
        small = explain(run_program(find_program(number)))
        pytest.fail(f"{len(tally.failing)} programs: {sorted(tally.failing)[:50]}\n{small}")


@pytest.mark.store("memory")
def test_a_run_that_was_cut_off_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: no program of a long run is lost or counted twice. Method: the progress file ends within a line, as a kill
    leaves it."""
    progress = tmp_path / "programs.jsonl"
    whole = play_programs(0, 2, jobs=1, progress=progress)
    first, second = progress.read_text().splitlines()
    progress.write_text(f"{first}\n{second[:20]}")
    again = play_programs(0, 2, jobs=1, progress=progress)
    assert again == whole
    assert progress.read_text().splitlines() == [first, second]
    assert "1 programs were played before" in capsys.readouterr().out


@pytest.mark.store("memory")
def test_a_play_from_a_snapshot_ends_as_the_whole_play(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what is not played again makes no difference. Method: every play that may go on from a snapshot, or end
    early, is played both ways."""
    monkeypatch.setattr(runner, "CHECKED_ONE_OF", 1)
    for number in range(FIRST_OF_BOTH_WAYS, FIRST_OF_BOTH_WAYS + 6):
        report = run_program(find_program(number))
        assert report.checked > 0
        assert report.joined == 0
        assert not report.found, f"program {number}: {report.found[0]}"


def explain(report: Report) -> str:
    """The first failure, the command that plays it again, and a smaller program that fails like it."""
    first: Found = report.found[0]
    program = report.program
    small, found = shrink(program, first)
    return (
        f"program {program.number}: {len(report.found)} failures in {report.plays} plays\n"
        f"{first}\nreplay: python -m tests.kill.programs {program.number} {first.scenario} --show\n\n"
        f"smaller: {found}\n{small.source}"
    )


def test_a_number_is_always_the_same_program() -> None:
    assert [generate(number) for number in range(20)] == [generate(number) for number in range(20)]


def test_every_block_of_the_vocabulary_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used: Counter[str] = Counter()
    for name, entry in writer.VOCABULARY.items():

        def write(
            w: writer.Writer,
            f: writer.Function,
            depth: int,
            name: str = name,
            entry: writer.Entry = entry,
        ) -> list[str]:
            used[name] += 1
            return entry.write(w, f, depth)

        monkeypatch.setitem(writer.VOCABULARY, name, replace(entry, write=write))
    later = (number for first in (FIRST_LATE, FIRST_DEADLY) for number in range(first, first + 50))
    for number in (*range(2000), *later):
        generate(number)
    assert set(used) == set(writer.VOCABULARY)
