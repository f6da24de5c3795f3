"""A claim takes the earliest ready work in the right company, and a bad draft is refused before it is stored."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidPayload
from holdfast.model.inbox import (
    BY_PAYLOAD,
    NEVER,
    BatchDraft,
    BatchState,
    Boundary,
    Candidate,
    Claim,
    Completion,
    Delivery,
    InboxBatch,
    ItemDraft,
    SlotPolicy,
    check_draft,
    claim_id,
    group,
    select_candidates,
)

EARLIEST, AFTER_COMMIT = Delivery
EXCLUSIVE, JOIN = SlotPolicy
IDLE, INSIDE = Boundary

# ── what a claim takes ────────────────────────────────────────────────────────────────────────────

shapes = st.tuples(
    st.sampled_from(Delivery), st.sampled_from(SlotPolicy), st.sampled_from([NEVER, "group:a"])
)


def queue(*described: tuple[Delivery, SlotPolicy, str]) -> list[Candidate]:
    """Ready batches in enqueue order; numbers have gaps where others were stepped over."""
    return [
        Candidate(f"b{place}", 10 * place, delivery, slot, key, 0)
        for place, (delivery, slot, key) in enumerate(described)
    ]


def taken(candidates: Sequence[Candidate], boundary: Boundary = IDLE, most: int = 10) -> list[str]:
    return [candidate.batch_id for candidate in select_candidates(candidates, boundary, most)]


def lawful(
    chosen: Sequence[Candidate], candidates: Sequence[Candidate], boundary: Boundary, most: int
) -> bool:
    """Whether a claim may hold exactly these, sentence by sentence of the contract."""
    takes_the_earliest_and_skips_nothing = list(chosen) == list(candidates[: len(chosen)])
    respects_the_limit = len(chosen) <= most
    respects_the_boundary = boundary is IDLE or all(one.delivery is EARLIEST for one in chosen)
    exclusive_is_alone = len(chosen) == 1 or all(one.slot is JOIN for one in chosen)
    one_delivery = len({one.delivery for one in chosen}) <= 1
    one_group = len({one.merge_key for one in chosen}) <= 1
    return (
        takes_the_earliest_and_skips_nothing
        and respects_the_limit
        and respects_the_boundary
        and exclusive_is_alone
        and one_delivery
        and one_group
    )


@given(st.lists(shapes, max_size=6), st.sampled_from(Boundary), st.integers(-1, 7))
def test_a_claim_takes_the_most_that_is_lawful(
    described: list[tuple[Delivery, SlotPolicy, str]], boundary: Boundary, most: int
) -> None:
    """Try every subset of a queue and keep the largest lawful one: that, and nothing else, is taken."""
    candidates = queue(*described)
    subsets = (
        subset
        for size in range(len(candidates) + 1)
        for subset in itertools.combinations(candidates, size)
        if subset and lawful(subset, candidates, boundary, most)
    )
    best = max(subsets, key=len, default=())
    assert select_candidates(candidates, boundary, most) == best


def test_an_exclusive_batch_is_alone() -> None:
    """Put an exclusive batch before and behind others."""
    join, alone = (EARLIEST, JOIN, NEVER), (EARLIEST, EXCLUSIVE, NEVER)
    assert taken(queue(alone, join, join)) == ["b0"]
    assert taken(queue(join, join, alone, join)) == ["b0", "b1"]


def test_the_boundary_stops_everything_behind_a_head_that_must_wait() -> None:
    """Inside a turn: a head that waits for the commit is not stepped over, one that does not is taken."""
    now, later = (EARLIEST, JOIN, NEVER), (AFTER_COMMIT, JOIN, NEVER)
    assert taken(queue(later, now, now), INSIDE) == []
    assert taken(queue(later, now, now), IDLE) == ["b0"]
    assert taken(queue(now, later, now), INSIDE) == ["b0"]
    assert taken(queue(later, later), IDLE) == ["b0", "b1"]


def test_groups_do_not_mix_and_never_merge_is_a_group() -> None:
    """Put batches of two groups side by side, and two that never merge."""
    a, b, never = ((EARLIEST, JOIN, key) for key in (group("a"), group("b"), NEVER))
    assert taken(queue(a, a, b, a)) == ["b0", "b1"]
    assert taken(queue(never, never)) == ["b0", "b1"]


def test_the_limit_counts_batches() -> None:
    """Claim with room for none, for one, and for as many as there are."""
    four = queue(*[(EARLIEST, JOIN, NEVER)] * 4)
    assert [len(taken(four, most=most)) for most in (-1, 0, 1, 3, 4, 5)] == [0, 0, 1, 3, 4, 4]
    assert taken([]) == []


# ── names of claims ───────────────────────────────────────────────────────────────────────────────

batch_ids = st.text(st.sampled_from("a.1"), min_size=1, max_size=4)
fences = st.integers(0, 200)


@given(batch_ids, fences, batch_ids, fences)
@example("b", 11, "b1", 1)
@example("b", 1, "b.1", 1)
def test_two_holds_never_share_a_name(one: str, first: int, other: str, second: int) -> None:
    """Name claims of batches whose ids look like claim ids."""
    assert (claim_id(one, first) == claim_id(other, second)) == ((one, first) == (other, second))


def test_a_claim_proves_itself_with_all_its_batches() -> None:
    """Make the proof that a turn commit shows."""
    batches = tuple(
        InboxBatch(
            batch_id=batch_id,
            session_id="s",
            enqueue_seq=1,
            delivery=EARLIEST,
            slot=JOIN,
            merge_key=NEVER,
            source_key=None,
            available_at=0,
            enqueued_at=0,
            state=BatchState.QUEUED,
            items=(),
        )
        for batch_id in ("b1", "b2")
    )
    claim = Claim(
        claim_id="b1.3",
        session_id="s",
        owner="w",
        token="secret",
        fence=3,
        claimed_at=1,
        expires_at=2,
        batches=batches,
    )
    assert claim.completion() == Completion("b1.3", "secret", ("b1", "b2"))


# ── drafts ────────────────────────────────────────────────────────────────────────────────────────

DRAFT = BatchDraft(session_id="s", items=(ItemDraft("turn_input", {"text": "hello"}),))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"merge_key": BY_PAYLOAD},
        {"merge_key": group("a")},
        {"merge_key": group("a:b c")},
        {"source_key": "mail:7", "batch_id": "batch 1", "job_id": "job_1", "available_at": 2**62},
        {"items": (ItemDraft("turn_input", 1), ItemDraft("process_wake", None))},
    ],
)
def test_a_good_draft_is_taken_as_it_is(fields: dict[str, Any]) -> None:
    """Check drafts in every legal form."""
    draft = msgspec.structs.replace(DRAFT, **fields)
    assert check_draft(draft) is draft


@pytest.mark.parametrize(
    "fields, error, word",
    [
        ({"session_id": ""}, InvalidName, "session id"),
        ({"session_id": "a\0b"}, InvalidName, "session id"),
        ({"source_key": ""}, InvalidName, "source key"),
        ({"source_key": "\ud800"}, InvalidName, "source key"),
        ({"batch_id": "a\0b"}, InvalidName, "batch id"),
        ({"job_id": "a\nb"}, InvalidName, "job id"),
        ({"items": ()}, InvalidPayload, "at least one item"),
        ({"items": (ItemDraft("", 1),)}, InvalidName, "item kind"),
        ({"items": (ItemDraft("fine", 1), ItemDraft("a\0b", 1))}, InvalidName, "item kind"),
        ({"merge_key": ""}, InvalidPayload, "merge key ''"),
        ({"merge_key": "Never"}, InvalidPayload, "merge key 'Never'"),
        ({"merge_key": "grp:a"}, InvalidPayload, "merge key 'grp:a'"),
        ({"merge_key": "group:"}, InvalidName, "merge group"),
        ({"merge_key": "group:a\0b"}, InvalidName, "merge group"),
        ({"available_at": 2**63}, InvalidPayload, "available_at"),
        ({"available_at": 1.5}, InvalidPayload, "available_at"),
    ],
)
def test_a_bad_draft_is_refused_with_what_to_change(
    fields: dict[str, Any], error: type[Exception], word: str
) -> None:
    """Check drafts that some database would take and another would choke on."""
    with pytest.raises(error) as caught:
        check_draft(msgspec.structs.replace(DRAFT, **fields))
    assert word in str(caught.value)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 201])
def test_a_group_has_a_name(name: str) -> None:
    """Name a group badly."""
    with pytest.raises(InvalidName, match="merge group"):
        group(name)
