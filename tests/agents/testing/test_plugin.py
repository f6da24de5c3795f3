"""The pytest plugin, in a suite of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.project import ROOT

AGENT = """
import holdfast as hf

sent = []
app = hf.App(store="memory:")

@app.tool(effect="idempotent")
async def charge(cents: int, *, key: hf.Key = hf.Key("")) -> int:
    sent.append(cents)
    return len(sent)

@app.agent
async def wrong(cents: int) -> str:
    await charge(cents)
    return "charged"
"""

MARKED = """
import pytest
from wrong import sent, wrong

@pytest.mark.survives
def test_marked(survives):
    print(survives(wrong, 100, effects=lambda: sent, reset=sent.clear))
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"), prepend=os.pathsep)
    pytester.makepyfile(wrong=AGENT)
    return pytester


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    """With our plugin by its module, whether or not it is installed as one."""
    others = ["asyncio", "cacheprovider", "hypothesispytest", "randomly", "timeout", "holdfast"]
    blocked = [f"-pno:{name}" for name in others]
    return suite.runpytest_subprocess(*blocked, "-pholdfast.testing.plugin", "--strict-markers", *options)


@pytest.mark.store("memory")
def test_a_marked_test_kills_only_when_asked_to(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_it=MARKED)
    quick = run(suite, "-s")
    quick.assert_outcomes(passed=1)
    quick.stdout.fnmatch_lines(["*wrong came out the same twice; nobody killed it"])
    thorough = run(suite, "--holdfast-kill=every")
    thorough.assert_outcomes(failed=1)
    thorough.stdout.fnmatch_lines(
        [
            "E *DidNotSurvive: wrong did not survive 3 of 13 crash points",
            "E *the outside world differs: 2 × 100 instead of 1",
            "E *killed at after_tool_success_before_receipt · charge",
            "E *charge is declared idempotent, ran again there under the same key, and did it again: hand the key on.",
        ]
    )
    assert "_Trial" not in thorough.stdout.str(), "the kit's own lines are hidden from the traceback"


@pytest.mark.store("memory")
def test_an_unmarked_test_kills_always(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_it=MARKED.replace("@pytest.mark.survives\n", ""))
    run(suite).assert_outcomes(failed=1)
    run(suite, "--holdfast-kill=never").assert_outcomes(passed=1)


@pytest.mark.store("sqlite")
def test_an_application_and_a_clock_of_a_tests_own(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        test_it="""
import asyncio
import holdfast as hf
from holdfast.testing import running

def test_app(holdfast_app, virtual_clock, tmp_path):
    @holdfast_app.agent
    async def remind(name: str) -> str:
        await hf.sleep("3d")
        return f"{name} is reminded"

    async def told():
        async with running(holdfast_app, store=holdfast_app.store, clock=virtual_clock):
            return await remind("Ada")

    before = virtual_clock.wall_us()
    assert asyncio.run(told()) == "Ada is reminded"
    assert virtual_clock.wall_us() - before >= 3 * 24 * 3600 * 1_000_000
    assert (tmp_path / "holdfast.db").exists()
"""
    )
    run(suite).assert_outcomes(passed=1)


def test_it_costs_nothing_until_a_test_asks() -> None:
    """To load the plugin loads no engine, no store and no database."""
    code = "import sys, holdfast.testing.plugin; print(*[m for m in sys.modules if m.startswith('holdfast')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == ["holdfast", "holdfast.testing", "holdfast.testing.plugin"]
