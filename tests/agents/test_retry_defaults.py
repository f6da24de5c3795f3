"""Goal: the table of defaults in docs/tools.md says what the code does. Method: its rows, against declared tools."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

import holdfast as hf
from holdfast.agents.models.provider_limits import RequestPolicy
from holdfast.model.retry import JOB_RETRY, Retry, delay
from holdfast.model.side_effects import quiet_at
from holdfast.model.time import SECOND
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells[1:]
    for line in PAGE.partition("## Retries and timeouts")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 5
}


def describe(retry: Retry) -> str:
    """Attempts, and the time from the first to the last of them."""
    waits = [
        [delay(retry.policy, attempt, chance) for attempt in range(1, retry.attempts)] for chance in (0, 1)
    ]
    least, most = (round(sum(each) / SECOND) for each in waits)
    return f"{retry.attempts} in {least} to {most} s"


def declared(effect: str) -> Any:
    probe = None if effect != "verifiable" else lambda _key, _args: hf.CannotTell()

    async def tool() -> None: ...

    return hf.App().tool(effect=effect, probe=probe)(tool)


@pytest.mark.parametrize("effect", ["read_only", "idempotent", "verifiable", "unsafe"])
def test_the_defaults_of_tools(effect: str) -> None:
    (row,) = [cells for name, cells in ROWS.items() if name.startswith(f"`{effect}`")]
    terms = declared(effect).terms
    expected = describe(terms.retry)
    if effect == "verifiable":  # the next attempt waits until the receiver can be asked about the last one
        apart_s = quiet_at(0, terms.longest_call_us, terms.receiver_delay_us, terms.quiet_margin_us) // SECOND
        expected = f"{terms.retry.attempts}, {apart_s} s apart"
    assert row[1] == expected
    limit_us = terms.reads_within_us if effect == "read_only" else terms.longest_call_us
    assert row[2] == ("none" if limit_us is None else f"{limit_us // SECOND} s")


def test_the_defaults_of_models_and_jobs() -> None:
    usual = RequestPolicy()
    assert ROWS["a request to a model"][1] == describe(usual.retry)
    assert usual.timeout_us is None
    assert ROWS["the function of a job"][1] == describe(JOB_RETRY)


def test_a_job_as_a_whole_has_no_timeout() -> None:
    (row,) = [cells for name, cells in ROWS.items() if name.startswith("a job as a whole")]

    async def agent() -> None: ...

    assert row[2] == "none"
    assert hf.App().agent(agent).timeout_us is None


def test_the_numbers_of_hf_retry() -> None:
    names = ("attempts", "initial", "maximum", "multiplier", "jitter")
    pattern = ", ".join(rf"{name}=([\d.]+)" for name in names)
    (said,) = re.findall(rf"`hf\.Retry\({pattern}\)`", PAGE)
    usual = msgspec.structs.asdict(hf.Retry())
    assert [float(number) for number in said] == [float(usual[name]) for name in names]
