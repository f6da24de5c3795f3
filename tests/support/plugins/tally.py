"""Say at the end how many tests ran on each store, and how long it took.

    stores: memory 61 · sqlite 140 · postgres 120 — 512 tests in 181 s

A suite that quietly stopped running on Postgres looks green; this line shows it. A test counts for a store when one of
its parameter ids is the store's name, also as `sqlite_reopened`, or when it says so itself:

    @pytest.mark.store("memory", "sqlite", "postgres")
    def test_all_three_agree(): ...

Counting happens in the controlling process, from what each report carries, so it is right under xdist too.
"""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest

STORES = ("memory", "sqlite", "postgres")

_STORE_ID = re.compile(rf"({'|'.join(STORES)})(_reopened)?")


def stores_of(item: pytest.Item) -> list[str]:
    """The stores a test touches, in the order of `STORES`."""
    marked = {name for mark in item.iter_markers("store") for name in mark.args}
    if unknown := marked - set(STORES):
        raise pytest.UsageError(f"{item.nodeid}: no store is called {', '.join(sorted(unknown))}")
    callspec = getattr(item, "callspec", None)
    ids = callspec.id.split("-") if callspec else []
    marked.update(match[1] for text in ids if (match := _STORE_ID.fullmatch(text)))
    return [name for name in STORES if name in marked]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.extend(("store", name) for name in stores_of(item))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Tally(), "holdfast-tally")


class Tally:
    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.ran = 0
        self.stores: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test ran if its body did, or if its set-up failed; a skipped one did not.
        if report.when == "call" or (report.when == "setup" and report.failed):
            if report.skipped:
                return
            self.ran += 1
            self.stores.update(str(value) for name, value in report.user_properties if name == "store")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        seconds = time.perf_counter() - self.started
        stores = " · ".join(f"{name} {self.stores[name]}" for name in STORES)
        terminalreporter.write_line(f"stores: {stores} — {self.ran} tests in {seconds:.0f} s", bold=True)
