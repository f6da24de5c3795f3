"""A promise is published with its proof: every test that the guarantees name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.testing.conformance import ALL
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"\(test: `([^`]+)`\)", PAGE)))
CHECKS = {check.__name__ for check in ALL}


@pytest.mark.parametrize("name", NAMED)
def test_the_named_test_exists(name: str) -> None:
    """Look each one up: a conformance check by its name, any other test in its file."""
    place, _, test = name.partition("::")
    if place == "conformance":
        assert test in CHECKS
    else:
        assert f"def {test}(" in Path(ROOT / place).read_text(encoding="utf-8")


def test_every_guarantee_names_one() -> None:
    """A row of the tables that begins with a number of a guarantee ends with a test."""
    rows = [line for line in PAGE.splitlines() if re.match(r"\| G\d+ ", line)]
    assert len(rows) >= 25
    assert not [row[:8] for row in rows if "(test: `" not in row]
