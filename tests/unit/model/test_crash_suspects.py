"""Suspicion: which jobs run alone, and what the death of their process proves."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.crash_suspects import (
    CLEARED,
    DEATHS_PER_DAY,
    DIED_ALONE,
    STORE_AWAY,
    SUSPECT_AT,
    SuspicionVerdict,
    count_deaths,
    count_kills_alone,
    describe_exit,
    dies_daily,
    find_parent,
    is_suspect,
    is_unclaimed,
    judge_death,
    lone_label,
)
from holdfast.model.events import Event, JobClaimed, JobReleased, JobRequeued, StepFinished
from holdfast.model.jobs import JobHead
from holdfast.model.states import Status
from holdfast.model.time import DAY, HOUR, MINUTE
from holdfast.model.worker_identity import Identity, short_name, worker_name

NOW = 1_000 * DAY

KILLED = -signal.SIGKILL
CRASHES = (9, 1, 0, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGILL, -signal.SIGFPE)


def test_two_deaths_without_progress_make_a_suspect() -> None:
    assert [is_suspect(takeovers) for takeovers in range(4)] == [False, False, True, True]
    assert SUSPECT_AT == 2


@pytest.mark.parametrize("status", CRASHES)
def test_a_crash_alone_convicts_at_once(status: int) -> None:
    verdict = judge_death(status, 0, is_draining=False, has_decision=False)
    assert verdict is SuspicionVerdict.CONVICTED


def test_a_signal_from_outside_convicts_at_the_third_death() -> None:
    verdicts = [judge_death(KILLED, kills, is_draining=False, has_decision=False) for kills in range(3)]
    assert verdicts == [SuspicionVerdict.SUSPECT, SuspicionVerdict.SUSPECT, SuspicionVerdict.CONVICTED]


@given(status=st.integers(-64, 255), kills=st.integers(0, 20), mail=st.booleans())
def test_nobody_is_convicted_while_draining_or_without_a_store(status: int, kills: int, mail: bool) -> None:
    assert judge_death(status, kills, is_draining=True, has_decision=mail) is SuspicionVerdict.UNPROVEN
    assert judge_death(STORE_AWAY, kills, is_draining=False, has_decision=mail) is SuspicionVerdict.UNPROVEN


@given(status=st.integers(-64, 255), kills=st.integers(0, 20))
def test_no_verdict_passes_a_decision_of_a_person(status: int, kills: int) -> None:
    verdict = judge_death(status, kills, is_draining=False, has_decision=True)
    assert verdict is not SuspicionVerdict.CONVICTED


def test_ten_deaths_within_a_day_make_a_suspect_progress_or_not() -> None:
    """A death every hour with a finished step between: the tenth within a day counts; spread over three days none."""
    deaths: list[tuple[int, Event]] = []
    for nth in range(DEATHS_PER_DAY):
        deaths += [
            (nth * HOUR, JobClaimed("w", takeover=True) if nth % 2 else JobRequeued("", takeover=True)),
            (nth * HOUR, StepFinished(step_key=f"s{nth}", args_digest="")),
        ]
    now = DEATHS_PER_DAY * HOUR
    assert dies_daily(deaths, now)
    assert not dies_daily(deaths[2:], now)
    assert not dies_daily(deaths, now + DAY)
    assert count_deaths(deaths, since=0) == DEATHS_PER_DAY
    assert not dies_daily([(now, JobClaimed("w"))] * 50, now), (
        "a claim of a job that was given back is no death"
    )


def test_kills_alone_count_since_the_last_progress_or_new_beginning() -> None:
    killed = JobRequeued(f"{DIED_ALONE}: it was killed by SIGKILL", "parent", takeover=True, holder="child")
    lost = JobRequeued("its lease ran out", "sweep", takeover=True, holder="child")

    def count(*events: Event) -> int:
        return count_kills_alone((0, event) for event in events)

    assert count(killed, lost, JobClaimed("w", takeover=True), killed) == 2, "only what the parent has seen"
    assert count(killed, JobReleased(), killed) == 2, "a drain proves nothing"
    assert count(killed, killed, JobReleased(CLEARED), killed) == 1
    assert count(killed, killed, JobRequeued("try again", "grace")) == 0


@given(
    label=st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="@/"), max_size=20),
    pid=st.integers(1, 2**31),
)
def test_the_name_of_a_lone_worker_names_its_parent(label: str, pid: int) -> None:
    name = worker_name(lone_label(f"w{label}w", pid), Identity("boot", 1, 4711, 99))
    assert find_parent(name) == pid
    assert short_name(name).endswith(":4711")


def test_other_names_have_no_parent() -> None:
    for name in ("", "worker", "host@boot/1/2/3", "a~alone~x@boot/1/2/3"):
        assert find_parent(name) is None


def test_how_a_process_ended_is_said_in_words() -> None:
    assert describe_exit(9) == "ended with status 9"
    assert describe_exit(-signal.SIGSEGV) == "was killed by SIGSEGV"
    assert describe_exit(KILLED).startswith("was killed by SIGKILL (")
    assert describe_exit(-33) == "was killed by signal 33"


@pytest.mark.parametrize(
    "status, takeovers, ready_at, wake_at, changed_at, expected",
    [
        (Status.PENDING, 2, NOW - MINUTE, None, NOW - MINUTE, True),
        (Status.PENDING, 1, NOW - HOUR, None, NOW - HOUR, False),  # any worker takes it
        (Status.PENDING, 2, NOW - HOUR, None, NOW - MINUTE + 1, False),  # its worker has only just died
        (Status.PENDING, 2, NOW + HOUR, None, NOW - HOUR, False),  # it is not ready
        (Status.RUNNING, 3, NOW - HOUR, None, NOW - HOUR, False),
        (Status.WAITING, 2, NOW - HOUR, NOW - MINUTE, NOW - HOUR, True),  # it is due
        (Status.WAITING, 2, NOW - HOUR, NOW + 1, NOW - HOUR, False),
        (Status.WAITING, 2, NOW - HOUR, None, NOW - HOUR, False),  # for a signal, or a person
        (Status.CANCELLED, 2, NOW - HOUR, None, NOW - HOUR, False),
    ],
)
def test_a_suspect_is_unclaimed_when_it_is_ready_for_a_minute(
    status: Status, takeovers: int, ready_at: int, wake_at: int | None, changed_at: int, expected: bool
) -> None:
    values: dict[str, Any] = dict.fromkeys(JobHead.__struct_fields__, None)
    head = JobHead(
        **values | {"status": status, "takeovers": takeovers, "ready_at": ready_at, "wake_at": wake_at}
    )
    assert is_unclaimed(head, changed_at, NOW) is expected
