"""Checks of the document for claims: which batches, which of them together, for how long, and what a claim allows."""

from __future__ import annotations

from holdfast.errors import ClaimLost
from holdfast.model.inbox import Boundary, group
from holdfast.model.session import TurnCommit
from holdfast.model.time import DAY, MINUTE
from holdfast.testing.conformance.drafts import AFTER_COMMIT, JOIN, batches_in, message
from holdfast.testing.conformance.harness import HANDLE, Bench, present
from holdfast.testing.conformance.seed_004.inbox import make_stale

INSIDE = Boundary.ACTIVE_TURN_CHECKPOINT


async def queued_work_exact_claim_uses_selected_batch_ids(bench: Bench) -> None:
    first = await bench.store.inbox.enqueue(message("first", delivery=AFTER_COMMIT))
    second = await bench.store.inbox.enqueue(message("second", delivery=AFTER_COMMIT))

    assert await bench.claim_exact([second.batch_id]) is None, "nobody reaches past the earliest batch"
    assert await bench.pending() == [first.batch_id, second.batch_id], "a refused claim takes nothing"
    claim = present(await bench.claim_exact([first.batch_id]), "a claim on the first batch")
    assert batches_in(claim) == [first.batch_id]
    assert await bench.pending() == [second.batch_id]


async def queued_work_claims_respect_boundaries_renewal_and_abandon(bench: Bench) -> None:
    inbox = bench.store.inbox
    later = await inbox.enqueue(message("after the turn", delivery=AFTER_COMMIT))
    soon = await inbox.enqueue(message("as soon as possible"))

    assert await bench.claim(owner="a", boundary=INSIDE) is None, (
        "a head that waits for the commit stops the rest"
    )
    idle = present(await bench.claim(owner="a"), "between turns the head can be taken")
    assert batches_in(idle) == [later.batch_id], "an exclusive batch comes alone"
    inside = present(await bench.claim(owner="b", boundary=INSIDE), "what follows a head that is taken")
    assert batches_in(inside) == [soon.batch_id]

    await inbox.abandon(idle)
    taken = present(await bench.claim(owner="c"), "what was given back")
    assert batches_in(taken) == [later.batch_id]
    assert taken.fence > idle.fence, "every claim of a batch has a larger fence than the one before"

    renewed = await inbox.renew(taken, MINUTE)
    assert renewed.claim_id == taken.claim_id, "a renewed claim is the same claim"
    assert renewed.token == taken.token
    assert batches_in(renewed) == batches_in(taken)
    assert renewed.expires_at >= taken.expires_at


async def queued_work_respects_availability_limits_exclusivity_reclaim_and_sessions(bench: Bench) -> None:
    await _unavailable_is_stepped_over_and_exclusive_comes_alone(bench)
    await _a_claim_that_ran_out_can_be_taken_over(bench)
    await _the_limit_cuts_the_company(bench)


async def _unavailable_is_stepped_over_and_exclusive_comes_alone(bench: Bench) -> None:
    inbox = bench.store.inbox
    await inbox.enqueue(message("not yet", available_at=bench.clock.wall_us() + 365 * DAY))
    alone = await inbox.enqueue(message("alone"))
    joining = await inbox.enqueue(message("joining", slot=JOIN, merge_key=group("root")))
    elsewhere = await inbox.enqueue(message("elsewhere", "other"))

    claim = present(await bench.claim(owner="a"), "the first batch that is available")
    assert batches_in(claim) == [alone.batch_id], "alone, and past what is not available yet"
    claim = present(await bench.claim(owner="b"), "the batch behind it")
    assert batches_in(claim) == [joining.batch_id]
    claim = present(await bench.claim("other", owner="c"), "the other session's batch")
    assert batches_in(claim) == [elsewhere.batch_id], "claims in one session take nothing from another"


async def _a_claim_that_ran_out_can_be_taken_over(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("hot potato", "reclaim"))
    over = present(
        await bench.claim("reclaim", owner="a", ttl_us=0, max_batches=1), "a claim that is over at once"
    )
    taken = present(await bench.claim("reclaim", owner="b", max_batches=1), "the same batch, taken over")
    assert batches_in(taken) == [batch.batch_id]
    assert taken.fence > over.fence, "a takeover raises the fence"


async def _the_limit_cuts_the_company(bench: Bench) -> None:
    first, second, third = [
        await bench.store.inbox.enqueue(message(text, "limited", slot=JOIN, merge_key=group("limited")))
        for text in ("one", "two", "three")
    ]
    claim = present(await bench.claim("limited", max_batches=2), "as many as asked for")
    assert batches_in(claim) == [first.batch_id, second.batch_id], (
        "no more than the limit, though a third would fit"
    )
    rest = present(await bench.claim("limited", owner="next"), "what is left")
    assert batches_in(rest) == [third.batch_id]


async def queued_work_join_groups_by_delivery_policy_and_merge_key(bench: Bench) -> None:
    inbox = bench.store.inbox
    first = await inbox.enqueue(message("a, one", slot=JOIN, merge_key=group("a")))
    second = await inbox.enqueue(message("a, two", slot=JOIN, merge_key=group("a")))
    other_group = await inbox.enqueue(message("b", slot=JOIN, merge_key=group("b")))
    other_time = await inbox.enqueue(
        message("a, later", delivery=AFTER_COMMIT, slot=JOIN, merge_key=group("a"))
    )

    claim = present(await bench.claim(owner="a"), "the first group")
    assert batches_in(claim) == [first.batch_id, second.batch_id], "neighbours of one group and one delivery"
    claim = present(await bench.claim(owner="b"), "the second group")
    assert batches_in(claim) == [other_group.batch_id], "another group is other company"
    claim = present(await bench.claim(owner="c"), "the last batch")
    assert batches_in(claim) == [other_time.batch_id], "and so is another delivery"


async def queued_work_completion_is_lease_guarded(bench: Bench) -> None:
    drafts = [message(text, slot=JOIN, merge_key=group("joined")) for text in ("one", "two")]
    both = [(await bench.store.inbox.enqueue(draft)).batch_id for draft in drafts]
    claim = present(await bench.claim(owner="a"), "both batches")
    assert batches_in(claim) == both

    async with bench.refuses(ClaimLost):
        await bench.store.sessions.commit(
            TurnCommit(session_id="root", completes=(make_stale(claim),)), handle=HANDLE
        )
    assert await bench.list_queued() == both, "a stale token completes nothing"
    await bench.store.sessions.commit(
        TurnCommit(session_id="root", completes=(claim.completion(),)), handle=HANDLE
    )
    assert await bench.list_queued() == [], "the right one completes all of it"
