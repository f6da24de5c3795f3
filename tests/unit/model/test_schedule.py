"""What becomes of a schedule whose instant has come, or went by."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidName, InvalidPayload, InvalidSetting
from holdfast.model.schedule import (
    LATE_US,
    CatchUp,
    Schedule,
    ScheduleDecision,
    check_schedule,
    decide,
    make_job,
    parse_catch_up,
)
from holdfast.model.time import HOUR, MINUTE

NOON = 500_000 * HOUR


def hourly(instant: int) -> int:
    return (instant // HOUR + 1) * HOUR


def schedule(catch_up: CatchUp = CatchUp.SKIP, **fields: object) -> Schedule:
    values: dict[str, object] = {
        "schedule_id": "s",
        "kind": "k",
        "cron": "0 * * * *",
        "next_at": NOON,
        **fields,
    }
    return Schedule(catch_up=catch_up, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("late", [0, 1, LATE_US])
def test_on_time_it_fires_whatever_its_catch_up(catch_up: CatchUp, late: int) -> None:
    assert decide(schedule(catch_up), NOON + late, hourly) == ScheduleDecision(NOON, NOON + HOUR)


@pytest.mark.parametrize("catch_up", CatchUp)
def test_before_its_instant_and_in_a_pause_nothing_is_to_be_done(catch_up: CatchUp) -> None:
    assert decide(schedule(catch_up), NOON - 1, hourly) is None
    assert decide(schedule(catch_up, paused=True), NOON + HOUR, hourly) is None


def worked_off(catch_up: CatchUp, now: int) -> tuple[list[int], int]:
    """Every decision until nothing is due: what was fired, and where the schedule stands then."""
    one, fired = schedule(catch_up), []
    while (decision := decide(one, now, hourly)) is not None:
        fired += [] if decision.fire is None else [decision.fire]
        one = schedule(catch_up, next_at=decision.next_at)
    return fired, one.next_at


def test_after_an_absence_its_catch_up_decides() -> None:
    now = NOON + 3 * HOUR + 20 * MINUTE
    assert worked_off(CatchUp.SKIP, now) == ([], NOON + 4 * HOUR)
    assert worked_off(CatchUp.ONE, now) == ([NOON], NOON + 4 * HOUR)
    assert worked_off(CatchUp.ALL, now) == ([NOON + n * HOUR for n in range(4)], NOON + 4 * HOUR)


def test_back_just_in_time_for_an_instant() -> None:
    """The last instant is not missed: `skip` fires it alone, `one` has it in its one job."""
    now = NOON + 3 * HOUR + LATE_US
    assert worked_off(CatchUp.SKIP, now) == ([NOON + 3 * HOUR], NOON + 4 * HOUR)
    assert worked_off(CatchUp.ONE, now) == ([NOON], NOON + 4 * HOUR)


def test_the_job_of_an_instant_has_its_key() -> None:
    one = schedule(input={"a": 1}, queue="q", priority=9, namespace="n", python_version="3.12")
    draft = make_job(one, 0)
    assert draft.request_key == "s@1970-01-01T00:00:00.000000Z"
    assert (draft.kind, draft.input, draft.queue, draft.priority) == ("k", {"a": 1}, "q", 9)
    assert (draft.namespace, draft.python_version) == ("n", "3.12")


def test_what_makes_no_sense_is_refused() -> None:
    check_schedule(schedule(schedule_id="x" * 160))
    with pytest.raises(InvalidName, match="161 characters"):
        check_schedule(schedule(schedule_id="x" * 161))
    with pytest.raises(InvalidPayload, match="priority"):
        check_schedule(schedule(priority=11))
    with pytest.raises(InvalidSetting, match="sometimes"):
        parse_catch_up("sometimes")
