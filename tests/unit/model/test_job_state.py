"""A journal is a word of a grammar: what may follow is folded into the job, what may not is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import events as e
from holdfast.model.events import Event
from holdfast.model.job_state import JobState, Ungrammatical, fold, step
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import DRIVEN, MOVES, TERMINAL, Status, WaitReason

Fact = tuple[int, int, Event]

CREATED = e.JobCreated("k", session_id="s")
CLAIMED = e.JobClaimed("w")
TAKEN_OVER = e.JobClaimed("w", takeover=True)
INTENT = e.ToolCalled("1/a#1", "mail", "unsafe", "d", "key")
RETURNED = e.ToolReturned("1/a#1")
FAILED = e.ToolFailed("1/a#1")
UNSURE = e.ToolUncertain("1/a#1")
PLAN = e.PlanGenerated("p", {})
NODE = e.NodeStarted("p", "n")
NODE_DONE = e.NodeFinished("p", "n")
ASKED = e.LlmRequested("1/m#1", "model")
REPLIED = e.LlmResponded("1/m#1", "hello")
CANCEL = e.CancelRequested(by="me", mail_seq=4)


def reconciled(decision: str, step_key: str = "1/a#1", generation: int = 0) -> e.ToolReconciled:
    return e.ToolReconciled(step_key, decision, "somebody", "looked", generation)


def facts(*events: Event) -> Iterator[Fact]:
    """The events numbered, each claim under a new fence."""
    fence = 0
    for seq, event in enumerate(events, 1):
        fence += isinstance(event, e.JobClaimed)
        yield seq, fence, event


def told(*events: Event) -> JobState:
    return fold(facts(*events))


def running(*events: Event) -> JobState:
    return told(CREATED, CLAIMED, *events)


# ── what a journal says ───────────────────────────────────────────────────────────────────────────


def test_an_empty_journal_is_no_job() -> None:
    """Fold nothing."""
    assert fold([]) == JobState()
    assert JobState().status is None
    assert not JobState().over


def test_a_journal_from_its_first_to_its_last_line() -> None:
    """Fold an ordinary job and look at everything it knows."""
    job = running(
        PLAN,
        NODE,
        ASKED,
        REPLIED,
        INTENT,
        RETURNED,
        NODE_DONE,
        e.StepFinished("1/b#1", "d"),
        e.ChildStarted("1/c#1", "job_2"),
        e.ChildFinished("1/c#1", "job_2", "completed"),
        e.SignalReceived("paid", mail_seq=2),
        e.CheckpointSaved(1, {}),
        e.JobCompleted({"answer": 42}),
    )
    assert (job.status, job.over, job.output) == (Status.COMPLETED, True, {"answer": 42})
    assert (job.kind, job.session_id) == ("k", "s")
    assert (job.seq, job.fence, job.claims, job.commits, job.mail_seq) == (15, 1, 1, 1, 2)
    assert (job.steps, job.plans, job.children) == ({("1/b#1", 0)}, {"p"}, {"1/c#1": "job_2"})
    assert (job.nodes, job.replies) == ({("p", "n"): "succeeded"}, {("1/m#1", 0): True})
    call = job.calls["1/a#1", 0]
    assert (call.tool, call.effect, call.status) == ("mail", "unsafe", CallStatus.SUCCEEDED)
    assert (call.key, call.args_digest, call.attempt, call.intent_seq) == ("key", "d", 1, 7)


def test_a_job_that_only_joined_a_turn_completes_with_it() -> None:
    """Create a job and close it by a short hold: nobody ever claimed it."""
    job = fold([(1, 0, CREATED), (2, 1, e.JobCompleted("with the other"))])
    assert (job.status, job.claims) == (Status.COMPLETED, 0)


def test_a_waiting_job_says_why_and_until_when() -> None:
    """Wait for each reason, be parked, be dead-lettered; a claim forgets why."""
    for reason in WaitReason:
        job = running(e.JobWaiting(reason, wake_at=9, mail_seq=3))
        assert (job.status, job.wait_reason, job.wake_at, job.mail_seq) == (Status.WAITING, reason, 9, 3)
    parked = running(e.JobWaiting("timer", wake_at=9), CLAIMED, e.JobParked({"drift": 1}))
    assert (parked.wait_reason, parked.wake_at) == (WaitReason.DRIFT, None)
    dead = running(e.JobWaiting("timer", wake_at=9), e.JobDeadLettered(("one", "two")))
    assert (dead.wait_reason, dead.wake_at) == (WaitReason.DEAD_LETTER, None)
    for after in (CLAIMED, e.JobRequeued(), e.JobFailure(), e.JobCancellation()):
        awake = running(e.JobWaiting("timer", wake_at=9), after)
        assert (awake.wait_reason, awake.wake_at) == (None, None)


def test_a_waiting_job_keeps_its_reason_while_facts_arrive() -> None:
    """Receive a signal while waiting, as a short hold may write it."""
    job = running(e.JobWaiting("signal", wake_at=9), e.SignalReceived("paid", mail_seq=1))
    assert (job.status, job.wait_reason, job.wake_at, job.mail_seq) == (
        Status.WAITING,
        WaitReason.SIGNAL,
        9,
        1,
    )


def test_mail_is_read_up_to_the_highest() -> None:
    """Read letters out of order: the count never falls."""
    decided = e.ApprovalDecided("a", "approve", "me", mail_seq=2)
    assert (
        running(e.SignalReceived("s", mail_seq=5), decided, e.JobWaiting("signal", mail_seq=3)).mail_seq == 5
    )
    assert running(decided, CANCEL).mail_seq == 4


@pytest.mark.parametrize(
    "progress",
    [
        (e.StepFinished("1/b#1", ""),),
        (INTENT, RETURNED),
        (INTENT, FAILED),
        (ASKED, REPLIED),
        (e.JobRequeued(),),
    ],
)
def test_takeovers_count_until_there_is_progress(progress: tuple[Event, ...]) -> None:
    """Take over twice, finish something, take over once more."""
    assert running(TAKEN_OVER, TAKEN_OVER).takeovers == 2
    assert running(TAKEN_OVER, TAKEN_OVER, *progress).takeovers == 0
    assert running(TAKEN_OVER, TAKEN_OVER, *progress, TAKEN_OVER).takeovers == 1


@pytest.mark.parametrize("no_progress", [CLAIMED, INTENT, ASKED, PLAN, e.TimerSet("1/t#1", 5), CANCEL])
def test_other_facts_are_no_progress(no_progress: Event) -> None:
    """Take over twice, and only begin something: it may be what kills the workers."""
    assert running(TAKEN_OVER, TAKEN_OVER, no_progress).takeovers == 2


def test_timers_are_set_moved_fired_and_gone_with_the_job() -> None:
    """Set two timers, move one, fire the other, end the job."""
    one, other = e.TimerSet("1/a#1", 10), e.TimerSet("1/b#1", 20)
    moved = e.TimerSet("1/a#1", 30)
    assert running(one, other, moved).timers == {"1/a#1": 30, "1/b#1": 20}
    assert running(one, other, e.TimerFired("1/b#1")).timers == {"1/a#1": 10}
    assert running(one, e.TimerFired("1/a#1"), one).timers == {"1/a#1": 10}
    for end in (e.JobCompleted(), e.JobFailure(), e.JobCancellation()):
        assert running(one, other, end).timers == {}


@pytest.mark.parametrize(
    "events, status",
    [
        ((INTENT,), CallStatus.PREPARED),
        ((INTENT, INTENT), CallStatus.PREPARED),
        ((INTENT, RETURNED), CallStatus.SUCCEEDED),
        ((INTENT, FAILED), CallStatus.FAILED),
        ((INTENT, UNSURE), CallStatus.UNCERTAIN),
        ((INTENT, UNSURE, INTENT), CallStatus.PREPARED),
        ((INTENT, UNSURE, RETURNED), CallStatus.SUCCEEDED),
        ((INTENT, UNSURE, FAILED), CallStatus.FAILED),
        ((INTENT, UNSURE, reconciled("happened")), CallStatus.SUCCEEDED),
        ((INTENT, UNSURE, reconciled("not_happened")), CallStatus.ABANDONED),
        ((INTENT, UNSURE, reconciled("skip")), CallStatus.SKIPPED),
        ((INTENT, UNSURE, reconciled("fail")), CallStatus.FAILED),
        ((INTENT, reconciled("relaunch")), CallStatus.ABANDONED),
    ],
)
def test_a_call_is_what_its_last_fact_says(events: tuple[Event, ...], status: CallStatus) -> None:
    """Tell the story of one call in every legal way."""
    assert running(*events).calls["1/a#1", 0].status is status


def test_a_resent_call_counts_attempts_and_remembers_its_first_intent() -> None:
    """Send again under the same key: the attempt is the last, the place in the journal the first."""
    again = e.ToolCalled("1/a#1", "mail", "unsafe", "d", "key", attempt=2)
    call = running(INTENT, UNSURE, again).calls["1/a#1", 0]
    assert (call.attempt, call.intent_seq) == (2, 3)


def test_a_new_generation_is_a_new_call() -> None:
    """Open a second generation: other key, other arguments if need be, and the first stays as it was."""
    second = e.ToolCalled("1/a#1", "mail", "unsafe", "d2", "key2", generation=1)
    job = running(INTENT, UNSURE, reconciled("not_happened"), second, e.ToolReturned("1/a#1", 1))
    assert job.calls["1/a#1", 0].status is CallStatus.ABANDONED
    assert job.calls["1/a#1", 1].status is CallStatus.SUCCEEDED


def test_a_node_may_start_again_until_it_succeeded() -> None:
    """Start after a crash, and after a failure."""
    failed = e.NodeFinished("p", "n", "failed")
    assert running(PLAN, NODE, NODE, failed, NODE, NODE_DONE).nodes == {("p", "n"): "succeeded"}


def test_a_model_may_be_asked_again_until_it_replied() -> None:
    """Ask twice, as after a crash that lost the reply."""
    assert running(ASKED, ASKED, REPLIED).replies == {("1/m#1", 0): True}


# ── what no journal says ──────────────────────────────────────────────────────────────────────────

Story = tuple[Event, ...]
START: Story = (CREATED, CLAIMED)
VIOLATIONS: dict[str, tuple[Story, Event, str]] = {
    "nothing before the creation": ((), CLAIMED, "job_claimed at event 1 cannot follow status None"),
    "created twice": ((CREATED,), CREATED, "job_created at event 2 cannot follow status pending"),
    "released by nobody": (
        (CREATED,),
        e.JobReleased(),
        "job_released at event 2 cannot follow status pending",
    ),
    "a step of a pending job": ((CREATED,), e.StepFinished("1", ""), "cannot follow status pending"),
    "an intent after giving the job back": (
        (*START, e.JobReleased()),
        INTENT,
        "cannot follow status pending",
    ),
    "an intent while waiting": ((*START, e.JobWaiting("signal")), INTENT, "cannot follow status waiting"),
    "two ends": ((*START, e.JobCompleted()), e.JobCompleted(), "cannot follow status completed"),
    "a claim after the end": ((*START, e.JobFailure()), CLAIMED, "cannot follow status failed"),
    "a fact after the end": (
        (*START, e.JobCancellation()),
        e.SignalReceived("s", 1),
        "cannot follow status cancelled",
    ),
    "a reason that is none": (START, e.JobWaiting("boredom"), "waits for 'boredom' at event 3"),
    "a step twice": (
        (*START, e.StepFinished("1", "")),
        e.StepFinished("1", "other"),
        "step 1 finished twice",
    ),
    "a plan twice": ((*START, PLAN), e.PlanGenerated("p", {"other": 1}), "plan p generated twice"),
    "a node of no plan": (START, NODE, "plan p, which was not generated"),
    "a finished node of no plan": (START, NODE_DONE, "plan p, which was not generated"),
    "a node not started": ((*START, PLAN), NODE_DONE, "finished at event 4 without being started"),
    "a node finished twice": ((*START, PLAN, NODE, NODE_DONE), NODE_DONE, "without being started"),
    "a node again": ((*START, PLAN, NODE, NODE_DONE), NODE, "started at event 6 after it had succeeded"),
    "a reply to nothing": (START, REPLIED, "was not asked for"),
    "a second reply": ((*START, ASKED, REPLIED), REPLIED, "or is a second one"),
    "a question after the reply": ((*START, ASKED, REPLIED), ASKED, "requested at event 5 after its reply"),
    "a result without intent": (START, RETURNED, "an outcome at event 3 and no intent"),
    "a failure without intent": (START, FAILED, "no intent"),
    "a doubt without intent": (START, UNSURE, "no intent"),
    "a decision without intent": (START, reconciled("happened"), "no intent"),
    "a result of another step": ((*START, INTENT), e.ToolReturned("1/b#1"), "no intent"),
    "a result of another generation": ((*START, INTENT), e.ToolReturned("1/a#1", 1), "no intent"),
    "a decision that is none": (
        (*START, INTENT, UNSURE),
        reconciled("maybe"),
        "reconciled as 'maybe' at event 5",
    ),
    "a second result": ((*START, INTENT, RETURNED), RETURNED, "cannot go from succeeded to succeeded"),
    "a failure after the result": ((*START, INTENT, RETURNED), FAILED, "cannot go from succeeded to failed"),
    "a result after the failure": ((*START, INTENT, FAILED), RETURNED, "cannot go from failed to succeeded"),
    "doubt after the result": ((*START, INTENT, RETURNED), UNSURE, "cannot go from succeeded to uncertain"),
    "doubt about doubt": ((*START, INTENT, UNSURE), UNSURE, "cannot go from uncertain to uncertain"),
    "a decision about a result": ((*START, INTENT, RETURNED), reconciled("fail"), "from succeeded to failed"),
    "an intent after the result": (
        (*START, INTENT, RETURNED),
        INTENT,
        "cannot go from succeeded to prepared",
    ),
    "an intent after giving up": (
        (*START, INTENT, UNSURE, reconciled("not_happened")),
        INTENT,
        "cannot go from abandoned_on_resume to prepared",
    ),
    "an intent after the skip": ((*START, INTENT, reconciled("skip")), INTENT, "from skipped to prepared"),
    "another tool": (
        (*START, INTENT),
        e.ToolCalled("1/a#1", "fax", "unsafe", "d", "key"),
        "changed its tool",
    ),
    "another class": (
        (*START, INTENT),
        e.ToolCalled("1/a#1", "mail", "read_only", "d", "key"),
        "changed its tool",
    ),
    "other arguments": (
        (*START, INTENT),
        e.ToolCalled("1/a#1", "mail", "unsafe", "e", "key"),
        "arguments at event 4",
    ),
    "another key": (
        (*START, INTENT),
        e.ToolCalled("1/a#1", "mail", "unsafe", "d", "kee"),
        "key or arguments",
    ),
    "an intent after the cancel": ((*START, CANCEL), INTENT, "an intent at event 4 after the cancel"),
    "a new attempt after the cancel": (
        (*START, INTENT, CANCEL),
        INTENT,
        "an intent at event 5 after the cancel",
    ),
    "completed after the cancel": (
        (*START, CANCEL),
        e.JobCompleted(),
        "job_completed at event 4 after the cancel",
    ),
    "failed after the cancel": ((*START, CANCEL), e.JobFailure(), "job_failed at event 4 after the cancel"),
    "the first commit is the second": (START, e.CheckpointSaved(2), "commit 2 follows commit 0 at event 3"),
    "a commit twice": (
        (*START, e.CheckpointSaved(1)),
        e.TurnCommitted("s", "t", 1),
        "commit 1 follows commit 1",
    ),
    "a commit left out": (
        (*START, e.TurnCommitted("s", "t", 1)),
        e.CheckpointSaved(3),
        "commit 3 follows commit 1",
    ),
    "a timer that was not set": (
        START,
        e.TimerFired("1/t#1"),
        "timer 1/t#1 fired at event 3 without being set",
    ),
    "a timer twice": (
        (*START, e.TimerSet("1/t#1", 0), e.TimerFired("1/t#1")),
        e.TimerFired("1/t#1"),
        "fired at event 5 without being set",
    ),
    "a child that was not started": (
        START,
        e.ChildFinished("1/c#1", "j", "failed"),
        "child j finished at event 3",
    ),
    "another child": (
        (*START, e.ChildStarted("1/c#1", "j")),
        e.ChildFinished("1/c#1", "i", "failed"),
        "child i finished at event 4",
    ),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_cannot_follow_is_refused_and_changes_nothing(name: str) -> None:
    """Go on with each impossible event: the error says what and where, and the job stays as it was."""
    story, event, word = VIOLATIONS[name]
    job = told(*story)
    before = copy.deepcopy(job)
    with pytest.raises(Ungrammatical) as caught:
        step(job, len(story) + 1, job.fence + isinstance(event, e.JobClaimed), event)
    assert word in str(caught.value)
    assert job == before


@pytest.mark.parametrize(
    "seq, fence, event, word",
    [
        (2, 1, e.JobReleased(), "event 2 follows event 2"),
        (4, 1, e.JobReleased(), "event 4 follows event 2"),
        (4, 1, e.StepFinished("1/b#1", "d"), "event 4 follows event 2"),
        (3, 0, e.StepFinished("1/b#1", "d"), "fence fell from 1 to 0 at event 3"),
        (1, 1, CREATED, "event 1 follows event 2"),
        (3, 0, e.JobReleased(), "fence fell from 1 to 0 at event 3"),
        (3, 0, CLAIMED, "fence fell from 1 to 0 at event 3"),
        (3, 1, TAKEN_OVER, "did not raise the fence 1"),
    ],
)
def test_numbers_and_fences_only_grow(seq: int, fence: int, event: Event, word: str) -> None:
    """Go on with a gap, a repetition, a fence from before, and a claim under the old fence."""
    job = running()
    before = copy.deepcopy(job)
    with pytest.raises(Ungrammatical, match=word):
        step(job, seq, fence, event)
    assert job == before


def test_a_call_fired_before_the_cancel_may_still_end() -> None:
    """Cancel while a call is out: its outcome is recorded, the job ends cancelled."""
    for outcome in (RETURNED, FAILED, UNSURE):
        assert running(INTENT, CANCEL, outcome, e.JobCancellation("asked")).status is Status.CANCELLED
    job = running(CANCEL)
    assert job.cancel_requested
    assert not job.over


# ── any journal ───────────────────────────────────────────────────────────────────────────────────

POOL: list[Event] = [
    CREATED,
    CLAIMED,
    CLAIMED,
    CLAIMED,
    TAKEN_OVER,
    e.JobReleased(),
    e.JobWaiting("signal", wake_at=1),
    e.JobRequeued(),
    e.JobDeadLettered(),
    e.JobCompleted(1),
    e.JobFailure(2),
    e.JobCancellation(),
    CANCEL,
    INTENT,
    INTENT,
    e.ToolCalled("1/a#1", "mail", "unsafe", "d", "key1", generation=1),
    RETURNED,
    FAILED,
    UNSURE,
    reconciled("not_happened"),
    reconciled("skip"),
    e.ToolReturned("1/a#1", 1),
    PLAN,
    NODE,
    NODE_DONE,
    e.NodeFinished("p", "n", "failed"),
    ASKED,
    REPLIED,
    e.StepFinished("1/b#1", ""),
    e.StepFinished("1/c#1", ""),
    e.CheckpointSaved(1),
    e.TurnCommitted("s", "t", 2),
    e.TimerSet("1/t#1", 5),
    e.TimerFired("1/t#1"),
    e.ChildStarted("1/c#1", "j"),
    e.ChildFinished("1/c#1", "j", "completed"),
    e.SignalReceived("s", 1),
    e.StoreRestored(1),
]


@st.composite
def journals(draw: st.DrawFn) -> list[Fact]:
    """Grammatical journals: random facts, of which those that were accepted. Refused ones must leave no trace."""
    written: list[Fact] = [(1, 0, CREATED), (2, 1, CLAIMED)]
    job = fold(written)
    for place, delta in draw(
        st.lists(st.tuples(st.integers(0, len(POOL) - 1), st.integers(-1, 1)), max_size=40)
    ):
        event = POOL[place]
        fence = job.fence + delta
        before = copy.deepcopy(job)
        try:
            step(job, job.seq + 1, fence, event)
        except Ungrammatical:
            assert job == before
        else:
            written.append((job.seq, fence, event))
    assert fold(written) == job, "step by step or all at once"
    return written


@given(journals(), st.integers(0, 40))
def test_every_beginning_of_a_journal_is_a_journal(written: list[Fact], cut: int) -> None:
    """Fold a beginning and go on from there: same job as in one go."""
    job = fold(written[:cut])
    for fact in written[cut:]:
        step(job, *fact)
    assert job == fold(written)


@given(journals())
def test_every_journal_keeps_the_promises(written: list[Fact]) -> None:
    """Scan accepted journals with a second reading of the rules, which knows nothing of `step`."""
    types = [event.type for _, _, event in written]
    fences = [fence for _, fence, _ in written]
    claims = [fence for _, fence, event in written if isinstance(event, e.JobClaimed)]
    assert fences == sorted(fences)
    assert claims == sorted(set(claims))
    ends = [place for place, name in enumerate(types) if MOVES.get(name, {}).get(Status.RUNNING) in TERMINAL]
    assert ends in ([], [len(types) - 1])
    for once in (e.StepFinished, e.PlanGenerated, e.LlmResponded):
        told_once = [event for _, _, event in written if isinstance(event, once)]
        assert len(told_once) == len(set(map(_subject, told_once)))
    if "cancel_requested" in types:
        after = types[types.index("cancel_requested") :]
        assert not {"tool_called", "job_completed", "job_failed"} & set(after)
    ordinals = [
        event.ordinal for _, _, event in written if isinstance(event, e.CheckpointSaved | e.TurnCommitted)
    ]
    assert ordinals == [*range(1, len(ordinals) + 1)]
    for place, (_, _, event) in enumerate(written):
        earlier = [event for _, _, event in written[:place]]
        if isinstance(event, e.ToolReturned | e.ToolFailed | e.ToolUncertain | e.ToolReconciled):
            assert _last_word(earlier, event.step_key, event.generation) in {"intent", "doubt"}
        if isinstance(event, e.ToolCalled):
            assert _last_word(earlier, event.step_key, event.generation) in {"nothing", "intent", "doubt"}
        if event.type in DRIVEN:
            moves = [name for name in types[:place] if name in MOVES]
            assert moves[-1] == "job_claimed", "driven by somebody who has not given it back"


def _subject(event: Event) -> str:
    match event:
        case e.StepFinished() | e.LlmResponded():
            return event.step_key
        case e.PlanGenerated():
            return event.plan_id
        case _:
            raise AssertionError(event)


def _last_word(events: list[Event], step_key: str, generation: int) -> str:
    """What was last said about a call."""
    word = "nothing"
    for event in events:
        if getattr(event, "step_key", None) != step_key or getattr(event, "generation", None) != generation:
            continue
        match event:
            case e.ToolCalled():
                word = "intent"
            case e.ToolUncertain():
                word = "doubt"
            case _:
                word = "settled"
    return word
