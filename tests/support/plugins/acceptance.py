"""Count acceptance checks by name, and fail when one is missing.

An acceptance document (a *seed*) is a list of named checks, each to be shown on one or more *lanes*, usually stores.
`tests/acceptance/seeds.py` holds the lists. A test says which check it shows:

    @pytest.mark.seed("004", check="commit_rejects_a_different_session_id")
    async def test_other_session_is_refused(store): ...         # lane: the store in the parameter id

    @pytest.mark.seed("004")
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_conformance(check, store): ...               # check: the parameter called `check`

    @pytest.mark.seed("003", check="restart", lane="nats")      # lane: said outright, or the parameter called `lane`

A check may be shown by several tests; it passes when at least one ran and every one passed. A skipped test is a failed
check. A seed, check or lane that is not in the list is an error at collection.

These are ordinary tests, part of `make test`. With `--acceptance`, which `make acceptance` adds to `-m seed`, the run
also prints a line for each seed and lane, writes `build/acceptance.json`, and fails unless every check of every list
was shown, whatever was deselected:

    seed 004: 19/19  memory
    seed 004: 18/19  sqlite
        not run: session_metadata_round_trips
"""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from tests.acceptance.seeds import SEEDS, Seed
from tests.support.plugins.tally import stores_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--acceptance", action="store_true", help="count the acceptance checks; fail if any is missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    controlling = not hasattr(config, "workerinput")
    if config.getoption("--acceptance") and controlling and not config.option.collectonly:
        config.pluginmanager.register(Acceptance(config), "holdfast-acceptance")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("seed"):
            number, check, lanes = mark.args[0], _check_of(item, mark), _lanes_of(item, mark)
            for lane in lanes:
                if not any(seed.number == number and seed.has(check, lane) for seed in SEEDS):
                    raise pytest.UsageError(
                        f"{item.nodeid}: tests/acceptance/seeds.py lists no check {check!r} of seed {number} on {lane}"
                    )
                item.user_properties.append(("seed", f"{number} {lane} {check}"))


def _check_of(item: pytest.Item, mark: pytest.Mark) -> str:
    callspec = getattr(item, "callspec", None)
    check = mark.kwargs.get("check") or (callspec and callspec.params.get("check"))
    if check is None:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.seed needs check=… or a parameter called `check`"
        )
    return str(getattr(check, "__name__", check))


def _lanes_of(item: pytest.Item, mark: pytest.Mark) -> list[str]:
    parameters = (
        item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    )
    said = mark.kwargs.get("lane", parameters.get("lane"))
    lanes = stores_of(item) if said is None else [str(said)]
    if not lanes:
        raise pytest.UsageError(
            f"{item.nodeid}: @pytest.mark.seed needs lane=… or a store in the parameter ids"
        )
    return lanes


class Acceptance:
    """Lives in the controlling process and sees the reports of all."""

    def __init__(self, config: pytest.Config) -> None:
        self.path = config.rootpath / "build" / "acceptance.json"
        # (seed, lane, check) → whether each test that ran for it passed
        self.shown: defaultdict[tuple[str, str, str], list[bool]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A failed set-up or tear-down fails the check; a passed one says nothing yet.
        if report.when == "call" or not report.passed:
            for name, value in report.user_properties:
                if name == "seed":
                    number, lane, check = str(value).split(" ", 2)
                    self.shown[number, lane, check].append(report.passed)

    def unmet(self, seed: Seed, lane: str) -> list[str]:
        """The checks not shown: not run at all, or run and not passed every time."""
        return [
            check for check in seed.checks if not all(self.shown.get((seed.number, lane, check), [False]))
        ]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        seeds: dict[str, dict[str, object]] = defaultdict(dict)
        for seed in SEEDS:
            for lane in seed.lanes:
                failed, total = self.unmet(seed, lane), len(seed.checks)
                seeds[seed.number][lane] = {"passed": total - len(failed), "total": total, "failed": failed}
                if failed:
                    session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps({"seeds": seeds}, indent=2) + "\n", encoding="utf-8")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("acceptance")
        for seed in SEEDS:
            for lane in seed.lanes:
                unmet, total = self.unmet(seed, lane), len(seed.checks)
                colour = {"red": True} if unmet else {"green": True}
                terminalreporter.write_line(
                    f"seed {seed.number}: {total - len(unmet)}/{total}  {lane}", **colour
                )
                for check in unmet:
                    word = "failed" if (seed.number, lane, check) in self.shown else "not run"
                    terminalreporter.write_line(f"    {word}: {check}")
        terminalreporter.write_line(f"written: {self.path.parent.name}/{self.path.name}")
