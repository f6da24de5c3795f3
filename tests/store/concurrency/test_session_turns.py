"""Turns and inputs of one session from several handles at once."""

from __future__ import annotations

import asyncio
import functools

import pytest

from holdfast.errors import ClaimLost, HeadMoved
from holdfast.model.inbox import Boundary, Claim, Completion
from holdfast.model.session import CommitResult, TurnCommit, stamp_commit
from holdfast.model.time import MINUTE
from holdfast.store.contract import Store
from holdfast.testing.conformance.drafts import message, node
from tests.store.concurrency.stores import BOTH, Place, crew, fresh, kinds, opened, together

HANDLES = 3
ROUNDS = [20, pytest.param(1000, marks=[pytest.mark.chaos, pytest.mark.timeout(900)])]


async def _commit(store: Store, turn: TurnCommit) -> CommitResult:
    return await store.sessions.commit(turn)


async def _claim(store: Store, session: str) -> Claim | None:
    return await store.inbox.claim(
        session, "owner", Boundary.IDLE, ttl_us=MINUTE, max_batches=3, token=fresh("token")
    )


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_the_same_turn_from_several_handles_is_one_revision(place: Place, rounds: int) -> None:
    """Goal: a stamped turn is committed once and every sender hears so. Method: three handles send it at the same time,
    built on the same head; two of them find it moved by the very turn they carry."""
    session = fresh("session")
    async with opened(place) as store, crew(place, HANDLES) as hands:
        for number in range(rounds):
            turn = TurnCommit(session_id=session, nodes=(node(f"n{number}"),), expected_revision=number)
            commit = functools.partial(_commit, turn=stamp_commit(turn, f"turn-{number}"))
            outcomes = await asyncio.gather(*(hand.do(commit) for hand in hands))
            assert {outcome.revision for outcome in outcomes} == {number + 1}
            assert [outcome.replayed for outcome in outcomes].count(False) == 1
        view = await store.sessions.load(session)
        assert view is not None
        assert (view.revision, len(view.graph.nodes)) == (rounds, rounds)


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_of_several_turns_on_one_head_one_is_next(place: Place, rounds: int) -> None:
    """Goal: a session advances by one turn at a time. Method: three handles send different turns built on one head; one
    is committed, the others are told that the head moved."""
    session = fresh("session")
    async with crew(place, HANDLES) as hands:
        for number in range(rounds):
            turns = [
                stamp_commit(TurnCommit(session_id=session, expected_revision=number), f"turn-{number}-{who}")
                for who in range(HANDLES)
            ]
            outcomes = await together(
                *(
                    hand.do(functools.partial(_commit, turn=turn))
                    for hand, turn in zip(hands, turns, strict=True)
                )
            )
            assert sorted(kinds(outcomes)) == ["CommitResult", "HeadMoved", "HeadMoved"]
            assert {error.actual for error in outcomes if isinstance(error, HeadMoved)} == {number + 1}


@pytest.mark.parametrize("place", BOTH, indirect=True)
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_an_input_is_used_by_one_turn(place: Place, rounds: int) -> None:
    """Goal: no batch is claimed twice and none is lost between claim and commit. Method: three handles claim from one
    inbox and each commits a turn that completes what it got, while new messages arrive."""
    session = fresh("session")
    used: list[str] = []
    sent: list[str] = []

    async def work(store: Store) -> None:
        for _ in range(rounds):
            batch = await store.inbox.enqueue(message("hello", session))
            sent.append(batch.batch_id)
            held = await _claim(store, session)
            if held is None:
                continue
            ids = tuple(batch.batch_id for batch in held.batches)
            done = Completion(held.claim_id, held.token, ids)
            try:
                await _commit(
                    store, stamp_commit(TurnCommit(session_id=session, completes=(done,)), fresh("turn"))
                )
            except ClaimLost as lost:
                raise AssertionError("nobody took it, and it was lost") from lost
            used.extend(ids)

    async with opened(place) as store, crew(place, HANDLES) as hands:
        await asyncio.gather(*(hand.do(work) for hand in hands))
        left = [batch.batch_id for batch in await store.inbox.list(session)]
        assert len(set(used)) == len(used), "a batch was used twice"
        assert sorted(used + left) == sorted(sent), "a batch was lost"
        view = await store.sessions.load(session)
        assert view is not None
        assert view.revision == len(used), "each turn used one"
