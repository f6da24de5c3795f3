"""Inbox claims: which batches a claim takes, and when it ends."""

from __future__ import annotations

from holdfast.model.inbox import Boundary, claim_id, group
from holdfast.model.time import DAY, MINUTE, SECOND
from holdfast.testing.conformance.drafts import AFTER_COMMIT, JOIN, batches_in, message
from holdfast.testing.conformance.harness import Bench, present

INSIDE = Boundary.ACTIVE_TURN_CHECKPOINT


async def never_merge_joins_do_join(bench: Bench) -> None:
    both = [(await bench.store.inbox.enqueue(message(text, slot=JOIN))).batch_id for text in ("one", "two")]
    claim = present(await bench.claim(), "a claim")
    assert batches_in(claim) == both, "the key separates groups, it does not forbid company"


async def company_ends_at_an_exclusive_batch(bench: Bench) -> None:
    first, *_ = await _enqueue_joins(bench, "one")
    alone = await bench.store.inbox.enqueue(message("alone", merge_key=group("g")))
    await _enqueue_joins(bench, "two")
    assert batches_in(present(await bench.claim(), "a claim")) == [first], "though it has the same key"
    assert batches_in(present(await bench.claim(), "a claim")) == [alone.batch_id], "nobody joins it either"


async def company_steps_over_what_somebody_holds(bench: Bench) -> None:
    first, second, third = await _enqueue_joins(bench, "one", "two", "three")
    returned = present(await bench.claim(owner="a", max_batches=1), "the first")
    second_claim = present(await bench.claim(owner="b", max_batches=1), "the second")
    assert batches_in(second_claim) == [second]
    await bench.store.inbox.abandon(returned)
    assert batches_in(present(await bench.claim(owner="c"), "the rest")) == [first, third]


async def company_steps_over_what_is_not_available_yet(bench: Bench) -> None:
    later = bench.clock.wall_us() + MINUTE
    [first] = await _enqueue_joins(bench, "one")
    await bench.store.inbox.enqueue(message("later", slot=JOIN, merge_key=group("g"), available_at=later))
    [third] = await _enqueue_joins(bench, "three")
    assert batches_in(present(await bench.claim(), "what is available")) == [first, third]


async def a_batch_is_available_from_its_instant_on(bench: Bench) -> None:
    due = bench.clock.wall_us() + MINUTE
    batch = await bench.store.inbox.enqueue(message("later", available_at=due))
    assert await bench.claim() is None
    assert await bench.pending() == [batch.batch_id], "waiting for its time, it can still be edited"
    bench.clock.advance(MINUTE - 1)
    assert await bench.claim() is None, "a microsecond early is early"
    bench.clock.advance(1)
    assert batches_in(present(await bench.claim(), "the batch")) == [batch.batch_id]


async def a_jump_of_the_wall_clock_makes_nothing_available(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("tomorrow", available_at=bench.store.clock.wall_us() + DAY))
    bench.clock.jump_wall(2 * DAY)
    assert await bench.claim() is None
    bench.clock.jump_wall(-3 * DAY)
    bench.clock.advance(DAY)
    assert await bench.claim() is not None


async def the_gate_stops_everything_behind_it(bench: Bench) -> None:
    await bench.store.inbox.enqueue(message("after the turn", delivery=AFTER_COMMIT))
    soon = await bench.store.inbox.enqueue(message("soon"))
    assert await bench.claim(boundary=INSIDE) is None
    assert await bench.claim_exact([soon.batch_id], boundary=INSIDE) is None, "naming it does not help"


async def the_gate_is_not_shut_by_what_is_not_available_yet(bench: Bench) -> None:
    later = bench.clock.wall_us() + MINUTE
    await bench.store.inbox.enqueue(message("after the turn", delivery=AFTER_COMMIT, available_at=later))
    soon = await bench.store.inbox.enqueue(message("soon"))
    assert batches_in(present(await bench.claim(boundary=INSIDE), "a claim")) == [soon.batch_id]


async def zero_batches_is_no_claim(bench: Bench) -> None:
    [batch] = await _enqueue_joins(bench, "one")
    assert await bench.claim(max_batches=0) is None
    assert await bench.claim_exact([]) is None
    claim = present(await bench.claim(), "a claim")
    assert (batches_in(claim), claim.claim_id) == ([batch], claim_id(batch, claim.fence))


async def an_empty_queue_is_no_claim(bench: Bench) -> None:
    assert await bench.claim("never heard of") is None
    assert await bench.store.inbox.list("never heard of") == []


async def a_refused_exact_claim_burns_no_fence(bench: Bench) -> None:
    first = await bench.store.inbox.enqueue(message("first"))
    second = await bench.store.inbox.enqueue(message("second"))
    before = present(await bench.claim(), "a claim")
    await bench.store.inbox.abandon(before)
    for wrong in ([second.batch_id], [first.batch_id, second.batch_id], ["nothing"], []):
        assert await bench.claim_exact(wrong) is None
    after = present(await bench.claim(), "a claim")
    assert after.fence == before.fence + 1, "only claims that were made count"


async def an_exact_claim_takes_precisely_the_company(bench: Bench) -> None:
    first, second, third = await _enqueue_joins(bench, "one", "two", "three")
    assert await bench.claim_exact([first, third]) is None, "company has no gaps"
    claim = present(await bench.claim_exact([first, second]), "a claim on two of three")
    assert batches_in(claim) == [first, second]


async def every_batch_counts_its_own_fence(bench: Bench) -> None:
    first, second = await _enqueue_joins(bench, "one", "two")
    alone = present(await bench.claim(max_batches=1), "the first alone")
    await bench.store.inbox.abandon(alone)
    both = present(await bench.claim(), "both")
    assert both.fence == alone.fence + 1, "a claim has the fence of its first batch"
    await bench.store.inbox.abandon(both)
    await bench.store.inbox.cancel("root", first)
    claim = present(await bench.claim(), "the second alone")
    assert batches_in(claim) == [second]
    assert claim.fence == alone.fence + 1, "the second batch was claimed twice, not three times"


async def a_claim_lasts_until_its_last_microsecond(bench: Bench) -> None:
    await _enqueue_joins(bench, "one")
    claim = present(await bench.claim(ttl_us=SECOND), "a claim")
    assert claim.expires_at == bench.clock.tick_us() + SECOND
    bench.clock.advance(SECOND - 1)
    assert await bench.claim(owner="next") is None
    assert await bench.pending() == []
    bench.clock.advance(1)
    assert len(await bench.pending()) == 1, "over is over, also before somebody takes it"
    assert await bench.claim(owner="next") is not None


async def a_claim_of_no_duration_is_over_at_once(bench: Bench) -> None:
    [batch] = await _enqueue_joins(bench, "one")
    assert await bench.claim(ttl_us=0) is not None
    assert await bench.pending() == [batch]


async def a_renewed_claim_lasts_from_now(bench: Bench) -> None:
    await _enqueue_joins(bench, "one")
    claim = present(await bench.claim(ttl_us=MINUTE), "a claim")
    bench.clock.advance(MINUTE - 1)
    renewed = await bench.store.inbox.renew(claim, MINUTE)
    assert renewed.expires_at == bench.clock.tick_us() + MINUTE
    assert (renewed.fence, renewed.batches) == (claim.fence, claim.batches)
    bench.clock.advance(MINUTE - 1)
    assert await bench.claim(owner="next") is None


async def a_jump_of_the_wall_clock_ends_no_claim(bench: Bench) -> None:
    await _enqueue_joins(bench, "one")
    await bench.claim()
    for days in (1, -2):
        bench.clock.jump_wall(days * DAY)
        assert await bench.pending() == []
        assert await bench.claim(owner="next") is None


async def a_reboot_ends_claims(bench: Bench) -> None:
    [batch] = await _enqueue_joins(bench, "one")
    claim = present(await bench.claim(ttl_us=DAY), "a claim")
    bench.reboot()
    assert await bench.pending() == [batch], "whoever held it did not survive"
    taken = present(await bench.claim(owner="next"), "the batch, taken over")
    assert taken.fence == claim.fence + 1


async def _enqueue_joins(bench: Bench, *texts: str) -> list[str]:
    """The ids of new batches that may join others."""
    drafts = [message(text, slot=JOIN, merge_key=group("g")) for text in texts]
    return [(await bench.store.inbox.enqueue(draft)).batch_id for draft in drafts]
