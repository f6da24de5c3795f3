"""Goal: the deadline of a job follows from its journal and its timeout alone. Method: the rule, as a table."""

from __future__ import annotations

import pytest

from holdfast.errors import CallFailed, InvalidSetting, JobFailed, JobTimedOut
from holdfast.model.checkpoint_snapshot import restore_snapshot, take_snapshot
from holdfast.model.events import JobClaimed, JobCreated, JobRequeued
from holdfast.model.job_deadline import JobDeadline, find_deadline, parse_timeout, wake_by
from holdfast.model.replay_history import History, history_of
from holdfast.model.time import HOUR, MINUTE, SECOND

T = 1_000 * HOUR


@pytest.mark.parametrize(
    "ready_at, resumed_at, begun_at",
    [
        (0, 0, T),
        (T + HOUR, 0, T + HOUR),  # submitted for later: the delay does not count
        (0, T + MINUTE, T + MINUTE),  # a person let it go on
        (T + HOUR, T + 2 * HOUR, T + 2 * HOUR),
    ],
)
def test_the_time_begins_when_the_job_may_be_claimed(ready_at: int, resumed_at: int, begun_at: int) -> None:
    created = JobCreated("report", ready_at=ready_at)
    found = find_deadline(created, T, resumed_at, MINUTE)
    assert found == JobDeadline(begun_at, MINUTE)
    assert found.at == begun_at + MINUTE
    assert not found.has_passed(found.at - 1)
    assert found.has_passed(found.at)


def test_without_a_timeout_there_is_no_deadline() -> None:
    assert find_deadline(JobCreated("report"), T, 0, None) is None


@pytest.mark.parametrize(
    "at, expected", [(None, T + MINUTE), (T + SECOND, T + SECOND), (T + HOUR, T + MINUTE)]
)
def test_a_job_wakes_at_its_deadline_at_the_latest(at: int | None, expected: int) -> None:
    assert wake_by(at, JobDeadline(T, MINUTE)) == expected
    assert wake_by(at, None) == at


def test_only_a_person_moves_it() -> None:
    """Takeovers, failed attempts and claims leave it; a person's word is carried past a checkpoint."""
    facts = [
        (1, JobCreated("report"), T),
        (2, JobClaimed("one"), T + 1),
        (3, JobRequeued("lost", "sweeper", takeover=True), T + 2),
        (4, JobClaimed("two", takeover=True), T + 3),
        (5, JobRequeued("failed", error={"type": "OSError", "message": "no"}), T + 4),
    ]
    assert history_of(facts).resumed_at == 0
    history = history_of([*facts, (6, JobRequeued("mended", "ada", mail_seq=1), T + 5)])
    assert history.resumed_at == T + 5
    history.origin = "digest"
    carried = take_snapshot(history)
    assert carried is not None
    later = History()
    restore_snapshot(carried, later)
    assert later.resumed_at == T + 5


def test_the_error_names_the_job_and_the_timeout() -> None:
    error = JobDeadline(T, 90 * SECOND).describe_error("job-7")
    assert error == {
        "type": "JobTimedOut",
        "message": "job job-7 was not over within its timeout of 1 m 30 s",
    }
    named = JobDeadline(T, 90 * SECOND).describe_error("job-7", ["send_fax", *"abcde"])["message"]
    assert named == f"{error['message']}; calls without an outcome on record: a, b, c, d, e and 1 more"
    raised = JobTimedOut(error["message"], job_id="job-7")
    assert isinstance(raised, JobFailed), "for whoever waits for the job"
    assert isinstance(raised, CallFailed), "for its parent"
    assert (raised.job_id, raised.error_type, raised.code) == ("job-7", "JobTimedOut", "job_timed_out")


@pytest.mark.parametrize("timeout", [0, "0s", -1, "soon"])
def test_a_timeout_that_makes_no_sense_is_refused(timeout: str | int) -> None:
    with pytest.raises(InvalidSetting):
        parse_timeout(timeout)
