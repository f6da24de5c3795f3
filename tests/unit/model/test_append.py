"""The one kind of write names what it was built on and where it leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidMove, TooLarge
from holdfast.model.append import NOTHING, Append, Extras, Holder, Move, Timer, advance_holder, append_of
from holdfast.model.budget import Budget, Charge, LimitRaise
from holdfast.model.events import Event, JobCompleted, JobCreated, StepFinished
from holdfast.model.hash_chain import EMPTY, Head, find_break, seal
from holdfast.model.jobs import JobDraft
from holdfast.model.ledger import CallRow
from holdfast.model.limits import APPEND_BYTES_MAX, EVENTS_PER_APPEND_MAX, JSON_BYTES_MAX
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import TurnCommit
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Status, WaitReason

HOLDER = Holder("job_1", "ns", 7, "token", Head(3, bytes(range(32))))


def steps(*names: str) -> list[Event]:
    return [StepFinished(name, "") for name in names]


def test_an_append_says_everything_it_was_given() -> None:
    """Build one with every part and compare."""
    move = Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=9)
    extras = Extras(timers=(Timer("1/t#1", 9),))
    built = append_of(HOLDER, steps("a", "b"), at=5, mail_seen=2, move=move, progress=True, extras=extras)
    events, head = seal("job_1", HOLDER.head, 7, 5, steps("a", "b"))
    assert built == Append(
        job_id="job_1",
        namespace="ns",
        fence=7,
        lease_token="token",
        seen=HOLDER.head,
        head=head,
        events=events,
        mail_seen=2,
        move=move,
        progress=True,
        extras=extras,
    )


def test_an_append_stays_running_and_writes_nothing_else_unless_told() -> None:
    """Build the plainest one."""
    built = append_of(HOLDER, steps("a"), at=5)
    assert (built.mail_seen, built.move, built.progress, built.extras) == (None, None, False, NOTHING)


def test_an_append_without_events_is_refused() -> None:
    """Build one that would not move the head: nobody could tell it from one that was lost."""
    with pytest.raises(InvalidMove, match="at least one event"):
        append_of(HOLDER, iter(()), at=5, extras=Extras(timers=(Timer("1/t#1", 9),)))


def test_an_append_has_limits() -> None:
    """Build one at each limit and one beyond: a longer transaction would keep hundreds of jobs waiting."""
    most = steps(*map(str, range(EVENTS_PER_APPEND_MAX)))
    assert len(append_of(HOLDER, most, at=5).events) == EVENTS_PER_APPEND_MAX
    with pytest.raises(TooLarge, match="513 events"):
        append_of(HOLDER, [*most, *steps("one more")], at=5)
    heavy: list[Event] = [StepFinished(str(n), "", result="x" * (JSON_BYTES_MAX // 2)) for n in range(7)]
    assert len(append_of(HOLDER, heavy, at=5).events) == 7
    with pytest.raises(TooLarge, match=f"and {APPEND_BYTES_MAX:,}"):
        append_of(HOLDER, [*heavy, StepFinished("8", "", result="x" * (JSON_BYTES_MAX // 2))], at=5)


@given(st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=3), max_size=4))
def test_appends_one_after_the_other_make_one_chain(batches: list[list[str]]) -> None:
    """Write several, each from the holder that the last one left: the journal is whole and ends at the last head."""
    (created,), head = seal("job_1", EMPTY, 0, 1, [JobCreated("k")])
    holder = Holder("job_1", "ns", 7, "token", head)
    journal = [created]
    for at, names in enumerate(batches):
        built = append_of(holder, steps(*names), at=at)
        assert built.seen == holder.head
        journal.extend(built.events)
        holder = advance_holder(holder, built)
        assert (holder.job_id, holder.namespace, holder.fence, holder.lease_token) == (
            "job_1",
            "ns",
            7,
            "token",
        )
    assert find_break("job_1", journal) is None
    assert holder.head == Head(journal[-1].seq, journal[-1].hash)


def test_the_head_tells_an_append_from_every_other() -> None:
    """Build appends that differ in one thing each: a writer recognises its own after a lost reply."""
    other_holder = Holder("job_1", "ns", 8, "token", HOLDER.head)
    other_head = Holder("job_1", "ns", 7, "token", Head(3, bytes(32)))
    other_job = Holder("job_2", "ns", 7, "token", HOLDER.head)
    built = [
        append_of(HOLDER, steps("a"), at=5),
        append_of(HOLDER, steps("b"), at=5),
        append_of(HOLDER, steps("a", "a"), at=5),
        append_of(HOLDER, steps("a"), at=6),
        append_of(other_holder, steps("a"), at=5),
        append_of(other_head, steps("a"), at=5),
        append_of(other_job, steps("a"), at=5),
        append_of(HOLDER, [JobCompleted()], at=5),
    ]
    assert len({append.head for append in built}) == len(built)
    assert append_of(HOLDER, steps("a"), at=5).head == built[0].head


@pytest.mark.parametrize("status", Status)
def test_a_move_is_over_at_the_three_ends(status: Status) -> None:
    """Ask every move."""
    assert Move(status=status).over == (status in {"completed", "failed", "cancelled"})


CALL = CallRow(
    tool_call_id="c",
    job_id="job_1",
    step_key="1/a#1",
    tool_name="t",
    raw_tool_name="t",
    side_effect_class=Effect.UNSAFE,
    status=CallStatus.PREPARED,
    idempotency_key="k",
    args_digest="d",
)


@pytest.mark.parametrize(
    "extras",
    [
        Extras(calls=(CALL,)),
        Extras(timers=(Timer("1/t#1", None),)),
        Extras(children=(JobDraft(kind="k"),)),
        Extras(letters=(MailDraft(job_id="j", kind=MailKind.SIGNAL, operation_id="o"),)),
        Extras(turn=TurnCommit(session_id="s")),
        Extras(blobs=(b"x",)),
        Extras(spend=(Charge("j", tokens=1),)),
        Extras(raises=(LimitRaise("j", Budget(usd=1)),)),
    ],
    ids=["calls", "timers", "children", "letters", "turn", "blobs", "spend", "raises"],
)
def test_extras_of_any_kind_are_something(extras: Extras) -> None:
    """Ask whether there is more to write than events."""
    assert extras
    assert not NOTHING
    assert not Extras()


def test_every_kind_of_extra_is_asked_for() -> None:
    """Compare with the fields there are: a new one must not be forgotten when a store asks for more."""
    assert Extras.__struct_fields__ == (
        "calls",
        "timers",
        "children",
        "letters",
        "turn",
        "blobs",
        "spend",
        "raises",
    )
