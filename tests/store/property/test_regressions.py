"""Goal: what the machines have found once stays found. Method: the shortest sequence of each, on every store.

Each of these was a difference between stores. Who was right is written in docs/design/store-semantics.md.
"""

from __future__ import annotations

import sys

import msgspec
import pytest

from holdfast.errors import InvalidMove, InvalidName, InvalidPayload, KeyReused, NotFound
from holdfast.model.append import Extras, Move
from holdfast.model.events import JobRequeued, JobWaiting
from holdfast.model.jobs import JobDraft, JobFilter
from holdfast.model.session import SessionMeta, SessionNode, TurnCommit
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import Slot, Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.store.contract import Store
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.sessions import ACTIVE_PATH
from holdfast.testing.conformance import Bench, Check, name_of
from holdfast.testing.conformance.drafts import (
    LARGE,
    batches_in,
    call_row,
    intent_of,
    make_settled_row,
    message,
    node,
    outcome_of,
)
from holdfast.testing.conformance.driver import Driver, step
from holdfast.testing.conformance.harness import checks_in
from tests.store.property.three_stores import Trio
from tests.support.fixtures.stores import STORES

# ── jobs in a session's line ──────────────────────────────────────────────────────────────────────


async def a_job_behind_is_not_claimable_by_any_road(bench: Bench) -> None:
    """Requeued by a ruling, or due by one, it still stands behind."""
    front, requeued, due = await _line(bench, 3)
    await bench.store.journal.hold(requeued, lambda _: Ruling((JobRequeued(),), Move(status=Status.PENDING)))
    timer = Move(status=Status.WAITING, reason=WaitReason.TIMER, wake_at=1)
    await bench.store.journal.hold(due, lambda _: Ruling((JobWaiting(reason="timer"),), timer))
    assert await bench.claimable(limit=10) == [front]


async def a_joined_job_that_is_due_can_move_up(bench: Bench) -> None:
    front, behind = await _line(bench, 2)
    joined = Move(status=Status.WAITING, reason=WaitReason.JOINED, wake_at=1)
    await bench.store.journal.hold(behind, lambda _: Ruling((JobWaiting(reason="joined"),), joined))
    driver = await _drive(bench)
    assert driver.job_id == front
    await driver.complete()
    head = await bench.store.jobs.head(behind)
    assert (head.status, head.wait_reason, head.wake_at) == (Status.PENDING, None, None)


async def the_line_moves_up_before_a_last_child_joins_it(bench: Bench) -> None:
    """A child that a job starts with its last word stands behind those who were there, however old it says it is."""
    front, behind = await _line(bench, 2)
    child = JobDraft(kind="child", session_id="root", job_id="child", parent_job_id=front, ready_at=1)
    await (await _drive(bench)).complete(extras=Extras(children=(child,)))
    heads = [await bench.store.jobs.head(job_id) for job_id in (behind, "child")]
    assert [head.session_slot for head in heads] == [Slot.LIVE, Slot.BEHIND]


# ── moves, children, batches ──────────────────────────────────────────────────────────────────────


async def a_move_must_fit_a_head(bench: Bench) -> None:
    driver = await bench.drive_new()
    for move in (
        Move(status=Status.RUNNING),
        Move(status=Status.WAITING),
        Move(status=Status.PENDING, reason=WaitReason.TIMER),
        Move(status=Status.COMPLETED, wake_at=1),
    ):
        async with bench.refuses(InvalidMove):
            await driver.write(step("one"), move=move)


async def a_ruling_must_fit_a_head(bench: Bench) -> None:
    job_id = await bench.submit()
    for move in (Move(status=Status.WAITING), Move(status=Status.CANCELLED, reason=WaitReason.TIMER)):
        ruling = Ruling((JobRequeued(),), move)
        async with bench.refuses(InvalidMove):
            await bench.store.journal.hold(job_id, lambda _, ruling=ruling: ruling)  # type: ignore[misc]


async def a_child_is_checked_like_any_job(bench: Bench) -> None:
    driver = await bench.drive_new()
    child = JobDraft(kind="child", job_id="child", priority=11)
    async with bench.refuses(InvalidPayload):
        await driver.write(step("one"), extras=Extras(children=(child,)))


async def a_child_needs_its_id(bench: Bench) -> None:
    driver = await bench.drive_new()
    async with bench.refuses(InvalidMove):
        await driver.write(step("one"), extras=Extras(children=(JobDraft(kind="child"),)))


async def a_parent_lives_in_the_same_namespace(bench: Bench) -> None:
    await bench.store.namespaces.create("other")
    parent = await bench.submit()
    for draft in (
        JobDraft(kind="child", parent_job_id="nobody"),
        JobDraft(kind="child", parent_job_id=parent, namespace="other"),
    ):
        async with bench.refuses(InvalidMove):
            await bench.store.jobs.submit(draft)


async def no_job_is_its_own_parent(bench: Bench) -> None:
    async with bench.refuses(InvalidPayload):
        await bench.store.jobs.submit(JobDraft(kind="work", job_id="self", parent_job_id="self"))


async def appends_of_one_call_are_of_different_jobs(bench: Bench) -> None:
    driver = await bench.drive_new()
    async with bench.refuses(InvalidMove):
        await bench.store.journal.append_many([driver.build(step("one")), driver.build(step("two"))])


# ── requests ──────────────────────────────────────────────────────────────────────────────────────


async def a_job_id_taken_elsewhere_tells_nothing_of_it(bench: Bench) -> None:
    await bench.store.namespaces.create("other")
    draft = JobDraft(kind="work", job_id="taken")
    await bench.store.jobs.submit(draft)
    async with bench.refuses(KeyReused) as refusal:
        await bench.store.jobs.submit(msgspec.structs.replace(draft, namespace="other"))
    assert (refusal.error.stored, len(refusal.error.sent)) == ("", 64), (
        "whose it is, another namespace does not learn"
    )


async def an_unknown_namespace_is_told_before_a_taken_id(bench: Bench) -> None:
    await bench.store.jobs.submit(JobDraft(kind="work", job_id="taken"))
    async with bench.refuses(NotFound):
        await bench.store.jobs.submit(JobDraft(kind="work", job_id="taken", namespace="nowhere"))


async def many_drafts_are_checked_before_any_is_looked_up(bench: Bench) -> None:
    await bench.store.jobs.submit(JobDraft(kind="work", job_id="taken"))
    drafts = [JobDraft(kind="other", job_id="taken"), JobDraft(kind="work", priority=0)]
    async with bench.refuses(InvalidPayload):
        await bench.store.jobs.submit_many(drafts)


async def a_page_of_nothing_leads_nowhere(bench: Bench) -> None:
    await bench.submit()
    page = await bench.store.jobs.list(JobFilter(), limit=0)
    assert (page.items, page.next) == ((), None)


async def a_token_finds_the_grants_of_its_own_worker(bench: Bench) -> None:
    """Two workers that use one token by mistake must never drive one job."""
    first, second = await bench.submit(), await bench.submit()
    assert await bench.claimable(worker="one", token="same", limit=1) == [first]
    assert await bench.claimable(worker="two", token="same", limit=1) == [second]
    assert await bench.claimable(worker="one", token="same", limit=1) == [first]


# ── the ledger ────────────────────────────────────────────────────────────────────────────────────


async def a_job_writes_its_own_ledger_only(bench: Bench) -> None:
    mine, other = await bench.drive_new(), await bench.drive_new()
    row = call_row(other, "1/send#1")
    async with bench.refuses(InvalidMove):
        await mine.write(intent_of(row), extras=Extras(calls=(row,)))


async def what_was_called_stays_when_the_call_moves_on(bench: Bench) -> None:
    driver = await bench.drive_new()
    row = call_row(driver, "1/send#1")
    await driver.write(intent_of(row), extras=Extras(calls=(row,)))
    bench.clock.advance(MINUTE)
    done = make_settled_row(driver, row, CallStatus.SUCCEEDED)
    odd = msgspec.structs.replace(
        done, tool_name="printer", tool_call_id="another", intent_seq=9, prepared_at=9
    )
    await driver.write(outcome_of(odd), extras=Extras(calls=(odd,)))
    assert await bench.store.ledger.find(driver.job_id, "1/send#1") == done


async def a_call_id_belongs_to_one_call(bench: Bench) -> None:
    driver = await bench.drive_new()
    first = call_row(driver, "1/send#1")
    await driver.write(intent_of(first), extras=Extras(calls=(first,)))
    second = msgspec.structs.replace(call_row(driver, "2/send#1"), tool_call_id=first.tool_call_id)
    async with bench.refuses(InvalidMove):
        await driver.write(intent_of(second), extras=Extras(calls=(second,)))


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


async def a_circle_of_parents_is_walked_once(bench: Bench) -> None:
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a"), node("b", "a"))))
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a", "b"),)))
    graph = (await bench.load(scope=ACTIVE_PATH)).graph
    assert [found.node_id for found in graph.nodes] == ["b", "a"]


async def a_named_leaf_is_taken_by_its_name(bench: Bench) -> None:
    """Also one that names no node: only None means the last."""
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("a"),), leaf_node_id=""))
    assert (await bench.load()).graph.leaf_node_id == ""


async def a_turn_makes_no_older_body_young(bench: Bench) -> None:
    large = SessionNode(node_id="large", body=LARGE)
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(large,)))
    bench.clock.advance(MINUTE)
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("small"),)))
    await bench.store.sessions.commit(TurnCommit(session_id="root", nodes=(node("small"),), replace=True))
    assert (await bench.store.sessions.gc(older_than_us=MINUTE)).deleted == 1


async def metadata_need_a_session_id(bench: Bench) -> None:
    async with bench.refuses(InvalidName):
        await bench.store.sessions.save_meta(SessionMeta(session_id=""))


async def an_exact_claim_may_name_a_batch_twice(bench: Bench) -> None:
    batch = await bench.store.inbox.enqueue(message("one"))
    claim = await bench.claim_exact([batch.batch_id, batch.batch_id])
    assert claim is not None
    assert batches_in(claim) == [batch.batch_id]


async def an_intent_is_never_born_committed(bench: Bench) -> None:
    intent = AttachmentIntent("a", "root", "file:a", intent_at=1, committed_at=1)
    await bench.store.attachments.record_intent(intent)
    uncommitted = await bench.store.attachments.list_uncommitted(2)
    assert [found.attachment_id for found in uncommitted] == ["a"]


# ── how they run ──────────────────────────────────────────────────────────────────────────────────


async def _line(bench: Bench, length: int) -> list[str]:
    """Jobs of one session, the live one first."""
    return [await bench.submit(session_id="root") for _ in range(length)]


async def _drive(bench: Bench) -> Driver:
    (grant,) = await bench.grants(limit=1)
    return bench.driver(grant)


class Side:
    """One store of the trio, as a bench wants it."""

    durable = False

    def __init__(self, trio: Trio, name: str) -> None:
        self.name = name
        self.store: Store = getattr(trio, name)
        self.tier = self.store.tier
        self.clock = trio.clock.hands

    async def open(self) -> Store:
        return self.store

    async def reopen(self, store: Store) -> Store:
        return store


@pytest.mark.parametrize("check", checks_in(sys.modules[__name__]), ids=name_of)
@pytest.mark.parametrize("name", STORES)
def test_found(trio: Trio, name: str, check: Check) -> None:
    trio.reset()
    side = Side(trio, name)
    trio.run(check(Bench(side, side.store)))
