"""Ownership of a claim: the token decides, not the clock; and the effect of a takeover."""

from __future__ import annotations

import msgspec

from holdfast.errors import ClaimLost, Fenced
from holdfast.model.inbox import Claim
from holdfast.model.session import TurnCommit
from holdfast.model.time import MINUTE, SECOND
from holdfast.testing.conformance.drafts import batches_in, message
from holdfast.testing.conformance.harness import Bench, present


async def a_claim_that_ran_out_may_be_renewed(bench: Bench) -> None:
    claim = await _let_claim_expire(bench)
    renewed = await bench.store.inbox.renew(claim, MINUTE)
    assert renewed.claim_id == claim.claim_id
    assert await bench.claim(owner="next") is None, "it is live again"


async def a_claim_that_ran_out_may_complete(bench: Bench) -> None:
    claim = await _let_claim_expire(bench)
    await bench.store.sessions.commit(_make_completing_turn(claim))
    assert await bench.list_queued() == [], "nobody had taken it: slow is not wrong"


async def a_claim_that_ran_out_can_be_cancelled(bench: Bench) -> None:
    claim = await _let_claim_expire(bench)
    assert await bench.store.inbox.cancel("root", batches_in(claim)[0]) is not None
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(_make_completing_turn(claim))


async def a_takeover_ends_the_old_owners_renewal(bench: Bench) -> None:
    old, _new = await _take_over_claim(bench)
    async with bench.refuses(ClaimLost):
        await bench.store.inbox.renew(old, MINUTE)


async def a_takeover_ends_the_old_owners_completion(bench: Bench) -> None:
    old, new = await _take_over_claim(bench)
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(_make_completing_turn(old))
    await bench.store.sessions.commit(_make_completing_turn(new))
    assert await bench.list_queued() == [], "the new owner's claim is unharmed"


async def a_takeover_makes_the_old_owners_abandon_harmless(bench: Bench) -> None:
    old, new = await _take_over_claim(bench)
    await bench.store.inbox.abandon(old)
    assert await bench.pending() == [], "the new owner still holds it"
    await bench.store.inbox.renew(new, MINUTE)


async def a_job_that_lost_its_lease_claims_nothing(bench: Bench) -> None:
    """A worker that was paused would otherwise claim input that was sent to its session after its job had ended."""
    old = await bench.drive_new(ttl_us=0)
    new = await bench.drive(old.grant.queue)
    await bench.store.inbox.enqueue(message("one"))
    for fence in (old.grant.fence, new.grant.fence + 1):
        async with bench.refuses(Fenced):
            await bench.claim(owner=old.grant.job_id, fence=fence)
    assert await bench.pending() != [], "nothing was claimed"
    assert await bench.claim(owner=new.grant.job_id, fence=new.grant.fence) is not None


async def an_abandoned_claim_is_over_for_good(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("one"))
    claim = present(await bench.claim(), "a claim")
    await bench.store.inbox.abandon(claim)
    await bench.store.inbox.abandon(claim)
    assert await bench.pending() == [batch.batch_id]
    async with bench.refuses(ClaimLost):
        await bench.store.inbox.renew(claim, MINUTE)
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(_make_completing_turn(claim))


async def a_completed_claim_cannot_be_renewed(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    claim = present(await bench.claim(), "a claim")
    await bench.store.sessions.commit(_make_completing_turn(claim))
    async with bench.refuses(ClaimLost):
        await bench.store.inbox.renew(claim, MINUTE)
    await bench.store.inbox.abandon(claim)
    assert await bench.list_queued() == [], "abandoning what is delivered brings nothing back"


async def a_claim_completes_once(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    claim = present(await bench.claim(), "a claim")
    await bench.store.sessions.commit(_make_completing_turn(claim))
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(_make_completing_turn(claim))


async def a_turn_may_complete_several_claims(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    await bench.store.inbox.enqueue(message("two"))
    claims = [present(await bench.claim(), "a claim") for _ in range(2)]
    completes = tuple(claim.completion() for claim in claims)
    await bench.store.sessions.commit(TurnCommit(session_id="root", completes=completes))
    assert await bench.list_queued() == []


async def one_good_and_one_lost_claim_change_nothing(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    await bench.store.inbox.enqueue(message("two"))
    good = present(await bench.claim(), "the first")
    lost = present(await bench.claim(), "the second")
    await bench.store.inbox.abandon(lost)
    turn = TurnCommit(session_id="root", completes=(good.completion(), lost.completion()))
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(turn)
    await bench.store.inbox.renew(good, MINUTE)


async def a_completion_cannot_name_batches_it_never_claimed(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("claimed"))
    free = await bench.store.inbox.enqueue(message("free"))
    claim = present(await bench.claim(), "the first")
    greedy = msgspec.structs.replace(claim.completion(), batch_ids=(*batches_in(claim), free.batch_id))
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(TurnCommit(session_id="root", completes=(greedy,)))


async def a_turn_cannot_complete_the_inbox_of_another_session(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("theirs", "other"))
    claim = present(await bench.claim("other"), "a claim")
    async with bench.refuses(ClaimLost, "root", "other"):
        await bench.store.sessions.commit(_make_completing_turn(claim))


async def the_same_token_finds_the_same_claim(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    second = await bench.store.inbox.enqueue(message("two"))
    token = bench.fresh("token")
    claim = await bench.claim(token=token)
    assert await bench.claim(token=token) == claim, "asked again after a lost reply, it is one claim"
    assert await bench.pending() == [second.batch_id], "and nothing else was taken"


async def the_same_token_finds_the_same_exact_claim(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("one"))
    token = bench.fresh("token")
    claim = present(await bench.claim_exact([batch.batch_id], token=token), "a claim")
    assert await bench.claim_exact([batch.batch_id], token=token) == claim


async def a_token_whose_claim_ran_out_claims_anew(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("one"))
    token = bench.fresh("token")
    old = present(await bench.claim(ttl_us=0, token=token), "a claim")
    new = present(await bench.claim(token=token), "a new claim")
    assert (new.fence, new.claim_id) != (old.fence, old.claim_id), "only a live claim is found again"
    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(_make_completing_turn(old))


async def a_token_is_good_for_one_session(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("here", "root"))
    there = await bench.store.inbox.enqueue(message("there", "other"))
    token = bench.fresh("token")
    await bench.claim("root", token=token)
    claim = present(await bench.claim("other", token=token), "the other session's batch")
    assert batches_in(claim) == [there.batch_id]


async def _let_claim_expire(bench: Bench) -> Claim:
    await bench.store.inbox.enqueue(message("one"))
    claim = present(await bench.claim(ttl_us=SECOND), "a claim")
    bench.clock.advance(MINUTE)
    return claim


async def _take_over_claim(bench: Bench) -> tuple[Claim, Claim]:
    old = await _let_claim_expire(bench)
    new = present(await bench.claim(owner="next"), "the batch, taken over")
    assert new.fence == old.fence + 1
    return old, new


def _make_completing_turn(claim: Claim) -> TurnCommit:
    return TurnCommit(session_id="root", completes=(claim.completion(),))
