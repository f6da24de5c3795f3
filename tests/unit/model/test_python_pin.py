"""Which Python may drive a job."""

from __future__ import annotations

import sys

import pytest

from holdfast.model.python_pin import HERE, find_misfit


def test_this_python_is_named_by_its_minor_version() -> None:
    assert [int(part) for part in HERE.split(".")] == [sys.version_info.major, sys.version_info.minor]


@pytest.mark.parametrize(
    "pinned, here, accepted", [("3.11", "3.11", ()), (None, "3.11", ()), ("3.11", "3.12", {"3.12"})]
)
def test_the_same_an_unknown_and_an_accepted_python_may(
    pinned: str | None, here: str, accepted: set[str]
) -> None:
    assert find_misfit(pinned, here, accepted) is None


@pytest.mark.parametrize(
    "pinned, here, accepted", [("3.11", "3.12", ()), ("3.11", "3.1", ()), ("3.11", "3.12", {"3.13"})]
)
def test_another_may_not_and_the_report_says_which_is_needed(
    pinned: str, here: str, accepted: set[str]
) -> None:
    report = find_misfit(pinned, here, accepted)
    assert report is not None
    assert (report["needs_python"], report["found_python"]) == (pinned, here)
    assert f"Python {pinned}" in report["why"]
    assert f"Python {pinned}" in report["hint"]
