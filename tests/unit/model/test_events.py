"""Events round-trip, unknown ones are refused, and nobody changes a journal unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidPayload, SchemaMismatch, StoreCorrupt, TooLarge
from holdfast.model import canonical
from holdfast.model import events as e
from holdfast.model.events import EVENTS, Event
from holdfast.model.hash_chain import (
    EMPTY,
    Head,
    SealedEvent,
    body_of,
    body_of_step,
    find_break,
    seal,
    unseal,
)
from holdfast.model.limits import INTEGER_MAX, JSON_BYTES_MAX, JSON_DEPTH_MAX, PAYLOAD_INLINE_BYTES

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "events_v1.json"
JOB = "job_1"

NAMES = """
    job_created job_claimed job_released job_waiting job_parked job_stalled job_requeued job_dead_lettered
    job_completed job_failed job_cancelled cancel_requested
    plan_generated node_started node_finished step_finished call_cancelled call_moved call_retried llm_requested
    llm_responded llm_repurchased
    tool_called tool_returned tool_failed tool_uncertain tool_reconciled
    checkpoint_saved checkpoint_begun checkpoint_committed checkpoint_verified checkpoints_dropped
    turn_committed inputs_claimed timer_set timer_fired signal_received signal_taken question_asked progress_reported
    approval_requested approval_decided child_started child_finished budget_reached budget_raised
    store_restored
""".split()

# ── any event at all ──────────────────────────────────────────────────────────────────────────────

integers = st.integers(-INTEGER_MAX, INTEGER_MAX)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | integers
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    str | None: st.none() | st.text(max_size=8),
    int: integers,
    int | None: st.none() | integers,
    bool: st.booleans(),
    Any: json_values,
    tuple[str, ...]: st.lists(st.text(max_size=8), max_size=3).map(tuple),
    tuple[Any, ...]: st.lists(json_values, max_size=3).map(tuple),
}


def events_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Events of one type: required fields filled in, the others as they please."""
    fields = msgspec.structs.fields(kind)
    required = {field.name: BY_TYPE[field.type] for field in fields if field.required}
    optional = {field.name: BY_TYPE[field.type] for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda drawn: kind(**drawn))


any_event = st.sampled_from([*EVENTS.values()]).flatmap(events_of)
journals = st.lists(st.text(max_size=3).map(lambda text: e.StepFinished(text, "")), min_size=1, max_size=6)
keys = st.text(st.characters(codec=None, exclude_categories=()), max_size=8) | st.just("0/a#1")
steps = st.one_of(
    events_of(e.StepFinished),
    st.builds(e.StepFinished, keys, st.just("d1") | keys, result=json_values | keys),
)


@given(steps)
def test_a_step_that_is_put_together_is_the_step_that_is_written_out(step: Event) -> None:
    """Its result is what its bytes are read as: whichever way the body is made, it is the same body."""
    assert isinstance(step, e.StepFinished)
    data = canonical.encode(step.result)
    step = msgspec.structs.replace(step, result=canonical.decode_stored(data))
    assert body_of_step(step, data) == body_of(step)


TOKEN = "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2"
DEEP = json.loads("[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX)


@pytest.mark.parametrize(
    "step",
    [
        e.StepFinished("0/a#1", "d", result={"key": TOKEN}),
        e.StepFinished(f"0/{TOKEN}#1", "d", result=1),
        e.StepFinished("0/a#1", "d", result="x" * (PAYLOAD_INLINE_BYTES + 1)),
        e.StepFinished("0/a#1", "d", result=1, generation=2),
        e.StepFinished("0/a#1", "d", "failed", error={"type": "X"}),
        e.StepFinished('0/"a\\#1', "d", result=1),
        e.StepFinished("0/ä#1", "d", result=1),
        e.StepFinished("0/a#1", 'd"', result=1),
        e.StepFinished("0/a#1", "d"),
    ],
)
def test_unusual_steps_take_the_long_way(step: e.StepFinished) -> None:
    data = canonical.encode(step.result)
    step = msgspec.structs.replace(step, result=canonical.decode_stored(data))
    body = body_of_step(step, data)
    assert body == body_of(step)
    assert TOKEN.encode() not in body


def test_a_step_is_no_deeper_put_together_than_written_out() -> None:
    """A result that may be as deep as anything is too deep inside a fact, whoever makes the body."""
    with pytest.raises(InvalidPayload):
        body_of_step(e.StepFinished("0/a#1", "d", result=DEEP), canonical.encode(DEEP))


def test_bodies_are_for_all_events_or_none() -> None:
    first, second = e.StepFinished("0/a#1", "d"), e.StepFinished("0/b#1", "d", result=2)
    known = [None, body_of(second)]
    assert seal(JOB, EMPTY, 1, 5, [first, second], known) == seal(JOB, EMPTY, 1, 5, [first, second])
    with pytest.raises(ValueError, match="shorter"):
        seal(JOB, EMPTY, 1, 5, [first, second], known[:1])


# There are many types; each gets its share of the examples.
a_share = settings(max_examples=max(10, settings().max_examples // 10))


def sealed_journal(events: Sequence[Event], fence: int = 3, at: int = 1_000) -> list[SealedEvent]:
    return list(seal(JOB, EMPTY, fence, at, events)[0])


def sealed_alone(event: Event) -> SealedEvent:
    return sealed_journal([event])[0]


def test_the_list_is_closed() -> None:
    """Compare with the names written here: a type is neither lost nor gained by accident, and none is hidden."""
    assert sorted(EVENTS) == sorted(NAMES)
    assert {kind.type: kind for kind in EVENTS.values()} == EVENTS
    assert {value for value in vars(e).values() if isinstance(value, type) and issubclass(value, Event)} == {
        Event,
        *EVENTS.values(),
    }


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_events_are_frozen_and_fields_come_with_defaults_last(kind: type[Event]) -> None:
    """Look at each type: facts do not change, and a later field must have a default."""
    config = kind.__struct_config__
    assert config.frozen
    assert config.forbid_unknown_fields
    required = [field.required for field in msgspec.structs.fields(kind)]
    assert required == sorted(required, reverse=True)


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
@a_share
@given(data=st.data())
def test_every_event_comes_back_as_it_was(kind: type[Event], data: st.DataObject) -> None:
    """Seal, open and compare; the second writing gives the same bytes."""
    event = data.draw(events_of(kind))
    sealed = sealed_alone(event)
    again = unseal(sealed)
    assert type(again) is kind
    assert again == event
    assert body_of(again) == sealed.body


@given(any_event)
def test_a_body_says_only_what_differs_from_the_default(event: Event) -> None:
    """Compare the names in a body with the fields that do not hold their default."""
    told = {
        field.name
        for field in msgspec.structs.fields(type(event))
        if field.required or getattr(event, field.name) != field.default
    }
    assert canonical.decode(body_of(event)).keys() == told


def test_a_new_field_changes_no_old_hash() -> None:
    """Write the same fact with a type that has grown a field: the bytes stay."""

    class Grown(Event, frozen=True):
        type = "job_claimed"
        worker: str
        takeover: bool = False
        zone: str | None = None
        tags: tuple[str, ...] = ()

    assert body_of(Grown("w")) == body_of(e.JobClaimed("w")) == b'{"worker":"w"}'
    assert body_of(Grown("w", takeover=True)) == body_of(e.JobClaimed("w", takeover=True))


def test_text_of_any_kind_is_kept() -> None:
    """Seal what models really say: NUL, lone surrogates, nothing at all."""
    event = e.StepFinished("k\ud800", "", result={"a\x00b": ["\udfff", "", None]}, error=0)
    assert unseal(sealed_alone(event)) == event


def test_a_payload_over_the_limit_is_refused_before_it_is_sealed() -> None:
    """Seal a result that is too long: the error comes while nothing has been written."""
    with pytest.raises(TooLarge):
        sealed_alone(e.StepFinished("k", "", result="x" * JSON_BYTES_MAX))


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


def resealed(event: SealedEvent, body: bytes) -> SealedEvent:
    return msgspec.structs.replace(event, body=body, body_digest=hashlib.sha256(body).digest())


@pytest.mark.parametrize(
    "type_, version, words",
    [
        ("job_teleported", 1, ["event 1 is job_teleported version 1", "no event of that type"]),
        ("job_claimed", 2, ["event 1 is job_claimed version 2", "up to version 1"]),
        ("job_claimed", 0, ["event 1 is job_claimed version 0", "up to version 1"]),
        ("holdfast.model.events.JobClaimed", 1, ["no event of that type"]),
        ("", 1, ["no event of that type"]),
    ],
)
def test_what_this_version_does_not_know_is_refused_with_both_named(
    type_: str, version: int, words: list[str]
) -> None:
    """Open events of another Holdfast: the error says what it found, what it knows, and what to do."""
    sealed = msgspec.structs.replace(sealed_alone(e.JobClaimed("w")), type=type_, version=version)
    with pytest.raises(SchemaMismatch) as caught:
        unseal(sealed)
    assert all(word in str(caught.value) for word in words)
    assert "newer" in caught.value.hint


@pytest.mark.parametrize(
    "body",
    [
        b'{"worker":"w","zone":"moon"}',
        b"{}",
        b'{"worker":7}',
        b'{"worker":"w","takeover":"true"}',
        b"[]",
        b"null",
        b"not json",
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_body_that_does_not_fit_its_type_is_refused(body: bytes) -> None:
    """Open well-sealed bodies with a field too many, too few, of another type, and no JSON: never a guess, never
    an error that is not ours."""
    with pytest.raises(SchemaMismatch, match="event 1 is not a job_claimed version 1"):
        unseal(resealed(sealed_alone(e.JobClaimed("w")), body))


def test_a_body_that_was_changed_is_damage() -> None:
    """Open a body that reads well but is not the sealed one."""
    sealed = sealed_alone(e.JobClaimed("w"))
    with pytest.raises(StoreCorrupt, match="event 1"):
        unseal(msgspec.structs.replace(sealed, body=b'{"worker":"v"}'))


def test_an_erased_body_says_so() -> None:
    """Open what was erased on purpose."""
    with pytest.raises(InvalidPayload, match="erased"):
        unseal(msgspec.structs.replace(sealed_alone(e.JobClaimed("w")), body=None))


# ── the chain ─────────────────────────────────────────────────────────────────────────────────────


@given(journals, st.integers(0, 6))
def test_a_journal_grows_the_same_in_one_append_or_in_two(events: list[e.StepFinished], cut: int) -> None:
    """Seal all at once, and from the head between two halves: same events, same head, numbered without gaps."""
    whole, head = seal(JOB, EMPTY, 3, 1_000, events)
    first, middle = seal(JOB, EMPTY, 3, 1_000, events[:cut])
    second, end = seal(JOB, middle, 3, 1_000, events[cut:])
    assert (first + second, end) == (whole, head)
    assert [event.seq for event in whole] == [*range(1, len(events) + 1)]
    assert head == Head(whole[-1].seq, whole[-1].hash)
    assert find_break(JOB, whole) is None
    assert find_break(JOB, second, middle) is None


def test_sealing_nothing_moves_no_head() -> None:
    """Seal an empty append."""
    assert seal(JOB, EMPTY, 1, 1, []) == ((), EMPTY)
    assert find_break(JOB, []) is None


@given(journals, st.data())
def test_any_single_change_is_found_where_it_is(events: list[e.StepFinished], data: st.DataObject) -> None:
    """Change one field of one event, whichever, to another value: the chain breaks at that event."""
    sealed = sealed_journal(events)
    place = data.draw(st.integers(0, len(sealed) - 1))
    victim = sealed[place]
    change: dict[str, st.SearchStrategy[Any]] = {
        "seq": integers,
        "type": st.sampled_from(NAMES),
        "version": integers,
        "fence": integers,
        "at": integers,
        "body": st.binary(max_size=40),
        "body_digest": st.binary(min_size=32, max_size=32),
        "hash": st.binary(min_size=32, max_size=32),
    }
    name = data.draw(st.sampled_from([*change]))
    value = data.draw(change[name].filter(lambda value: value != getattr(victim, name)))
    sealed[place] = msgspec.structs.replace(victim, **{name: value})
    assert find_break(JOB, sealed) == sealed[place].seq


@given(journals, st.sets(st.integers(0, 5)))
def test_erased_bodies_still_verify(events: list[e.StepFinished], erased: set[int]) -> None:
    """Erase any of the bodies: the chain covers digests and holds."""
    sealed = [
        msgspec.structs.replace(event, body=None) if place in erased else event
        for place, event in enumerate(sealed_journal(events))
    ]
    assert find_break(JOB, sealed) is None


def _without_third(sealed: list[SealedEvent]) -> list[SealedEvent]:
    return sealed[:2] + sealed[3:]


def _renumbered(sealed: list[SealedEvent]) -> list[SealedEvent]:
    """Without the third, and nobody would know from the numbers."""
    closed_up = [msgspec.structs.replace(event, seq=event.seq - 1) for event in sealed[3:]]
    return sealed[:2] + closed_up


def _swapped(sealed: list[SealedEvent]) -> list[SealedEvent]:
    return [sealed[0], sealed[2], sealed[1], *sealed[3:]]


def _swapped_in_place(sealed: list[SealedEvent]) -> list[SealedEvent]:
    """Two events exchange everything but their numbers."""
    second = msgspec.structs.replace(sealed[2], seq=2)
    third = msgspec.structs.replace(sealed[1], seq=3)
    return [sealed[0], second, third, *sealed[3:]]


def _repeated(sealed: list[SealedEvent]) -> list[SealedEvent]:
    return [*sealed[:3], sealed[2], *sealed[3:]]


def _forged(sealed: list[SealedEvent]) -> list[SealedEvent]:
    """The third event rewritten with everything of its own recomputed; only what follows can tell."""
    (forged,), _ = seal(JOB, Head(2, sealed[1].hash), 3, 1_000, [e.StepFinished("3", "", result="forged")])
    return [*sealed[:2], forged, *sealed[3:]]


def _erased_and_forged(sealed: list[SealedEvent]) -> list[SealedEvent]:
    return [*sealed[:2], msgspec.structs.replace(sealed[2], body=None, body_digest=bytes(32)), *sealed[3:]]


def _of_another_journal(sealed: list[SealedEvent]) -> list[SealedEvent]:
    other, _ = seal("job_2", EMPTY, 3, 1_000, [e.StepFinished(str(n), "") for n in range(1, 6)])
    return [*sealed[:2], other[2], *sealed[3:]]


def _with_a_number_left_out(sealed: list[SealedEvent]) -> list[SealedEvent]:
    """Every hash is right, but nothing ever lay between 2 and 8."""
    later, _ = seal(JOB, Head(7, sealed[1].hash), 3, 1_000, [e.StepFinished("8", "")])
    return [*sealed[:2], *later]


@pytest.mark.parametrize(
    "tampered, breaks_at",
    [
        (_without_third, 4),
        (_renumbered, 3),
        (_swapped, 3),
        (_swapped_in_place, 2),
        (_repeated, 3),
        (_forged, 4),
        (_erased_and_forged, 3),
        (_of_another_journal, 3),
        (_with_a_number_left_out, 8),
        (lambda sealed: sealed[1:], 2),
        (lambda sealed: sealed[::-1], 5),
    ],
)
def test_a_journal_that_was_rearranged_is_found(
    tampered: Callable[[list[SealedEvent]], list[SealedEvent]], breaks_at: int
) -> None:
    """Cut, swap, repeat and forge inside a journal of five events."""
    sealed = sealed_journal([e.StepFinished(str(n), "") for n in range(1, 6)])
    assert find_break(JOB, tampered(sealed)) == breaks_at


def test_a_journal_belongs_to_its_job() -> None:
    """Read a journal as that of another job, also of one whose name runs into the number."""
    sealed = sealed_journal([e.JobCreated("k"), e.JobClaimed("w")])
    assert find_break("job_2", sealed) == 1
    assert find_break("job_1/1", sealed) == 1


def test_only_the_head_knows_where_a_journal_ends() -> None:
    """Cut off the end, or rewrite the last event: the chain alone cannot tell, its head can."""
    events: list[Event] = [e.JobCreated("k"), e.JobClaimed("w"), e.JobFailure("no")]
    sealed, head = seal(JOB, EMPTY, 3, 1_000, events)
    rewritten, other = seal(JOB, EMPTY, 3, 1_000, [*events[:2], e.JobCompleted("yes")])
    assert find_break(JOB, sealed[:2]) is None
    assert find_break(JOB, rewritten) is None
    assert head not in {other, Head(2, sealed[1].hash)}


# ── the golden corpus ─────────────────────────────────────────────────────────────────────────────

CORPUS: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
FENCE, AT = 2**33 + 5, 1_763_243_606_000_001
BEFORE = Head(41, bytes(range(32)))
"""Each event of the corpus lies alone after this head, in the journal of `job_golden`."""


def test_the_corpus_has_every_event_of_this_version() -> None:
    """A new type is added to the corpus when it is made; a new version gets a new corpus and keeps this one."""
    assert {(kind.type, kind.version) for kind in EVENTS.values()} == {
        (entry["type"], entry["version"]) for entry in CORPUS
    }
    assert len(CORPUS) == 2 * len(EVENTS), "each with the fewest fields, and with all of them"


def test_events_written_by_the_first_version_are_read_for_ever() -> None:
    """Open stored bytes: same chain, same meaning, fields that were left out included."""
    for entry in CORPUS:
        body, hash_ = entry["body"].encode(), bytes.fromhex(entry["hash"])
        digest = hashlib.sha256(body).digest()
        sealed = SealedEvent(42, entry["type"], entry["version"], FENCE, AT, body, digest, hash_)
        assert find_break("job_golden", [sealed], BEFORE) is None, entry
        event = unseal(sealed)
        for name, value in entry["fields"].items():
            assert canonical.encode(getattr(event, name)) == canonical.encode(value), (name, entry)


def test_events_are_written_as_by_the_first_version() -> None:
    """Write the same facts again: the same bytes and the same hash."""
    for entry in CORPUS:
        event = msgspec.convert(entry["fields"], EVENTS[entry["type"]])
        (sealed,), head = seal("job_golden", BEFORE, FENCE, AT, [event])
        assert sealed.body == entry["body"].encode(), entry
        assert head == Head(42, bytes.fromhex(entry["hash"])), entry
