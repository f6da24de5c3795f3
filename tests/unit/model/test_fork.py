"""What a fork takes over, as a rule: commits of state, children, plans, letters; and the journal it makes is one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.errors import InvalidMove
from holdfast.model import events as e
from holdfast.model import job_state
from holdfast.model.fork import ForkedEvent, SharedHistory, fork_point, take_history
from holdfast.model.ledger import idempotency_key
from holdfast.model.replay_history import History, history_of

BORN = (e.JobCreated("k"), e.JobClaimed("w"))


def facts(*events: e.Event) -> list[ForkedEvent]:
    return [ForkedEvent(seq, 100 + seq, event) for seq, event in enumerate((*BORN, *events), 1)]


def taken(*events: e.Event, before: int | None = None) -> SharedHistory:
    journal = facts(*events)
    return take_history(journal, before or len(journal) + 1, job_id="fork", namespace="default")


def told(past: SharedHistory) -> Sequence[e.Event]:
    """What was taken over, without the holds around it."""
    facts = [event for hold in past.holds for event, _ in hold]
    return [event for event in facts if not isinstance(event, e.JobClaimed | e.JobReleased)]


def history(past: SharedHistory) -> History:
    """What a run of the fork begins with."""
    return history_of((seq, event, seq) for seq, event in enumerate(told(past), 1))


def folded(past: SharedHistory) -> job_state.JobState:
    """The journal that begins like this; raises if it is none."""
    journal: list[tuple[int, e.Event]] = [(1, e.JobCreated("k"))]
    for fence, hold in enumerate(past.holds, 2):
        journal += [(fence, event) for event, _ in hold]
    return job_state.fold((seq, fence, event) for seq, (fence, event) in enumerate(journal, 1))


def read(key: str, result: object = 1, generation: int = 0) -> e.StepFinished:
    return e.StepFinished(key, "d", result=result, generation=generation)


def call(key: str, generation: int = 0, attempt: int = 1) -> e.ToolCalled:
    return e.ToolCalled(
        key, "send", "idempotent", "d", f"old-{key}-{generation}", generation=generation, attempt=attempt
    )


def test_what_led_to_a_commit_stays_behind() -> None:
    """State stands for what led to it: the calls before a commit are not taken over, the commits are, with their
    ordinals; an effect that was left open before it is nobody's matter any more."""
    past = taken(
        read("0/a#1"),
        call("0/open#1"),
        e.CheckpointSaved(1, {"n": 1}),
        read("1/a#1"),
        e.CheckpointSaved(2),
        read("2/a#1"),
    )
    assert told(past) == [e.CheckpointSaved(1, {"n": 1}), e.CheckpointSaved(2), read("2/a#1")]
    assert folded(past).commits == 2
    assert history(past).ordinal == 2
    assert history(past).find("2/a#1", "d") is not None


def test_what_a_commit_carried_is_of_the_original() -> None:
    """The fork's journal begins otherwise, so it is read whole; its next commit carries what is its own."""
    carried = e.CheckpointSaved(1, {"n": 1}, carries={"origin": "0" * 64, "worker": "w", "claims": 1})
    assert told(taken(carried)) == [e.CheckpointSaved(1, {"n": 1})]


def test_a_child_is_shared_only_when_it_is_over() -> None:
    started, finished = e.ChildStarted("0/c#1", "child"), e.ChildFinished("0/c#1", "child", "completed")
    assert told(taken(started, finished)) == [started, finished]
    with pytest.raises(InvalidMove, match="child child had not ended"):
        taken(started)


def test_a_plan_is_made_once_and_its_open_nodes_start_again() -> None:
    plan = e.PlanGenerated("p", {"nodes": []})
    a = (e.NodeStarted("p", "a"), e.NodeFinished("p", "a"))
    past = taken(plan, *a, e.NodeStarted("p", "b"))
    assert told(past) == [plan, *a]
    assert folded(past).nodes == {("p", "a"): "succeeded"}


def test_letters_are_facts_without_a_letter() -> None:
    """Nobody wrote to the fork: what it takes over counts for none of its mail."""
    past = taken(e.SignalReceived("paid", 3, {"n": 1}), e.CancelRequested(mail_seq=4))
    assert told(past) == [e.SignalReceived("paid", 0, {"n": 1})]
    assert folded(past).mail_seq == 0


def test_a_call_that_was_sent_again_is_one_intent() -> None:
    """The last attempt counts; the key is the fork's; the ledger has the times of the original."""
    past = taken(call("0/s#1"), call("0/s#1", attempt=2), e.ToolReturned("0/s#1", result="ok"))
    intent = told(past)[0]
    assert isinstance(intent, e.ToolCalled)
    assert (intent.attempt, intent.key) == (2, idempotency_key("default", "fork", "0/s#1", 0))
    assert [(row.intent_seq, row.result_seq, row.prepared_at, row.settled_at) for row in past.rows] == [
        (3, None, 103, None),
        (3, 4, 103, 105),
    ]
    folded(past)


def test_generations_start_again_without_gaps() -> None:
    """The first was given up by a person, the second succeeded: the fork has one, number 0."""
    past = taken(
        call("0/s#1"),
        e.ToolUncertain("0/s#1"),
        e.ToolReconciled("0/s#1", "not_happened", by="ann", why="looked"),
        call("0/s#1", generation=1, attempt=2),
        e.ToolReturned("0/s#1", 1, result="ok"),
    )
    assert [getattr(event, "generation", None) for event in told(past)] == [0, 0]
    folded(past)


def test_attempts_that_failed_are_holds_of_their_own() -> None:
    """A failure that counts no more is taken over with the word that it does not."""
    failed = e.StepFinished("0/a#1", "d", outcome="failed", error={"type": "X", "message": ""})
    again = e.JobRequeued(why="failed", rerun=("0/a#1",))
    past = taken(failed, again, e.JobClaimed("w2"), read("0/a#1", 2, generation=1))
    assert [hold[-1][0].type for hold in past.holds] == ["job_requeued", "job_released"]
    assert told(past) == [failed, again, read("0/a#1", 2, generation=1)]
    folded(past)
    record = history(past).find("0/a#1", "d")
    assert record is not None
    assert record.result == 2


def test_a_turn_is_not_forked() -> None:
    with pytest.raises(InvalidMove, match="a turn of a session"):
        taken(e.TurnCommitted("s", "t", 1))


def test_the_point_is_the_first_word_of_a_step() -> None:
    """An effect's point is its intent, or the approval that was asked for before it."""
    journal = facts(read("0/a#1"), e.ApprovalRequested("ap", "0/s#1", "d"), call("0/s#1"))
    assert fork_point(journal, "0/s#1") == 4
    assert fork_point(journal, 6) == 6
