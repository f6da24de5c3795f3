"""Goal: the disk that loses power forgets what a disk may forget, and nothing else. Method: small tapes by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from tests.store.power_cut.recording_disk import (
    SECTOR_BYTES,
    Flush,
    Make,
    PowerCutDisk,
    Remove,
    Step,
    Tape,
    Truncate,
    Write,
    cut_at,
    cuts,
    killed_at,
)

pytestmark = pytest.mark.store("sqlite")

SEEDS = range(300)
MADE: Tape = (Make("a", 1), Flush(1, folder=True))


def outcomes(*steps: Step) -> set[bytes | None]:
    """Everything that may be in the file `a` after a cut at the end."""
    tape = (*MADE, *steps)
    return {cut_at(tape, len(tape), seed).files.get("a") for seed in SEEDS}


def test_flushed_writes_are_there_for_good() -> None:
    """Goal: a flush is believed. Method: cut after one, on many disks."""
    assert outcomes(Write(1, 0, b"one"), Truncate(1, 2), Write(1, 2, b"e!"), Flush(1, folder=False)) == {
        b"one!"
    }


def test_unflushed_writes_may_arrive_in_any_order() -> None:
    """Goal: each unflushed change stands for itself. Method: two of them, and all four combinations turn up."""
    tape = (Write(1, 0, b"____"), Flush(1, folder=False), Write(1, 0, b"A"), Write(1, 3, b"B"))
    assert {b"____", b"A___", b"___B", b"A__B"} <= outcomes(*tape)


def test_cut_truncation_may_be_undone() -> None:
    """Goal: a truncation is a change like any other. Method: one that was not flushed."""
    assert outcomes(Write(1, 0, b"long"), Flush(1, folder=False), Truncate(1, 1)) == {b"long", b"l"}


def test_hole_before_a_write_that_arrived_is_zero() -> None:
    """Goal: a file may grow before its content arrives. Method: drop the first of two writes."""
    assert bytes(2) + b"cd" in outcomes(Write(1, 0, b"ab"), Write(1, 2, b"cd"))


def test_tearing_goes_by_sectors() -> None:
    """Goal: a write is torn at sectors of the file, and nothing outside it changes. Method: tear one that begins in the
    middle of a sector, and look at each sector of each outcome.
    """
    old, new = b"o" * 4 * SECTOR_BYTES, b"n" * 2 * SECTOR_BYTES
    begin, end = 100, 100 + len(new)
    seen = outcomes(Write(1, 0, old), Flush(1, folder=False), Write(1, begin, new))
    borders = [begin, SECTOR_BYTES, 2 * SECTOR_BYTES, end]
    kinds = set()
    for content in seen:
        assert content is not None
        assert content[:begin] == b"o" * begin
        assert content[end:] == b"o" * (len(old) - end)
        pieces = [content[start:stop] for start, stop in pairwise(borders)]
        kinds.add(tuple("new" if set(p) == {110} else "old" if set(p) == {111} else "noise" for p in pieces))
    assert {
        ("new", "new", "new"),
        ("old", "old", "old"),
        ("new", "old", "new"),
        ("old", "new", "old"),
    } <= kinds
    assert any("noise" in kind for kind in kinds)


def test_names_need_a_flush_of_the_folder() -> None:
    """Goal: a new file may be nameless and a removed one come back, in order. Method: cuts around both."""
    made = (Make("a", 1), Write(1, 0, b"x"), Flush(1, folder=False))
    assert {tuple(cut_at(made, 3, seed).files) for seed in SEEDS} == {(), ("a",)}
    replaced = (*made, Flush(1, folder=True), Remove("a", folder=False), Make("a", 2))
    assert {cut_at(replaced, 6, seed).files.get("a") for seed in SEEDS} == {b"x", None, b""}
    for last in (Flush(2, folder=True), Remove("b", folder=True)):
        flushed = (*replaced, last)
        assert {cut_at(flushed, 7, seed).files.get("a") for seed in SEEDS} == {b""}


def test_same_seed_same_files() -> None:
    """Goal: a failure can be replayed from two numbers. Method: rebuild each cut alone and compare."""
    tape = (
        *MADE,
        *(Write(1, 700 * n, bytes([n]) * 900) for n in range(8)),
        Flush(1, folder=False),
        Truncate(1, 50),
    )
    every = list(cuts(tape, [1, 2]))
    assert len(every) == 2 * (len(tape) + 1)
    assert every == list(cuts(tape, [1, 2]))
    assert every == [cut_at(tape, cut.at, cut.seed) for cut in every]
    assert len({cut.files.get("a") for cut in every}) > 10


def test_recording_is_complete(tmp_path: Path) -> None:
    """Goal: the tape holds all that SQLite did to its files. Method: after each transaction, in each journal mode, what
    the tape says is there is what lies in the folder.
    """
    path = tmp_path / "recorded.db"
    with PowerCutDisk("recording") as disk:
        connection = apsw.Connection(str(path), vfs=disk.name)
        for mode in ("DELETE", "WAL", "TRUNCATE", "WAL"):
            connection.pragma("journal_mode", mode)
            connection.execute("CREATE TABLE IF NOT EXISTS notes (body)")
            for statement in (
                "INSERT INTO notes SELECT randomblob(3000) FROM pragma_function_list LIMIT 20",
                "DELETE FROM notes WHERE rowid % 3 = 0",
                "VACUUM",
            ):
                connection.execute(statement)
                assert killed_at(disk.tape, len(disk)).files == _lasting(tmp_path)
        connection.close()
        assert killed_at(disk.tape, len(disk)).files == _lasting(tmp_path)


def _lasting(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
