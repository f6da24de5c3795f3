"""Play generated programs.

python -m tests.kill.programs 17                        play program 17 with every single fault
python -m tests.kill.programs 17 --show                 and print its source, and the journal of the last play
python -m tests.kill.programs 17 --kill before_intent#2 play it once, with this fault
python -m tests.kill.programs --known polling           a program of `known.py` instead
python -m tests.kill.programs --file program.py         a program of one's own
python -m tests.kill.programs --from 0 --to 500 --jobs 2 --progress build/programs.jsonl
                                                   many programs; started again, it goes on where it was cut off
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from tests.kill.programs.known_failures import KNOWN
from tests.kill.programs.long_run import play_programs
from tests.kill.programs.runner import (
    Found,
    Program,
    Report,
    Runner,
    Scenario,
    find_program,
    no_garbage,
    run_program,
)
from tests.kill.programs.shrink import shrink
from tests.kill.programs.stage import MEMORY, Fault, Kind, Played, Point
from tests.kill.programs.stores import Backend, Postgres, Sqlite


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    if options.start is not None:
        tally = play_programs(options.start, options.end, jobs=options.jobs, progress=options.progress)
        return 1 if tally.failing else 0
    program = _load(options)
    if options.show:
        print(program.source)
        print(f"# oracle: {program.outcome}\n")
    scenario = Scenario(tuple(options.faults or ()), options.variant, options.strict, options.loop)
    if options.calm or scenario != Scenario():
        return _play_once(program, scenario, options)
    report = run_program(program)
    print(f"{report.plays} plays, {len(report.found)} failures")
    if not report.found:
        return 0
    _explain(report, shrinking=options.shrink)
    return 1


def _parse(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kill.programs", description="Play generated programs."
    )
    parser.add_argument("number", nargs="?", type=int)
    parser.add_argument("--known", choices=sorted(KNOWN))
    parser.add_argument("--file", type=Path)
    parser.add_argument("--show", action="store_true", help="print the source, and the journal of the play")
    parser.add_argument("--calm", action="store_true", help="play it once, undisturbed")
    for kind in get_args(Kind):
        read = functools.partial(_fault, kind)
        parser.add_argument(f"--{kind}", dest="faults", metavar="POINT#N", action="append", type=read)
    for variant in ("renamed", "reordered"):
        parser.add_argument(f"--{variant}", dest="variant", action="store_const", const=variant, default="")
    parser.add_argument("--strict", action="store_true", help="every step waits for the disk")
    for loop in ("hidden", "eager"):
        parser.add_argument(f"--{loop}", dest="loop", action="store_const", const=loop, default="")
    parser.add_argument("--sqlite", action="store_true", help="on a SQLite file instead of in memory")
    parser.add_argument("--postgres", metavar="URL", help="on a Postgres database, which is emptied")
    parser.add_argument("--from", dest="start", type=int, help="play many programs, from this number")
    parser.add_argument("--to", dest="end", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="in so many processes")
    parser.add_argument("--progress", type=Path, help="the file that says what has been played")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false")
    return parser.parse_args(arguments)


def _load(options: Any) -> Program:
    if options.known:
        return Program.load(KNOWN[options.known])
    if options.file:
        return Program.load(options.file.read_text(encoding="utf-8"))
    if options.number is None:
        sys.exit("give a number, --known NAME or --file PATH")
    return find_program(options.number)


def _fault(kind: Kind, text: str) -> Fault:
    """POINT#N, or POINT#N@WORKER for another worker than the first."""
    place, _, worker = text.partition("@")
    name, _, nth = place.partition("#")
    return Fault(kind, Point(name, int(nth or 1)), int(worker or 0))


def _play_once(program: Program, scenario: Scenario, options: Any) -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-programs-") as folder, no_garbage():
        backend: Backend = MEMORY
        if options.sqlite:
            backend = Sqlite(Path(folder))
        elif options.postgres:
            backend = Postgres(options.postgres)
        runner = Runner(program, backend)
        played = runner.play(scenario)
    if played is None:
        sys.exit(f"the program has no variant {scenario.variant!r}")
    if options.show:
        print_play(played)
    print("\n".join(str(found.failure) for found in runner.report.found) or "as the oracle says")
    return 1 if runner.report.found else 0


def print_play(played: Played) -> None:
    for number, points in enumerate(played.passed, 1):
        print(f"worker {number}: {', '.join(map(str, points))}")
    for job_id, events in played.journals.items():
        print(f"journal of {job_id}:")
        start = played.journals[played.job_id][0].at
        for sealed in events:
            at = (sealed.at - start) / 1_000_000
            print(f"  {sealed.seq:3} {at:9.1f} s  {sealed.type:20} {(sealed.body or b'').decode()[:150]}")
    print("receivers:")
    for one in played.receivers.requests:
        print(
            f"  {one.tick:3} {one.worker} {one.tool}({one.label!r}) arrived={one.arrived} key={one.key[:8]}"
        )


def _explain(report: Report, *, shrinking: bool) -> None:
    for kind, found in _first_of_each_kind(report).items():
        print(f"\n{found}")
        program = report.program
        if program.number is not None:
            command = " ".join(["python -m tests.kill.programs", str(program.number), str(found.scenario)])
            print(f"    replay: {command} --show")
        if shrinking:
            small, small_found = shrink(program, found)
            print(f"\nsmaller, {kind}: {small_found}\n{small.source}")


def _first_of_each_kind(report: Report) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for one in report.found:
        found.setdefault(one.failure.kind, one)
    return found


if __name__ == "__main__":
    sys.exit(main())
