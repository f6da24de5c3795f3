"""The reports people trust: the tally of stores, and the count of acceptance checks."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.seeds import SEEDS
from tests.support.project import ROOT

SEED_004 = next(seed for seed in SEEDS if seed.number == "004")
CHECKS = SEED_004.checks


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty suite with this project's plugins, to which one seed is all there is."""
    monkeypatch.setattr("tests.support.plugins.acceptance.SEEDS", (SEED_004,))
    pytester.makeconftest(
        'pytest_plugins = ["tests.support.plugins.tally", "tests.support.plugins.acceptance"]'
    )
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers =\n  seed\n  store\n")
    return pytester


def conformance(checks: tuple[str, ...], *, body: str = "pass") -> str:
    return f"""
import pytest

@pytest.mark.seed("004")
@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("check", {checks!r})
def test_conformance(check, store):
    {body}
"""


def run(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    others = ["asyncio", "cacheprovider", "hypothesispytest", "randomly", "timeout"]
    return suite.runpytest(*(f"-pno:{name}" for name in others), *options)


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_complete_acceptance_passes(suite: pytest.Pytester, processes: tuple[str, ...]) -> None:
    """All checks on all lanes, in one process and in several: each line is full and the file says the same."""
    suite.makepyfile(conformance(CHECKS))
    result = run(suite, "--acceptance", *processes)
    result.stdout.fnmatch_lines(
        ["seed 004: 19/19  memory", "seed 004: 19/19  sqlite", "seed 004: 19/19  postgres"]
    )
    assert result.ret == 0
    written = json.loads((suite.path / "build" / "acceptance.json").read_text())
    assert written["seeds"]["004"]["sqlite"] == {"passed": 19, "total": 19, "failed": []}


def test_a_check_that_did_not_run_fails_the_acceptance(suite: pytest.Pytester) -> None:
    """All tests pass, but one check has none: 18 of 19, named, and a failing exit."""
    suite.makepyfile(conformance(CHECKS[:-1]))
    result = run(suite, "--acceptance")
    result.stdout.fnmatch_lines(["seed 004: 18/19  memory", f"    not run: {CHECKS[-1]}"])
    assert result.ret == 1
    written = json.loads((suite.path / "build" / "acceptance.json").read_text())
    assert written["seeds"]["004"]["postgres"] == {"passed": 18, "total": 19, "failed": [CHECKS[-1]]}


@pytest.mark.parametrize("verb", ["fail", "skip"])
def test_a_failed_or_skipped_check_counts_against_its_lane_only(suite: pytest.Pytester, verb: str) -> None:
    body = f'if (check, store) == ("{CHECKS[0]}", "sqlite"): pytest.{verb}("no")'
    suite.makepyfile(conformance(CHECKS, body=body))
    result = run(suite, "--acceptance")
    result.stdout.fnmatch_lines(
        [
            "seed 004: 19/19  memory",
            "seed 004: 18/19  sqlite",
            f"    failed: {CHECKS[0]}",
            "seed 004: 19/19  postgres",
        ]
    )
    assert result.ret == 1


def test_an_unknown_check_is_refused(suite: pytest.Pytester) -> None:
    suite.makepyfile(conformance(("no_such_check",)))
    result = run(suite)
    result.stderr.fnmatch_lines(["*lists no check 'no_such_check' of seed 004 on memory"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_tally_counts_each_store(suite: pytest.Pytester, processes: tuple[str, ...]) -> None:
    """A parameter, a suffix, a mark, none, and one skipped: five tests, of which four run."""
    suite.makepyfile("""
import pytest

@pytest.mark.parametrize("store", ["memory", "sqlite_reopened"])
def test_by_parameter(store): pass

@pytest.mark.store("memory", "postgres")
def test_by_mark(): pass

def test_without(): pass

@pytest.mark.store("sqlite")
def test_skipped(): pytest.skip()
""")
    result = run(suite, *processes)
    result.stdout.fnmatch_lines(["stores: memory 2 · sqlite 1 · postgres 1 — 4 tests in * s"])


def test_the_longest_tests_run_first(suite: pytest.Pytester) -> None:
    """By the limits that they declare, if these are above the usual one; the others keep their order."""
    suite.makeconftest('pytest_plugins = ["tests.support.plugins.long_first"]')
    suite.makeini(f"[pytest]\npythonpath = {ROOT}\ntimeout = 120\n")
    suite.makepyfile("""
import pytest

def test_b(): pass

@pytest.mark.timeout(30)
def test_a(): pass

@pytest.mark.timeout(300)
def test_long(): pass

@pytest.mark.timeout(900)
def test_longest(): pass
""")
    result = suite.runpytest("-v", "-pno:asyncio", "-pno:randomly", "-pno:cacheprovider")
    result.stdout.fnmatch_lines(["*::test_longest *", "*::test_long *", "*::test_b *", "*::test_a *"])
    result.assert_outcomes(passed=4)
