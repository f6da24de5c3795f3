"""Comparisons with peers: who is the best of them, what is compared with what, and that a verdict can be a bad one."""

from __future__ import annotations

import asyncio

import pytest

from bench.contest import Absent, Contestant, Lap, Result, fastest, middle, open_contestants, play
from bench.peers.catalogue import ENTRIES, LEFT_OUT, find_entries
from bench.peers.versions import PACKAGES, versions
from bench.report import Contest, Findings, make_peer_goal


def result(name: str, *times_s: float, inside: bool = False) -> Result:
    return Result(name, 1, tuple(Lap((time_s,), 0.0, inside) for time_s in times_s))


OURS = result("holdfast", 1.0, 1.0, 1.0, inside=True)
RAW = result("raw", 0.5, 0.5, 0.5, inside=True)
SLOW = result("slow peer", 9.0)
QUICK = result("quick peer", 4.0)


@pytest.mark.parametrize("at_least, met", [(2.5, True), (4.0, True), (4.1, False), (8.0, False)])
def test_a_peer_is_beaten_or_not(at_least: float, met: bool) -> None:
    """Only the fastest of them counts, whatever order they come in."""
    for peers in ([SLOW, QUICK], [QUICK, SLOW]):
        verdict = make_peer_goal("queue peers", OURS, peers, at_least)
        assert (verdict.met, verdict.value) == (met, 4.0)
        assert "quick peer" in verdict.unit


def test_a_table_compares_with_the_raw_limit_and_the_best_peer() -> None:
    table = Contest("queue", "5 jobs", "sqlite").table(
        [RAW, OURS, SLOW, QUICK], "one job", middle, RAW, [SLOW, QUICK]
    )
    assert [(row.ratio, row.to_peer) for row in table] == [
        (None, 0.125),
        (2.0, 0.25),
        (18.0, 2.25),
        (8.0, None),
    ]
    assert [row.cpu_ms is None for row in table] == [False, False, True, True]
    assert {row.peer for row in table[:3]} == {"quick peer"}
    assert fastest([OURS, SLOW, QUICK]) is OURS


class Counted(Contestant):
    """Says how often it was asked."""

    def __init__(self, name: str, rounds: int | None = None, operations: int | None = None) -> None:
        self.name = name  # type: ignore[misc]
        self.rounds_at_most, self.operations_at_most = rounds, operations
        self.asked = 0

    async def operation(self, number: int) -> float:
        self.asked += 1
        return 0.25


class Missing(Counted):
    async def open(self) -> None:
        raise Absent("is not installed")


def test_who_is_slow_sits_out_and_who_measures_is_believed() -> None:
    """Two of three rounds after the warm-up, one operation of each lap; times are what the contestant says."""
    always, rarely = Counted("always"), Counted("rarely", rounds=2, operations=1)
    found = asyncio.run(play([always, rarely], rounds=3, operations=4))
    assert (always.asked, rarely.asked) == (16, 3)
    assert [len(one.laps) for one in found] == [3, 2]
    assert found[1].laps[0].times_s == (0.25,)
    assert found[0].against(found[1], middle).value == 1.0


def test_who_cannot_take_part_is_named() -> None:
    """It leaves the contest, which goes on; without a list to be named in, nothing is swallowed."""

    async def contest(absent: list[str] | None) -> list[str]:
        contestants: list[Contestant] = [Counted("there"), Missing("Some Peer 1")]
        async with open_contestants(contestants, absent):
            return [one.name for one in contestants]

    absent: list[str] = []
    assert asyncio.run(contest(absent)) == ["there"]
    assert absent == ["Some Peer 1: is not installed"]
    findings = Findings([], [], [], [])
    for _ in range(2):
        findings.beside("queue", "sqlite", "LangGraph has no queue.", absent)
    assert [note.text for note in findings.notes] == [
        "LangGraph has no queue.",
        "could not take part: Some Peer 1: is not installed",
    ]
    with pytest.raises(Absent):
        asyncio.run(contest(None))


@pytest.mark.parametrize("work", list(ENTRIES))
def test_every_work_has_a_best_peer_and_says_who_is_missing(work: str) -> None:
    """Nobody is entered unless asked for; the best are some of all; every name has the version of the lock."""
    for store in {store for entry in ENTRIES[work] for store in entry.stores}:
        everybody = find_entries(work, store, "all")
        assert find_entries(work, store, "none") == []
        assert all(one in everybody for one in find_entries(work, store, "best"))
        assert len({one.name() for one in everybody}) == len(everybody)
        assert all(versions()[one.package] in one.name() for one in everybody)
    assert any(entry.best for entry in ENTRIES[work])
    assert LEFT_OUT[work]


def test_who_cannot_do_so_many_steps_is_left_out() -> None:
    few, many = (find_entries("resume", "sqlite", "all", steps) for steps in (1_000, 10_000))
    assert {one.adapter for one in few} - {one.adapter for one in many} == {"temporal"}


def test_versions_come_from_the_lock() -> None:
    assert set(PACKAGES) <= set(versions())
