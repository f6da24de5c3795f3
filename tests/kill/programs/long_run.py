"""Long run: many programs with all their faults, in several processes, resumable.

Every program that has been played is one line of the progress file; a run that was cut off goes on behind it when it is
started again with the same file. A program that fails is printed as it comes, with the command that plays it again.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kill.programs.runner import CHECKED_ONE_OF, SAMPLED, find_program, run_program

CHUNK: Final = 4
REPORT_EVERY_S: Final = 30.0


@dataclass
class Tally:
    """What a run has played and found."""

    programs: int = 0
    plays: int = 0
    joined: int = 0
    checked: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    """Kind of failure → programs that show it."""
    failing: dict[int, list[str]] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """Add one program, as the progress file has it."""
        self.programs += 1
        self.plays += line["plays"]
        self.joined += line["joined"]
        self.checked += line["checked"]
        self.faults.update(line["faults"])
        self.failures.update(set(line["found"]))
        if line["found"]:
            self.failing[line["program"]] = list(line["found"].values())

    def summary(self) -> str:
        """The totals, with the rate of every fault."""
        each = max(self.programs, 1)
        faults = ", ".join(f"{name} {count:,}" for name, count in sorted(self.faults.items()))
        rates = ", ".join(f"{name} {count}" for name, count in SAMPLED.items())
        counts = {
            "parked": self.failures["parked"],
            "stuck": self.failures["stuck"],
            "different": sum(self.failures[kind] for kind in ("outcome", "slow", "error", "snapshot")),
            "repeated": sum(
                self.failures[kind] for kind in ("effects", "reads", "attempts", "deaths", "threads", "key")
            ),
        }
        lines = [f"{self.programs:,} programs, {self.plays:,} plays ({self.plays / each:.1f} each), of which"]
        lines += [
            f"  {self.joined:,} ended early: another play had gone on from what their first worker left,"
        ]
        lines += [f"  {self.checked:,} were played both ways, one of {CHECKED_ONE_OF}"]
        lines += [f"plays by fault: {faults}"]
        lines += ["each program: undisturbed, killed at each point, torn down at each point"]
        lines += [f"sampled, plays of each program: {rates}"]
        lines += [", ".join(f"{name} {count}" for name, count in counts.items())]
        return "\n".join(lines)


def play_programs(start: int, end: int, *, jobs: int, progress: Path | None = None) -> Tally:
    """Play the programs from `start` to before `end`, in so many processes, and print what comes of it."""
    tally, began = Tally(), time.monotonic()
    played = _read_progress(progress)
    for number in sorted(played):
        if start <= number < end:
            tally.add(played[number])
    if tally.programs:
        print(f"{tally.programs:,} programs were played before: {progress}", flush=True)
    left = [number for number in range(start, end) if number not in played]
    chunks = [left[at : at + CHUNK] for at in range(0, len(left), CHUNK)]
    before, last = tally.programs, began
    for line in _play_chunks(chunks, jobs):
        tally.add(line)
        if progress is not None:
            with progress.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        for text in line["found"].values():
            print(f"program {line['program']}: {text}", flush=True)
        now, new = time.monotonic(), tally.programs - before
        if now - last >= REPORT_EVERY_S or new == len(left):
            last = now
            seconds = (now - began) / new
            print(
                f"{tally.programs:,} of {end - start:,} programs, {tally.plays:,} plays, {len(tally.failing)} failing, "
                f"{now - began:.0f} s, {seconds * 1000:.0f} ms each, {seconds * (len(left) - new) / 60:.0f} min left",
                flush=True,
            )
    print(tally.summary(), flush=True)
    return tally


def _read_progress(progress: Path | None) -> dict[int, dict[str, Any]]:
    """Program → its line. The last line may have been cut off."""
    played: dict[int, dict[str, Any]] = {}
    if progress is None or not progress.exists():
        return played
    text = progress.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        progress.write_text(whole, encoding="utf-8")
    for line in map(json.loads, whole.splitlines()):
        played[line["program"]] = line
    return played


def _play_chunks(chunks: Sequence[Sequence[int]], jobs: int) -> Iterator[dict[str, Any]]:
    """The line of each program, as soon as its chunk is played."""
    if jobs == 1:
        for chunk in chunks:
            yield from map(play_program, chunk)
        return
    waiting = iter(chunks)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=gc.freeze) as pool:
        running: set[Future[list[dict[str, Any]]]] = set()
        while True:
            for chunk in waiting:
                running.add(pool.submit(play_chunk, chunk))
                if len(running) > jobs:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield from one.result()


def play_chunk(numbers: Sequence[int]) -> list[dict[str, Any]]:
    return [play_program(number) for number in numbers]


def play_program(number: int) -> dict[str, Any]:
    """Play one program with all its faults; its line in the progress file."""
    report = run_program(find_program(number))
    found: dict[str, str] = {}
    for one in report.found:
        replay = f"python -m tests.kill.programs {number} {one.scenario} --show"
        found.setdefault(one.failure.kind, f"{one}\n    replay: {replay}")
    return {
        "program": number,
        "plays": report.plays,
        "joined": report.joined,
        "checked": report.checked,
        "faults": dict(report.faults),
        "found": found,
    }
