"""Goal: ordinary asyncio code replays right, seen from outside. Method: an application that uses nothing but the public
API, `holdfast worker`, kill -9 at a moment that a receiver chooses, a second worker; what was done is in the receiver's
own log. Each test is one defect that users have met."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from llmock.scenarios import Reply
from llmock.testing import LLMockServer

from tests.kill.processes.receiver import Receiver
from tests.kill.processes.stage import APP, INTERRUPT, KILL, Stage

pytestmark = pytest.mark.timeout(180)

EFFECTS = {"idempotent": "pay", "verifiable": "mail", "unsafe": "fax"}


async def test_a_pending_sleep_holds_no_job(stage: Stage, receiver: Receiver) -> None:
    """One branch is killed in its first effect while the effect of another, behind a sleep, is recorded."""
    receiver.hold(*(f"{effect}-a1" for effect in EFFECTS))
    first = await stage.worker()
    for effect in EFFECTS:
        await stage.submit("siblings", effect, effect=effect)
    for effect in EFFECTS:
        await receiver.until_arrived(f"{effect}-a1")
        await stage.until_recorded("tool_returned", 1, effect)
    await first.end(KILL)
    await receiver.release()
    await stage.worker()
    await stage.until_uncertain("unsafe")
    happened = ("--happened", "--result", '"fax unsafe-a1"', "--why", "the receiver's log")
    await stage.holdfast("reconcile", "unsafe", "fax", *happened)
    await stage.until_recorded("tool_reconciled", 1, "unsafe")
    for effect, call in EFFECTS.items():
        sent = [f"{call} {effect}-{item}" for item in ("a1", "a2", "b1")]
        assert await stage.completed(effect) == [sent[:2], sent[2:]]
        repeated = 2 if effect == "idempotent" else 1
        assert receiver.counts(call) == {f"{effect}-a1": repeated, f"{effect}-a2": 1, f"{effect}-b1": 1}
        assert set(receiver.keys(call).values()) == {1}, "each effect happened once"


async def test_as_completed_over_coroutines(stage: Stage, receiver: Receiver) -> None:
    """The library makes its tasks from a set; each of them reads, draws an id and pays."""
    receiver.hold("order-5")
    first = await stage.worker()
    await stage.submit("completed_first", numbers=8)
    await receiver.until_arrived("order-5")
    await stage.until_recorded("tool_returned", 7)
    await first.end(KILL)
    await receiver.release()
    await stage.worker()
    assert await stage.completed() == [f"look page-{nth}, pay order-{nth}" for nth in range(8)]
    assert receiver.counts("look") == {f"page-{nth}": 1 for nth in range(8)}, "no read is repeated"
    assert receiver.keys("pay") == {f"order-{nth}": 1 for nth in range(8)}, "one key, one drawn id"


async def test_iteration_over_done_tasks(stage: Stage, receiver: Receiver) -> None:
    """`asyncio.wait` gives a set; one payment is made for each task in it, in the order of the set."""
    receiver.hold("last")
    first = await stage.worker()
    await stage.submit("every_done", numbers=30)
    await receiver.until_arrived("last")
    await first.end(KILL)
    await receiver.release()
    await stage.worker()
    assert await stage.completed() == sorted(f"pay for look part-{nth}" for nth in range(30))
    assert receiver.counts("look") == {f"part-{nth}": 1 for nth in range(30)}, "no read is repeated"
    paid = {f"for look part-{nth}": 1 for nth in range(30)}
    assert receiver.counts("pay") == {**paid, "last": 2}
    assert receiver.keys("pay") == {**paid, "last": 1}


async def test_a_timeout_around_a_durable_wait(stage: Stage, receiver: Receiver) -> None:
    """`asyncio.timeout` around `hf.wait` and `asyncio.wait_for` around `hf.spawn`, two seconds each."""
    await stage.submit("limited_wait", "wait")
    await stage.submit("limited_spawn", "spawn")
    await stage.worker()
    for job_id in ("wait", "spawn"):
        assert await stage.completed(job_id) == "timed out"
        (began,), (ended,) = receiver.arrivals(f"{job_id} begins"), receiver.arrivals(f"{job_id} is over")
        assert 1.9 <= (ended - began) / 1e6 <= 10


async def test_a_sibling_of_a_durable_wait_ticks(stage: Stage, receiver: Receiver) -> None:
    """A branch that sleeps and reads runs while another waits for a signal, which is sent after the last tick."""
    await stage.submit("ticking")
    await stage.worker()
    await receiver.until_arrived("tick-0", "tick-1", "tick-2")
    await stage.signal("go")
    assert await stage.completed() == "went"
    assert receiver.counts("look") == {f"tick-{nth}": 1 for nth in range(3)}


async def test_recorded_timers_are_not_waited_for_again(stage: Stage, receiver: Receiver) -> None:
    """Twenty sleeps, four cancel scopes of anyio and four chains of callbacks take four seconds each, and are killed in
    the call behind them. A takeover comes to that call in a fraction of the time."""
    kinds = ("sleeps", "cancel_scopes", "callbacks")
    receiver.hold(*(f"{kind} end" for kind in kinds))
    first = await stage.worker()
    for kind in kinds:
        await stage.submit(kind, kind)
    for kind in kinds:
        await receiver.until_arrived(f"{kind} end")
    await first.end(KILL)
    await receiver.release()
    await stage.worker()
    ratios = {}
    for kind in kinds:
        assert await stage.completed(kind) == (20 if kind == "sleeps" else 4)
        claims = [event.at for event in await stage.events(kind) if event.type == "job_claimed"]
        first_run, second_run = (
            arrived - claimed
            for arrived, claimed in zip(receiver.arrivals(f"{kind} end"), claims, strict=True)
        )
        assert first_run >= 3_900_000, "the timers were really waited for"
        ratios[kind] = second_run / first_run
    assert max(ratios.values()) < 0.25, ratios
    assert set(receiver.keys("pay").values()) == {1}


async def test_a_thread_beside_a_durable_wait_runs_once(stage: Stage, receiver: Receiver) -> None:
    """Signals come while `asyncio.to_thread` is at work; nothing is killed."""
    receiver.hold("thread")
    await stage.worker()
    await stage.submit("threaded")
    await receiver.until_arrived("thread")
    await stage.signal("one")
    await receiver.until_arrived("after one")
    await stage.signal("two")
    await receiver.until_arrived("after two")
    await receiver.release()
    assert await stage.completed() == ["measure thread", "look after two"]
    assert receiver.counts("measure") == {"thread": 1}


async def test_an_interrupted_script_leaves_a_job_that_goes_on(stage: Stage, receiver: Receiver) -> None:
    """`asyncio.run(agent())` is interrupted with Ctrl-C in eight calls at a time; a worker finishes the job."""
    items = [f"gathered-{nth}" for nth in range(8)]
    receiver.hold(*items)
    script = await stage.script("interrupted")
    await receiver.until_arrived(*items)
    assert await script.end(INTERRUPT) != 0
    await receiver.release()
    (job_id,) = await stage.jobs()
    await stage.worker()
    assert await stage.completed(job_id) == [f"pay {item}" for item in items]
    assert receiver.keys("pay") == dict.fromkeys(items, 1), "each effect happened once"
    assert "call_cancelled" not in await stage.types(job_id), (
        "the end of a process is no decision of the agent"
    )


async def test_a_script_that_ends_leaves_jobs_that_go_on(stage: Stage, receiver: Receiver) -> None:
    """A script ends while a job that it started and a job that it called are at work; a worker finishes both."""
    items = [f"{name}-{nth}" for name in ("started", "called") for nth in range(8)]
    receiver.hold("the end", *items)
    script = await stage.script("unfinished")
    await receiver.until_arrived("the end", *items[8:])
    await receiver.release("the end")
    assert await script.over() == 0, script.log
    await receiver.release()
    await stage.worker()
    assert len(await stage.jobs()) == 2
    for job_id in await stage.jobs():
        name = "started" if job_id == "started" else "called"
        assert await stage.completed(job_id) == [f"pay {name}-{nth}" for nth in range(8)]
        assert "call_cancelled" not in await stage.types(job_id), (
            "the end of a script is no decision of the agent"
        )
    assert receiver.keys("pay") == dict.fromkeys(items, 1), "each effect happened once"


async def test_polling_gets_its_result(stage: Stage, receiver: Receiver) -> None:
    """`while not task.done(): await asyncio.sleep(0)`, around a read and around a payment that is killed."""
    receiver.hold("polled payment")
    first = await stage.worker()
    await stage.submit("polling")
    await receiver.until_arrived("polled payment")
    await first.end(KILL)
    await receiver.release()
    await stage.worker()
    assert await stage.completed() == ["look polled read", "pay polled payment"]
    assert receiver.counts("look") == {"polled read": 1}
    assert receiver.keys("pay") == {"polled payment": 1}


async def test_polling_beside_short_timers_keeps_up(stage: Stage) -> None:
    """Polling code that never comes to rest, and a timer of a millisecond that is set over and over: each read takes as
    long as it takes, and not ten times as long as the one before it."""
    await stage.worker()
    await stage.submit("polling_beside_timers")
    assert await stage.completed() == [f"look page {number}" for number in range(4)]


@pytest.fixture(scope="module")
def models() -> Iterator[LLMockServer]:
    """A provider of models, with a log of what was bought."""
    with LLMockServer() as server:
        yield server


def renamed(helper: str, folder: Path) -> Path:
    """The application as its next version has it: one helper coroutine has another name."""
    version = folder / "app.py"
    code = APP.read_text()
    assert f"async def {helper}(" in code
    version.write_text(code.replace(helper, f"{helper}_of_book"))
    return version


async def test_a_renamed_helper_buys_nothing_again(
    stage: Stage, receiver: Receiver, models: LLMockServer
) -> None:
    """Reads and a model's answers, recorded in tasks of a helper that the second worker's code has renamed."""
    models.state.scenarios.clear()
    models.state.journal.clear()
    models.state.scenarios.add(Reply("It holds on.", times=None))
    stage.environment["MODELS"] = models.base_url("anthropic")
    receiver.hold("proofs")
    first = await stage.worker()
    await stage.submit("written")
    await receiver.until_arrived("proofs")
    await stage.until_recorded("llm_responded", 2)
    await first.end(KILL)
    await receiver.release()
    await stage.worker(renamed("write_chapter", stage.folder))
    assert await stage.completed() == ["It holds on."] * 2
    assert receiver.counts("look") == {"facts-0": 1, "facts-1": 1, "proofs": 2}, "no read is repeated"
    assert len(models.state.journal.records()) == 2, "no answer is bought again"


async def test_a_renamed_helper_repeats_no_effect(stage: Stage, receiver: Receiver) -> None:
    """Two payments are recorded and one is cut off, in tasks of a helper that the second worker's code has renamed."""
    receiver.hold("printed-1")
    first = await stage.worker()
    await stage.submit("printed")
    await receiver.until_arrived("printed-1")
    await stage.until_recorded("tool_returned", 2)
    await first.end(KILL)
    await receiver.release()
    await stage.worker(renamed("print_chapter", stage.folder))
    assert await stage.completed() == [f"pay printed-{nth}" for nth in range(3)]
    assert receiver.counts("pay") == {"printed-0": 1, "printed-1": 2, "printed-2": 1}
    assert set(receiver.keys("pay").values()) == {1}, "each effect happened once"
