"""The page on configuration and the code say the same: every variable, every option of the processes one operates."""

from __future__ import annotations

import re

import click
import pytest

from holdfast.cli.root import holdfast
from tests.operations.deployment.commands import lines_of, refusal
from tests.support.project import PACKAGE, ROOT

OPERATING = ROOT / "docs" / "operating"
PAGE = OPERATING / "configuration.md"
_VARIABLE = re.compile(r"\b(?:HOLDFAST|OTEL)_[A-Z_]*[A-Z]\b")


INTERNAL = {"HOLDFAST_LIFELINE_FD", "HOLDFAST_LIFELINE_PID", "HOLDFAST_HANDED_JOB", "HOLDFAST_SECRET_STRIPE"}
"""What `holdfast up` tells its own parts, and an example."""


def in_code() -> set[str]:
    """Every variable that the shipped code names, without those that only its own tests read."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if "testing" not in path.relative_to(PACKAGE).parts:
            found |= set(_VARIABLE.findall(path.read_text(encoding="utf-8")))
    return found - INTERNAL


def test_every_variable_is_on_the_page_and_no_other() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(set(rows))
    assert set(rows) == in_code()


@pytest.mark.parametrize("name", ["serve", "worker", "doctor"])
def test_every_option_is_on_the_page_and_no_other(name: str) -> None:
    command = holdfast.get_command(click.Context(holdfast), name)
    if isinstance(command, click.Group):  # `holdfast worker app.py` is its `run`
        command = command.commands["run"]
    assert command is not None
    options = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
        for option in parameter.opts
        if option.startswith("--")
    }
    section = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (told,) = [part for part in section if part.startswith(f"`holdfast {name}`")]
    assert set(re.findall(r"^\| `(--[a-z-]+)", told, re.MULTILINE)) == options


@pytest.mark.parametrize("page", sorted(OPERATING.glob("*.md")), ids=lambda path: path.name)
def test_commands_on_the_pages_are_ones_that_holdfast_takes(page: object) -> None:
    text = page.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    for arguments in lines_of(text):
        assert refusal(arguments) is None, f"holdfast {' '.join(arguments)}: {refusal(arguments)}"
