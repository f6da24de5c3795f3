"""A clock is set while jobs wait, sleep and run. Nothing of it is decided by that.

Method: real workers on a file and on Postgres; the clock that the store goes by, the host's or the server's, is set.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.model.states import Status
from holdfast.model.time import DAY, HOUR, MINUTE, SECOND
from tests.kill.processes.receiver import Receiver
from tests.kill.processes.set_clock import SetClock, clock_of
from tests.kill.processes.stage import PATIENCE_S, Stage, opened
from tests.support.project import ROOT

APP = ROOT / "tests/kill/processes/clocks_app.py"


@pytest.fixture
async def clock(
    volatile_folder: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SetClock]:
    """The clock that the store goes by, for this process and its children."""
    async with clock_of(where, volatile_folder) as clock:
        for name, value in clock.environment.items():
            monkeypatch.setenv(name, value)
        yield clock


@pytest.fixture
async def stage(volatile_folder: Path, clock: SetClock, receiver: Receiver) -> AsyncIterator[Stage]:
    stage = await opened(volatile_folder, clock.address, receiver)
    try:
        yield stage
    finally:
        await stage.close()


async def test_an_hour_back_keeps_no_job_waiting(stage: Stage, clock: SetClock) -> None:
    """Goal: pending jobs are claimed, by a worker that starts afterwards and by one that runs. Method: the clock goes
    back an hour before the worker starts, and again while it runs."""
    await stage.submit("looker", "before", item="a")
    await clock.set(-HOUR)
    await stage.worker(APP)
    assert await stage.completed("before") == "look a"
    await stage.submit("looker", "between", item="b")
    await clock.set(-2 * HOUR)
    await stage.submit("looker", "after", item="c")
    assert await stage.completed("between") == "look b"
    assert await stage.completed("after") == "look c"


async def test_an_hour_back_is_reported(stage: Stage, clock: SetClock) -> None:
    """Goal: `doctor` says that times are off, and a worker logs the step once."""
    worker = await stage.worker(APP)
    await clock.set(-HOUR)
    await worker.wait_for_log("clock was set by -3600")
    (found,) = [one for one in await _doctor(stage) if one["check"] == "clock"]
    if isinstance(clock.environment.get("HOLDFAST_TEST_CLOCK_FILE"), str):
        assert found["verdict"] == "warning"
        assert "store time is 3600.0 s ahead of this host's clock" in found["finding"]
        assert "durations are right" in found["finding"]
    else:
        assert found["verdict"] == "ok", "the server's clock is wrong now, and store time is still right"
    assert worker.log.count("clock was set by") == 1


async def test_an_hour_forward_wakes_nothing(stage: Stage, clock: SetClock, receiver: Receiver) -> None:
    """Goal: a sleep of ten minutes goes on; shorter ones end in their time. Method: the clock goes an hour forward
    while a job sleeps, and another one sleeps for longer than the worker takes to look around."""
    worker = await stage.worker(APP)
    await stage.submit("sleeper", "long", duration="10m", item="long")
    await stage.until_recorded("job_waiting", 1, "long")
    wake_at = (await stage.job("long")).wake_at
    await clock.set(HOUR)
    await stage.submit("sleeper", "short", duration="7s", item="short")
    assert await stage.completed("short") == "look short"
    long = await stage.job("long")
    assert (long.status, long.wake_at) == (Status.WAITING, wake_at), await stage.report("long")
    assert receiver.count("long") == 0
    await worker.wait_for_log("clock was set by [+]3600")


async def test_an_hour_forward_takes_no_call_away(stage: Stage, clock: SetClock, receiver: Receiver) -> None:
    """Goal: an unsafe call that is under way is left to its worker. Method: the clock goes an hour forward beside it,
    and another worker looks for work."""
    receiver.hold("f")
    workers = [await stage.worker(APP), await stage.worker(APP)]
    await stage.submit("faxing", item="f")
    await receiver.until_arrived("f")
    await clock.set(HOUR)
    await stage.submit("sleeper", "short", duration="7s", item="short")
    await stage.completed("short")
    assert all(worker.process.returncode is None for worker in workers)
    await receiver.release()
    assert await stage.completed() == "fax f"
    assert receiver.count("f") == 1


async def test_an_hour_back_keeps_no_job_leased(stage: Stage, clock: SetClock, receiver: Receiver) -> None:
    """Goal: the job of a worker that is gone is taken over when its lease is over. Method: the worker stands still,
    which nobody can tell from a worker on a host that is gone; the clock goes back an hour."""
    receiver.hold("a")
    gone = await stage.worker(APP)
    await stage.submit("looker", item="a")
    await receiver.until_arrived("a")
    await stage.worker(APP)
    await stage.stop(gone)
    await clock.set(-HOUR)
    await receiver.release()
    assert await stage.completed(patience_s=3 * PATIENCE_S) == "look a"


async def test_a_schedule_fires_after_a_day_forward_and_back(
    stage: Stage, clock: SetClock, receiver: Receiver
) -> None:
    """Goal: a schedule does not stand still until tomorrow, and no instant fires twice. Method: the clock goes a day
    forward until the schedule stands at tomorrow, and back to two seconds before a full minute; then back once more, to
    before the instant that has fired."""
    await stage.worker(APP)
    await clock.set(DAY)
    await stage.until_scheduled("minutely", after=_now() + DAY // 2)
    fired = receiver.count("minute")
    await clock.set(shift := MINUTE - 2 * SECOND - _now() % MINUTE)
    await receiver.until(lambda: receiver.count("minute") > fired, "the schedule stands still")
    instants = set(await _instants(stage))
    await clock.set(shift - 4 * SECOND)
    await stage.submit("sleeper", "while", duration="12s", item="while")
    await stage.completed("while")
    made = await _instants(stage)
    assert len(made) == len(set(made))
    assert instants <= set(made)
    assert receiver.count("minute") == len(made)


async def _doctor(stage: Stage) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (await stage.holdfast("doctor", "--json")).splitlines()]


async def _instants(stage: Stage) -> list[str]:
    """The instants that the schedule has made a job for."""
    keys = [(await stage.job(job_id)).request_key for job_id in await stage.jobs()]
    return [key for key in keys if key is not None]


def _now() -> int:
    return time.time_ns() // 1000
