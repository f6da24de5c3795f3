"""What recovery may do, cell by cell of the table of guarantees, and that it never guesses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSetting
from holdfast.model.events import JobClaimed, JobCreated, ToolCalled
from holdfast.model.job_state import fold
from holdfast.model.side_effects import (
    CALL_MOVES,
    SETTLED,
    CallStatus,
    CutOff,
    Effect,
    ProbeAnswer,
    Recovery,
    parse_effect,
    quiet_at,
    recover,
)
from holdfast.model.time import HOUR, MINUTE, SECOND

DAY_OF_KEYS = 24 * HOUR
FOUR_FIFTHS = DAY_OF_KEYS // 5 * 4

READ_ONLY, IDEMPOTENT, VERIFIABLE, UNSAFE = Effect
PREPARED, UNCERTAIN, ABANDONED = CallStatus.PREPARED, CallStatus.UNCERTAIN, CallStatus.ABANDONED
HAPPENED, NOT_HAPPENED, CANNOT_TELL = ProbeAnswer

# ── the table ─────────────────────────────────────────────────────────────────────────────────────
# A killed worker leaves the same record before the request was sent (P1) and after (P2): an intent. So both rows of the
# table are asked with the same words, and must get the same answer.

REMEMBERED = {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": FOUR_FIFTHS}
FORGOTTEN = {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": FOUR_FIFTHS + 1}
NEAR_FUTURE = {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": FOUR_FIFTHS - DAY_OF_KEYS}
FAR_FUTURE = {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": FOUR_FIFTHS - DAY_OF_KEYS - 1}
PROBE = {"has_probe": True}
QUIET = {"has_probe": True, "quiet": True}

INTENT_ONLY: list[tuple[Effect, dict[str, Any], Recovery]] = [
    # run again, automatically, whatever else is known
    (READ_ONLY, {}, Recovery.RUN),
    (READ_ONLY, QUIET, Recovery.RUN),
    (READ_ONLY, FORGOTTEN, Recovery.RUN),
    # send again under the same key, while the receiver remembers keys; no quiet period: the receiver sorts it out
    (IDEMPOTENT, {}, Recovery.RESEND),
    (IDEMPOTENT, {"key_age_us": 10**18}, Recovery.RESEND),
    (IDEMPOTENT, {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": 0}, Recovery.RESEND),
    (IDEMPOTENT, REMEMBERED, Recovery.RESEND),
    (IDEMPOTENT, REMEMBERED | PROBE, Recovery.RESEND),
    # later it falls to `verifiable`
    (IDEMPOTENT, FORGOTTEN | PROBE, Recovery.WAIT),
    (IDEMPOTENT, FORGOTTEN | QUIET, Recovery.PROBE),
    (IDEMPOTENT, FORGOTTEN | QUIET | {"answer": HAPPENED}, Recovery.ADOPT),
    (IDEMPOTENT, FORGOTTEN | QUIET | {"answer": NOT_HAPPENED}, Recovery.RESEND),
    (IDEMPOTENT, FORGOTTEN | QUIET | {"answer": CANNOT_TELL}, Recovery.ASK),
    # or to `unsafe`, if there is no probe
    (IDEMPOTENT, FORGOTTEN, Recovery.ASK),
    (IDEMPOTENT, FORGOTTEN | {"quiet": True}, Recovery.ASK),
    (IDEMPOTENT, {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": 10 * DAY_OF_KEYS}, Recovery.ASK),
    # a key from the near future: its worker was not sure of the time to within as much
    (IDEMPOTENT, {"key_lifetime_us": DAY_OF_KEYS, "key_age_us": -1}, Recovery.RESEND),
    (IDEMPOTENT, NEAR_FUTURE, Recovery.RESEND),
    # a key from the far future: a clock was set back, its age is not known
    (IDEMPOTENT, FAR_FUTURE, Recovery.ASK),
    (IDEMPOTENT, FAR_FUTURE | QUIET, Recovery.PROBE),
    # wait out the quiet period, probe: there → adopt, not there → send again, cannot tell → a person
    (VERIFIABLE, PROBE, Recovery.WAIT),
    (VERIFIABLE, PROBE | {"answer": NOT_HAPPENED}, Recovery.WAIT),
    (VERIFIABLE, PROBE | {"answer": HAPPENED}, Recovery.WAIT),
    (VERIFIABLE, QUIET, Recovery.PROBE),
    (VERIFIABLE, QUIET | {"answer": HAPPENED}, Recovery.ADOPT),
    (VERIFIABLE, QUIET | {"answer": NOT_HAPPENED}, Recovery.RESEND),
    (VERIFIABLE, QUIET | {"answer": CANNOT_TELL}, Recovery.ASK),
    (VERIFIABLE, REMEMBERED | PROBE, Recovery.WAIT),
    # declared verifiable, but nothing to verify with
    (VERIFIABLE, {}, Recovery.ASK),
    (VERIFIABLE, {"quiet": True, "answer": NOT_HAPPENED}, Recovery.ASK),
    # a person, whatever else is known
    (UNSAFE, {}, Recovery.ASK),
    (UNSAFE, {"quiet": True}, Recovery.ASK),
    (UNSAFE, QUIET | {"answer": NOT_HAPPENED}, Recovery.ASK),
    (UNSAFE, REMEMBERED, Recovery.ASK),
]


@pytest.mark.parametrize("effect", Effect)
def test_p0_with_nothing_durable_a_call_of_any_class_is_made(effect: Effect) -> None:
    """Crash before the intent: there is no call to recover, and the journal takes a first intent of any class."""
    intent = ToolCalled("1/a#1", "tool", effect, "digest", "key")
    job = fold([(1, 0, JobCreated("k")), (2, 1, JobClaimed("w")), (3, 1, intent)])
    assert job.calls["1/a#1", 0].status is PREPARED
    assert PREPARED in CALL_MOVES[None]


@pytest.mark.parametrize("point", ["p1_intent_not_sent", "p2_sent_result_not_durable"])
@pytest.mark.parametrize("effect, known, expected", INTENT_ONLY)
def test_p1_and_p2_with_only_an_intent_the_class_decides(
    point: str, effect: Effect, known: dict[str, Any], expected: Recovery
) -> None:
    """Crash between the intent and the result: the same record, the same answer, by what was declared."""
    assert recover(CutOff(effect=effect, status=PREPARED, **known)) is expected


@pytest.mark.parametrize("point", ["p3_result_durable", "after_the_turn_commit"])
@pytest.mark.parametrize("status", [CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.SKIPPED])
@pytest.mark.parametrize("effect", Effect)
def test_p3_and_later_the_ledger_answers(point: str, status: CallStatus, effect: Effect) -> None:
    """Crash after the result: never again, whatever probes and clocks say."""
    for known in ({}, FORGOTTEN, QUIET, QUIET | {"answer": NOT_HAPPENED}):
        assert recover(CutOff(effect=effect, status=status, **known)) is Recovery.USE_RECORD


@pytest.mark.parametrize("effect", Effect)
def test_what_was_abandoned_has_no_result_to_use(effect: Effect) -> None:
    """Crash after somebody said "it did not happen", before the new intent: a new generation, never the old row."""
    for known in ({}, FORGOTTEN, QUIET, QUIET | {"answer": HAPPENED}):
        assert recover(CutOff(effect=effect, status=ABANDONED, **known)) is Recovery.NEW_GENERATION
    assert CALL_MOVES[ABANDONED] == frozenset()


# ── uncertain ─────────────────────────────────────────────────────────────────────────────────────


@given(
    effect=st.sampled_from(Effect),
    age=st.integers(),
    lifetime=st.none() | st.integers(0),
    has_probe=st.booleans(),
    quiet=st.booleans(),
)
def test_time_alone_never_resolves_what_is_uncertain(
    effect: Effect, age: int, lifetime: int | None, has_probe: bool, quiet: bool
) -> None:
    """Let any time pass over an uncertain call, and let a probe fail: it still takes a person."""
    for answer in (None, CANNOT_TELL):
        call = CutOff(
            effect=effect,
            status=UNCERTAIN,
            key_age_us=age,
            key_lifetime_us=lifetime,
            has_probe=has_probe,
            quiet=quiet,
            answer=answer,
        )
        assert recover(call) in ({Recovery.ASK} if answer is None else {Recovery.ASK, Recovery.WAIT})


@pytest.mark.parametrize("effect", [IDEMPOTENT, VERIFIABLE])
@pytest.mark.parametrize("key", [{}, REMEMBERED, FORGOTTEN], ids=["for ever", "remembered", "forgotten"])
@pytest.mark.parametrize(
    "answer, expected",
    [
        (HAPPENED, Recovery.ADOPT),
        (NOT_HAPPENED, Recovery.RESEND),
        (CANNOT_TELL, Recovery.ASK),
        (None, Recovery.ASK),
    ],
)
def test_an_uncertain_call_goes_by_the_answer_and_not_by_its_key(
    effect: Effect, key: dict[str, Any], answer: ProbeAnswer | None, expected: Recovery
) -> None:
    """Probe again after the quiet period: evidence decides, also over a key that only looks young."""
    assert recover(CutOff(effect=effect, status=UNCERTAIN, answer=answer, **key, **QUIET)) is expected


@pytest.mark.parametrize("effect", [READ_ONLY, UNSAFE])
@pytest.mark.parametrize("answer", [None, *ProbeAnswer])
def test_where_no_probe_is_believed_an_uncertain_call_needs_a_person(
    effect: Effect, answer: ProbeAnswer | None
) -> None:
    """Answer for a call that has no probe by its class: a call declared anew after the fact stays uncertain."""
    assert recover(CutOff(effect=effect, status=UNCERTAIN, answer=answer, **QUIET)) is Recovery.ASK


# ── no branch guesses ─────────────────────────────────────────────────────────────────────────────


def allowed(call: CutOff) -> set[Recovery]:
    """The law in sentences, one for each thing that recovery can do; written without looking at `recover`."""
    may: set[Recovery] = set()
    open_ = call.status in {PREPARED, UNCERTAIN}
    keyed = call.effect is IDEMPOTENT and (
        call.key_lifetime_us is None
        or -2 * call.key_lifetime_us <= call.key_age_us * 10 <= call.key_lifetime_us * 8
    )
    asked = call.has_probe and call.effect in {IDEMPOTENT, VERIFIABLE}
    if call.status is PREPARED and call.effect is READ_ONLY:
        may.add(Recovery.RUN)
    if call.status is PREPARED and keyed:
        may.add(Recovery.RESEND)
    if open_ and asked and call.quiet and call.answer is NOT_HAPPENED:
        may.add(Recovery.RESEND)
    if open_ and asked and call.quiet and call.answer is HAPPENED:
        may.add(Recovery.ADOPT)
    if call.status is PREPARED and asked and call.quiet and call.answer is None:
        may.add(Recovery.PROBE)
    if open_ and asked and not call.quiet:
        may.add(Recovery.WAIT)
    if call.status in {CallStatus.SUCCEEDED, CallStatus.FAILED, CallStatus.SKIPPED}:
        may.add(Recovery.USE_RECORD)
    if call.status is ABANDONED:
        may.add(Recovery.NEW_GENERATION)
    if open_:
        may.add(Recovery.ASK)  # to ask a person is never wrong
    return may


def test_every_situation_has_one_allowed_answer() -> None:
    """Go through all combinations: nothing is done that the law does not allow, and nobody is asked needlessly."""
    combinations = itertools.product(
        Effect,
        CallStatus,
        [-1, 0, 79, 80, 81, 100],
        [None, 0, 100],
        [False, True],
        [False, True],
        [None, *ProbeAnswer],
    )
    for effect, status, age, lifetime, has_probe, quiet, answer in combinations:
        call = CutOff(
            effect=effect,
            status=status,
            key_age_us=age,
            key_lifetime_us=lifetime,
            has_probe=has_probe,
            quiet=quiet,
            answer=answer,
        )
        may = allowed(call)
        assert recover(call) in may, call
        needless = may - {Recovery.ASK} and recover(call) is Recovery.ASK
        assert not needless or (status is UNCERTAIN and answer is None), call


@given(
    st.builds(
        CutOff,
        effect=st.sampled_from(Effect),
        status=st.sampled_from(CallStatus),
        key_age_us=st.integers(-(10**18), 10**18),
        key_lifetime_us=st.none() | st.integers(0, 10**15),
        has_probe=st.booleans(),
        quiet=st.booleans(),
        answer=st.none() | st.sampled_from(ProbeAnswer),
    )
)
def test_nothing_is_fired_that_the_class_does_not_allow(call: CutOff) -> None:
    """Draw any situation: what reaches the receiver again was read-only, keyed, or proven not to have happened."""
    done = recover(call)
    if done is Recovery.RUN:
        assert call.effect is READ_ONLY
        assert call.status is PREPARED
    if done is Recovery.RESEND:
        assert call.status not in SETTLED
        proven = call.has_probe and call.quiet and call.answer is NOT_HAPPENED
        keyed = call.effect is IDEMPOTENT and call.status is PREPARED
        assert proven or keyed
        assert call.effect in {IDEMPOTENT, VERIFIABLE}
    assert call.effect is not UNSAFE or done in {Recovery.ASK, Recovery.USE_RECORD, Recovery.NEW_GENERATION}


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_key_is_trusted_for_four_fifths_of_its_life(lifetime: int, age: int) -> None:
    """Draw ages and lifetimes, without floats: at exactly 80 % it is still sent."""
    call = CutOff(effect=IDEMPOTENT, status=PREPARED, key_age_us=age, key_lifetime_us=lifetime)
    assert (recover(call) is Recovery.RESEND) == (5 * age <= 4 * lifetime)


# ── the ledger's moves ────────────────────────────────────────────────────────────────────────────

LEDGER = {
    None: "prepared succeeded failed",
    PREPARED: "prepared succeeded failed uncertain abandoned_on_resume skipped",
    UNCERTAIN: "prepared succeeded failed abandoned_on_resume skipped",
    CallStatus.SUCCEEDED: "",
    CallStatus.FAILED: "",
    ABANDONED: "",
    CallStatus.SKIPPED: "",
}


@pytest.mark.parametrize("before", [None, *CallStatus])
def test_a_row_moves_as_written_here(before: CallStatus | None) -> None:
    """Compare every cell; what is settled never changes, and nothing is uncertain before it was intended."""
    assert CALL_MOVES[before] == frozenset(LEDGER[before].split())


def test_settled_is_what_cannot_move() -> None:
    """Compare the two lists."""
    assert {status for status in CallStatus if not CALL_MOVES[status]} == SETTLED


# ── what authors declare ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("effect", Effect)
def test_our_names_are_understood(effect: Effect) -> None:
    """Declare each class by its own name."""
    assert parse_effect(effect.value) is effect


def test_silence_is_unsafe_and_the_seeds_names_are_known() -> None:
    """Declare nothing, and what the acceptance documents call their classes."""
    assert parse_effect(None) is UNSAFE
    assert parse_effect("external") is UNSAFE
    assert parse_effect("local") is VERIFIABLE
    assert parse_effect("memory") is IDEMPOTENT


@pytest.mark.parametrize("name", ["", "safe", "READ_ONLY", "get", "readonly", " unsafe"])
def test_a_class_is_never_guessed_from_a_word(name: str) -> None:
    """Declare what is no class, however it sounds: the error lists those that are."""
    with pytest.raises(InvalidSetting) as caught:
        parse_effect(name)
    assert repr(name) in str(caught.value)
    assert all(effect in caught.value.hint for effect in Effect)


def test_quiet_is_after_the_last_start_the_longest_call_and_a_margin() -> None:
    """By hand, and never before any of its parts."""
    assert quiet_at(100 * SECOND, MINUTE, 2 * SECOND) == 167 * SECOND
    assert quiet_at(100 * SECOND, None) == 105 * SECOND
    assert quiet_at(None, None) == 5 * SECOND
