"""The tables of states draw one picture: who may follow whom, what is final, what wakes."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidPayload
from holdfast.model.events import EVENTS
from holdfast.model.states import (
    DRIVEN,
    HELD,
    MOVES,
    TERMINAL,
    MailKind,
    Status,
    WaitReason,
    next_status,
    parse_status,
    wakes,
)

# What moves a job, as a person would write it down; "-" is a journal that has not begun.
PICTURE = {
    "job_created": "-→pending",
    "job_claimed": "pending→running waiting→running running→running",
    "job_released": "running→pending",
    "job_waiting": "running→waiting waiting→waiting pending→waiting",
    "job_parked": "running→waiting",
    "job_stalled": "running→waiting",
    "job_requeued": "running→pending waiting→pending pending→pending",
    "job_dead_lettered": "running→waiting waiting→waiting pending→waiting",
    "job_completed": "running→completed waiting→completed pending→completed",
    "job_failed": "running→failed waiting→failed pending→failed",
    "job_cancelled": "running→cancelled waiting→cancelled pending→cancelled",
}

# What happens inside a job and moves nothing: only while somebody drives it, or at any time before its end.
WHILE_RUNNING = """
    plan_generated node_started node_finished step_finished call_cancelled call_moved call_retried llm_requested
    llm_responded llm_repurchased
    tool_called checkpoint_saved turn_committed inputs_claimed timer_set signal_taken approval_requested child_started
    budget_reached question_asked progress_reported
""".split()
WHILE_NOT_OVER = """
    cancel_requested tool_returned tool_failed tool_uncertain tool_reconciled timer_fired signal_received
    approval_decided child_finished budget_raised store_restored
    checkpoint_begun checkpoint_committed checkpoint_verified checkpoints_dropped
""".split()

STATUSES = [None, *Status]


def drawn(event_type: str, status: Status | None) -> str | None:
    """What the picture says follows."""
    if event_type in PICTURE:
        arrows = dict(arrow.split("→") for arrow in PICTURE[event_type].split())
        return arrows.get(status or "-")
    if event_type in WHILE_RUNNING:
        return "running" if status == "running" else None
    return status if status in {"pending", "running", "waiting"} else None


@pytest.mark.parametrize("event_type", EVENTS)
def test_the_table_is_the_picture(event_type: str) -> None:
    """Follow every event from every status, and from nowhere."""
    for status in STATUSES:
        assert next_status(status, event_type) == drawn(event_type, status), f"{event_type} after {status}"


def test_every_event_is_in_one_of_the_tables() -> None:
    """Compare with the closed list: a new event is placed on purpose, not by falling through."""
    assert sorted([*PICTURE, *WHILE_RUNNING, *WHILE_NOT_OVER]) == sorted(EVENTS)
    assert MOVES.keys() == PICTURE.keys()
    assert set(WHILE_RUNNING) == DRIVEN


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_what_is_over_stays_over(status: Status) -> None:
    """Offer every event, and one that nobody knows, to a job that has ended."""
    assert [name for name in [*EVENTS, "unheard_of"] if next_status(status, name) is not None] == []


def test_a_job_begins_once_and_with_its_creation() -> None:
    """Offer every event to an empty journal, and a second creation to every status."""
    assert [name for name in EVENTS if next_status(None, name) is not None] == ["job_created"]
    assert [status for status in STATUSES if next_status(status, "job_created") is not None] == [None]


def test_every_status_is_reached_and_every_unfinished_job_can_end() -> None:
    """Walk the table from nowhere: nothing is out of reach, nothing is a dead end."""

    def reached_from(start: Status | None) -> set[Status]:
        seen: set[Status] = set()
        todo: list[Status | None] = [start]
        while todo:
            here = todo.pop()
            for name in EVENTS:
                after = next_status(here, name)
                if after is not None and after not in seen:
                    seen.add(after)
                    todo.append(after)
        return seen

    assert reached_from(None) == set(Status)
    for status in set(Status) - TERMINAL:
        assert reached_from(status) >= TERMINAL


def test_terminal_are_the_three_ends() -> None:
    """Name them once more, so that a new status is decided about."""
    assert {"completed", "failed", "cancelled"} == TERMINAL
    assert len(Status) == 6


ANY = set(MailKind)
PERSON = {MailKind.RESUME, MailKind.CANCEL}
WAKES: dict[WaitReason | None, set[MailKind]] = {
    None: ANY,
    WaitReason.TIMER: ANY,
    WaitReason.SIGNAL: ANY,
    WaitReason.APPROVAL: ANY,
    WaitReason.RECONCILE: ANY,
    WaitReason.CHILD: ANY,
    WaitReason.BUDGET: ANY,
    WaitReason.SUSPECT: ANY,
    WaitReason.DRIFT: PERSON,
    WaitReason.STALLED: PERSON,
    WaitReason.DEAD_LETTER: PERSON,
    WaitReason.RESTORE_REVIEW: PERSON,
    WaitReason.JOINED: set(),
}


@pytest.mark.parametrize("reason", [None, *WaitReason])
def test_mail_wakes_what_it_may(reason: WaitReason | None) -> None:
    """Send every kind of mail to a job that waits for each reason."""
    assert {kind for kind in MailKind if wakes(reason, kind)} == WAKES[reason]


def test_held_is_what_only_a_person_ends() -> None:
    """Compare the list with what mail can wake."""
    assert {reason for reason, kinds in WAKES.items() if kinds == PERSON} == HELD


@pytest.mark.parametrize("status", Status)
def test_a_status_is_understood_in_any_case(status: Status) -> None:
    """Read our own words in capitals, with spaces around."""
    assert parse_status(status) is status
    assert parse_status(f" {status.upper()}\n") is status


@pytest.mark.parametrize(
    "text, status",
    [
        ("CANCELLED", Status.CANCELLED),
        ("canceled", Status.CANCELLED),
        ("Canceled", Status.CANCELLED),
        ("in-progress", Status.RUNNING),
        ("IN_PROGRESS", Status.RUNNING),
        ("queued", Status.PENDING),
    ],
)
def test_other_systems_spellings_are_understood(text: str, status: Status) -> None:
    """Read what the acceptance documents write."""
    assert parse_status(text) is status


@pytest.mark.parametrize("text", ["", "done", "runing", "joined", "pending,running"])
def test_other_words_are_refused_with_the_right_ones(text: str) -> None:
    """Read what is no status: the error repeats it and lists those that are."""
    with pytest.raises(InvalidPayload) as caught:
        parse_status(text)
    assert repr(text) in str(caught.value)
    assert all(status in caught.value.hint for status in Status)
