"""The benchmark runs and says what it should say. How fast anything was is nobody's business here."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Literal

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.report import make_goal


@pytest.mark.store("sqlite")
def test_the_quick_form_writes_a_well_formed_report(tmp_path: Path) -> None:
    """Goals and rows of a quick run on SQLite, read back from the file, have the promised shape and make sense."""
    out = tmp_path / "deep" / "bench.json"
    command = ["append", "--quick", "--store", "sqlite", "--out", str(out), "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0, "a missed goal is news, not a failure"

    report = json.loads(out.read_bytes())
    assert set(report) == {"goals", "rows", "notes", "curves", "machine"}
    assert [each["name"] for each in report["goals"]] == ["append single sqlite", "append group sqlite"]
    for each in report["goals"]:
        assert set(each) == {"name", "value", "goal", "unit", "met"}
        assert math.isfinite(each["value"])
        assert each["name"] in result.output
        assert isinstance(each["met"], bool)
        assert ("NOT MET" in result.output) or each["met"]
    compared = [row for row in report["rows"] if row["ratio"] is not None]
    assert {row["contest"] for row in compared} == {"single", "group of 32", "group of 32 tasks"}
    for row in report["rows"]:
        assert 0 < row["low"] <= row["value"] <= row["high"]
    assert all(row["against"] in {other["contestant"] for other in report["rows"]} for row in compared)
    assert report["machine"]["flush_ms"] > 0
    assert list(tmp_path.iterdir()) == [out.parent], "the databases are gone"


@pytest.mark.store("sqlite")
def test_the_seed_and_the_sweep_are_measured(tmp_path: Path) -> None:
    """One round of each on SQLite: a goal for each of the seed's five figures, beside them, and one sweep."""
    out = tmp_path / "deep" / "bench.json"
    command = ["seed", "sweep", "--quick", "--rounds", "1", "--store", "sqlite", "--out", str(out)]
    result = CliRunner().invoke(main, [*command, "--folder", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(out.read_bytes())
    figures = "create verify cache replay whole".split()
    assert [each["name"] for each in report["goals"]] == [*(f"seed {name}" for name in figures), "sweep 1000"]
    assert all(math.isfinite(each["value"]) and each["value"] > 0 for each in report["goals"])
    shown = {(row["contest"], row["contestant"]): row["value"] for row in report["rows"]}
    for name in figures:
        for measure in ("average", "p95"):
            assert shown[f"{name} {measure}", "holdfast kit"] > 0
            assert shown[f"{name} {measure}", "seed 002, its limit"] >= 1
    assert list(tmp_path.iterdir()) == [out.parent], "the databases are gone"


@pytest.mark.store("sqlite")
def test_the_engine_is_measured(tmp_path: Path) -> None:
    """One round of each on SQLite: the promised goals are there, and no recorded step ran twice."""
    out = tmp_path / "deep" / "bench.json"
    command = ["step", "queue", "resume", "--quick", "--rounds", "1", "--store", "sqlite", "--out", str(out)]
    result = CliRunner().invoke(main, [*command, "--folder", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(out.read_bytes())
    found = {each["name"]: each["value"] for each in report["goals"]}
    assert list(found) == [
        "step strict sqlite",
        "step reads sqlite",
        "queue sqlite",
        "resume 1000 sqlite",
        "resume 1000 sqlite from a checkpoint",
        "resume 1000 sqlite again",
        "resume sleeps sqlite",
        "resume sleeps sqlite again",
    ]
    assert found.pop("resume 1000 sqlite again") == 0
    assert found.pop("resume sleeps sqlite again") == 0
    assert all(math.isfinite(value) and value > 0 for value in found.values())
    assert list(tmp_path.iterdir()) == [out.parent], "the databases are gone"


@pytest.mark.store("sqlite")
def test_work_for_agents_elsewhere_is_measured(tmp_path: Path) -> None:
    """One round on SQLite: claims in both shapes beside upstream's figure, and the three ways to hear of new work."""
    out = tmp_path / "deep" / "bench.json"
    command = ["work", "--quick", "--rounds", "1", "--store", "sqlite", "--out", str(out)]
    result = CliRunner().invoke(main, [*command, "--folder", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(out.read_bytes())
    shown = {(row["contest"].partition(",")[0], row["contestant"]) for row in report["rows"]}
    assert shown == {
        *(("claim on the store", name) for name in ("holdfast p50", "holdfast p95")),
        *(("claim", name) for name in ("holdfast p50", "holdfast p95", "upstream of seed 003, its p95")),
        *(
            ("pickup by an idle agent", name)
            for name in ("long poll over HTTP", "NATS hint, then a claim", "polling each second")
        ),
    }
    assert [each["goal"] for each in report["goals"]] == [10, 10, 10, 77, 10, 77, 0.1, 0.1]
    assert all(math.isfinite(each["value"]) and each["value"] > 0 for each in report["goals"])
    assert list(tmp_path.iterdir()) == [out.parent], "the databases are gone"


@pytest.mark.store("sqlite")
def test_writers_growth_and_footprint_are_measured(tmp_path: Path) -> None:
    """One round of each on SQLite: every write of the storm was accepted, every curve has points and a picture."""
    out = tmp_path / "deep" / "bench.json"
    command = ["writers", "growth", "footprint", "--quick", "--rounds", "1", "--store", "sqlite"]
    command += ["--out", str(out), "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(out.read_bytes())
    found = {each["name"]: each["value"] for each in report["goals"]}
    assert found["writers 20 × 20 accepted"] == 1
    assert {"writers 20 × 20 wait", "memory sqlite", "first step"} <= set(found)
    curves = {each["name"]: each["points"] for each in report["curves"]}
    assert list(curves) == ["append", "claim", "turn", "resume"]
    assert all(len(points) >= 2 and all(cost > 0 for _, cost in points) for points in curves.values())
    pictures = {path.name for path in out.parent.glob("*.svg")}
    assert {f"bench-growth-{name}-sqlite.svg" for name in curves} <= pictures
    assert "bench-writers-20-20-sqlite.svg" in pictures


@pytest.mark.store("sqlite")
def test_a_slow_disk_is_felt(tmp_path: Path) -> None:
    """The benchmark runs itself under a library that delays each fsync; without a compiler it says so."""
    out = tmp_path / "deep" / "bench.json"
    command = ["slow", "--quick", "--rounds", "1", "--jobs", "20", "--store", "sqlite"]
    command += ["--out", str(out), "--folder", str(tmp_path)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(out.read_bytes())
    if sys.platform != "linux" or shutil.which("cc") is None:
        assert "left out" in report["notes"][0]["text"]
        return
    (raw,) = (row for row in report["rows"] if row["contestant"] == "raw, 100 commits of one row")
    assert raw["value"] >= 2
    assert raw["contest"].endswith("2 ms more per fsync")
    assert [each["name"] for each in report["goals"]] == ["slow queue sqlite"]


@pytest.mark.parametrize(
    "side, value, met",
    [("at most", 1.9, True), ("at most", 2.1, False), ("at least", 2.1, True), ("at least", 1.9, False)],
)
def test_a_goal_knows_its_good_side(side: Literal["at most", "at least"], value: float, met: bool) -> None:
    assert make_goal("append anything", value, side, 2.0, "× raw").met is met
