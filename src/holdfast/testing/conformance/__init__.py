"""Conformance suite of a store: everything the ports promise, as plain coroutines that assert.

Holdfast's own stores run these checks in every build. To test another store, write a `Backend` and run them:

    class MyBackend:
        name, tier, durable = "mine", Tier.SQLITE, True

        def __init__(self) -> None:
            self.clock = VirtualClock()

        async def open(self) -> Store: ...                  # fresh and empty, on self.clock
        async def reopen(self, store: Store) -> Store: ...  # the same data, as a new process would open it

    report = await run(MyBackend())
    print(report)           # mine: 428/429
                            #     a_reboot_ends_leases: AssertionError: … (leases.py:143)

With pytest, parametrise over `ALL` and call `await check(bench)` inside `async with bench_on(backend) as bench`.

    SEED_004   the acceptance document for sessions and the inbox, 19 checks by its own names
    CORNERS    edge cases that the document leaves open and Holdfast decides
    JOBS       jobs, leases, journal, mail, ledger, blobs, namespaces, and several callers at once
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.testing.conformance import report
from holdfast.testing.conformance.harness import HANDLE, Backend, Bench, Check, bench_on
from holdfast.testing.conformance.jobs import JOBS
from holdfast.testing.conformance.report import CheckResult, Report, name_of
from holdfast.testing.conformance.seed_004 import SEED_004
from holdfast.testing.conformance.session_edge_cases import CORNERS

ALL: Final[tuple[Check, ...]] = SEED_004 + CORNERS + JOBS


async def run(backend: Backend, checks: Iterable[Check] = ALL) -> Report:
    """Run the checks, each on a fresh store; returns the report."""
    return await report.run(backend, checks)


__all__ = [
    "ALL",
    "CORNERS",
    "HANDLE",
    "JOBS",
    "SEED_004",
    "Backend",
    "Bench",
    "Check",
    "CheckResult",
    "Report",
    "bench_on",
    "name_of",
    "run",
]
