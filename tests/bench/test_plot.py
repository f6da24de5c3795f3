"""Pictures of the benchmark are well-formed and say what the tables say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from bench.plot import draw, kind_of
from bench.report import Curve, Row

SVG = "{http://www.w3.org/2000/svg}"
ROW = Row(
    suite="queue",
    contest="5 jobs <of> 5 & more",
    store="sqlite",
    contestant="raw group commit",
    measure="one job",
    unit="ms",
    value=0.2,
    low=0.1,
    high=0.4,
)


def rows(*values: tuple[str, float]) -> list[Row]:
    return [
        msgspec.structs.replace(ROW, contestant=name, value=value, low=value / 2, high=value * 2)
        for name, value in values
    ]


def test_a_table_becomes_one_picture_with_a_bar_for_each_contestant(tmp_path: Path) -> None:
    """Names that would break XML are escaped; bars are as long as their values are large, whoever they belong to."""
    found = rows(("raw <one> & only", 0.2), ("holdfast", 0.4), ("Some & Peer", 80.0))
    (path,) = draw(found, [], tmp_path)
    root = ET.fromstring(path.read_text())  # noqa: S314 - our own
    assert root.tag == f"{SVG}svg"
    bars = [(bar.get("class"), float(bar.get("width", "0"))) for bar in root.iter(f"{SVG}rect")]
    assert [whose for whose, _ in bars] == ["raw", "ours", "peer"]
    assert 0 < bars[0][1] < bars[1][1] < bars[2][1]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"raw <one> & only", "Some & Peer", "80"} <= set(texts)
    assert "prefers-color-scheme: dark" in path.read_text()


def test_each_contest_has_its_own_file(tmp_path: Path) -> None:
    other = msgspec.structs.replace(ROW, store="postgres")
    drawn = draw([ROW, other], [curve((10, 1.0), (100, 1.0))], tmp_path)
    assert len({path.name for path in drawn}) == 3
    assert all(path.name.startswith("bench-") and path.suffix == ".svg" for path in drawn)


def curve(*points: tuple[int, float]) -> Curve:
    return Curve(name="append", store="sqlite", contestant="holdfast", of="events", unit="ms", points=points)


@pytest.mark.parametrize("power", [0, 0.5, 1, 2])
def test_the_exponent_is_the_power_of_the_cost(power: float) -> None:
    """A cost made to grow with a power of the size is found to; noise of a few per cent moves it little."""
    sizes = (100, 1_000, 10_000)
    exact = curve(*((size, 0.3 * size**power) for size in sizes))
    assert exact.exponent() == pytest.approx(power, abs=1e-9)
    noisy = curve(
        *((size, 0.3 * size**power * noise) for size, noise in zip(sizes, (1, 1.05, 0.95), strict=True))
    )
    assert noisy.exponent() == pytest.approx(power, abs=0.05)


def test_a_curve_has_a_point_for_each_size(tmp_path: Path) -> None:
    (path,) = draw([], [curve((10, 1.0), (100, 3.0), (1_000, 10.0))], tmp_path)
    root = ET.fromstring(path.read_text())  # noqa: S314 - our own
    heights = [float(point.get("cy", "nan")) for point in root.iter(f"{SVG}circle")]
    assert heights == sorted(heights, reverse=True)
    assert len(heights) == 3


@pytest.mark.parametrize(
    "name, whose", [("holdfast, strict", "ours"), ("raw turn", "raw"), ("DBOS 3", "peer")]
)
def test_colours_say_whose_it_is(name: str, whose: str) -> None:
    assert kind_of(name) == whose
