"""Goal: whoever proves a store without pytest learns what failed and where. Method: checks that fail on purpose."""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.testing.conformance import SEED_004, Bench, run
from tests.support.fixtures.stores import MemoryBackend


async def holds(bench: Bench) -> None:
    assert await bench.submit()


async def does_not_hold(bench: Bench) -> None:
    job_id = await bench.submit()
    assert job_id == "job_1", "ids are longer than that"


async def accepts_what_it_should_refuse(bench: Bench) -> None:
    async with bench.refuses(NotFound):
        await bench.submit()


async def refuses_but_leaves_a_trace(bench: Bench) -> None:
    async with bench.refuses(NotFound):
        await bench.submit()
        await bench.store.jobs.get("job_unknown")


async def stumbles(bench: Bench) -> None:
    await bench.store.jobs.get("job_unknown")


async def test_a_store_that_keeps_its_promises() -> None:
    report = await run(MemoryBackend(), SEED_004)
    assert str(report) == "memory: 19/19"
    assert report
    assert report.passed == 19


async def test_a_failing_check_does_not_stop_the_others() -> None:
    report = await run(MemoryBackend(), (does_not_hold, stumbles, holds))
    assert not report
    assert [result.check for result in report.failed] == ["does_not_hold", "stumbles"]
    text = str(report)
    assert text.startswith("memory: 1/3\n")
    assert "does_not_hold: AssertionError: ids are longer than that" in text
    assert "stumbles: NotFound: " in text
    assert text.count("(test_report.py:") == 2, "each fault names its place"


async def test_a_refusal_must_happen_and_leave_no_trace() -> None:
    report = await run(MemoryBackend(), (accepts_what_it_should_refuse, refuses_but_leaves_a_trace))
    accepted, traced = report.failed
    assert "should have been refused with NotFound" in str(accepted.fault)
    assert "something appeared" in str(traced.fault)


async def test_no_checks_prove_nothing() -> None:
    assert not await run(MemoryBackend(), ())
