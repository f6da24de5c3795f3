"""The memory store on its own: a few facts per port, and that a refusal leaves nothing behind.

The contract as a whole is asserted on every store by `holdfast.testing.conformance`; these tests only make sure that a
failure there can be told apart from a mistake in the model it is compared with.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib

import msgspec
import pytest

from holdfast.errors import (
    Broken,
    ClaimLost,
    Fenced,
    HeadMoved,
    HoldfastError,
    InvalidMove,
    InvalidPayload,
    KeyReused,
    MailWaiting,
    NotFound,
    SessionBound,
    TooLarge,
    TurnConflict,
)
from holdfast.model import events as e
from holdfast.model import lease
from holdfast.model.append import NOTHING, Append, Extras, Holder, Move, Timer, append_of
from holdfast.model.hash_chain import Head, find_break, unseal
from holdfast.model.ids import SequentialIds
from holdfast.model.inbox import (
    BatchDraft,
    BatchState,
    Boundary,
    Candidate,
    Claim,
    Delivery,
    ItemDraft,
    SlotPolicy,
    group,
    select_candidates,
)
from holdfast.model.jobs import JobDraft, JobFilter, JobHead
from holdfast.model.lease import Grant
from holdfast.model.ledger import CallRow
from holdfast.model.limits import BLOB_BYTES_MAX, PAYLOAD_INLINE_BYTES
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import (
    CollectionResult,
    Frame,
    SessionCheckpoint,
    SessionMeta,
    SessionNode,
    TurnCommit,
    Usage,
    stamp_commit,
)
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Slot, Status, WaitReason
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store, Tier
from holdfast.store.memory.inbox import _take
from holdfast.store.memory.state import BatchRow, MemoryState, Tables
from holdfast.store.memory.store import MemoryStore
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.leases import ClaimRequest, HeldLease
from holdfast.store.ports.sessions import ACTIVE_PATH, SessionScope

pytestmark = pytest.mark.store("memory")

SECOND = 1_000_000
TOKEN = "t1"
LARGE = "x" * (PAYLOAD_INLINE_BYTES + 1)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> Store:
    return MemoryStore(clock, SequentialIds())


def snapshot(store: Store) -> Tables:
    """Everything the store knows; equal before and after a refusal."""
    state: MemoryState = store.jobs._state  # type: ignore[attr-defined]
    return copy.deepcopy(state.tables)


async def claim(store: Store, token: str = TOKEN, *, limit: int = 1, by_age: bool = False) -> list[Grant]:
    ask = ClaimRequest(worker="w1", token=token, queues=("default",), limit=limit, by_age=by_age)
    return await store.leases.claim(ask)


async def running(
    store: Store, job_id: str = "a", token: str = TOKEN, session_id: str | None = None
) -> Holder:
    """A submitted and claimed job, as its holder knows it."""
    await store.jobs.submit(JobDraft(kind="k", job_id=job_id, session_id=session_id))
    (grant,) = await claim(store, token)
    assert grant.job_id == job_id
    return holder_of(grant)


def holder_of(grant: Grant) -> Holder:
    head = Head(grant.head_seq, grant.head_hash)
    return Holder(grant.job_id, grant.namespace, grant.fence, grant.lease_token, head)


def completion(holder: Holder, extras: Extras = NOTHING) -> Append:
    done = Move(status=Status.COMPLETED)
    return append_of(holder, [e.JobCompleted(output=1)], at=1, move=done, extras=extras)


def call(
    status: CallStatus = CallStatus.PREPARED, *, step: str = "s", key: str = "hf_1", args: str = "aa"
) -> CallRow:
    return CallRow(
        tool_call_id=f"call_{step}",
        job_id="a",
        step_key=step,
        tool_name="pay",
        raw_tool_name="pay",
        side_effect_class=Effect.UNSAFE,
        status=status,
        idempotency_key=key,
        args_digest=args,
    )


def batch(batch_id: str, *, session_id: str = "s", **fields: object) -> BatchDraft:
    draft = BatchDraft(
        session_id=session_id, batch_id=batch_id, items=(ItemDraft("turn_input", {"text": batch_id}),)
    )
    return msgspec.structs.replace(draft, **fields)


async def claim_inbox(
    store: Store, token: str = TOKEN, *, ttl_us: int = SECOND, most: int = 10
) -> Claim | None:
    return await store.inbox.claim("s", "w1", Boundary.IDLE, ttl_us=ttl_us, max_batches=most, token=token)


def ids_of(held: Claim | None) -> list[str]:
    return [] if held is None else [batch.batch_id for batch in held.batches]


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_store_says_what_it_is(store: Store) -> None:
    info = await store.info()
    assert (info.tier, info.address, info.epoch, info.schema_version) == (Tier.MEMORY, "memory:", 1, 0)
    assert info.store_id
    await store.close()
    await store.close()


async def test_namespaces_are_made_once_and_needed(store: Store) -> None:
    before = snapshot(store)
    for refused in (
        store.jobs.submit(JobDraft(kind="k", namespace="other")),
        store.inbox.enqueue(batch("b1"), namespace="other"),
        store.sessions.commit(TurnCommit(session_id="s"), namespace="other"),
        store.sessions.save_meta(SessionMeta(session_id="s"), namespace="other"),
        store.blobs.put(b"", namespace="other"),
        store.attachments.record_intent(AttachmentIntent("a1", "s", "file:", 1), namespace="other"),
    ):
        with pytest.raises(NotFound):
            await refused
    assert snapshot(store) == before
    assert await store.namespaces.create("other")
    assert not await store.namespaces.create("other")
    assert [record.namespace for record in await store.namespaces.list()] == ["default", "other"]


# ── jobs ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_request_makes_one_job(store: Store, clock: VirtualClock) -> None:
    first = await store.jobs.submit(JobDraft(kind="k", input={"n": 1}, request_key="r"))
    again = await store.jobs.submit(JobDraft(kind="k", input={"n": 1}, request_key="r", job_id="other"))
    assert (first.created, again.created, again.job_id) == (True, False, first.job_id)
    head = await store.jobs.head(first.job_id)
    assert (head.status, head.fence, head.ready_at) == (Status.PENDING, lease.floor(1), clock.wall_us())
    (created,) = await store.journal.read(first.job_id)
    assert unseal(created) == e.JobCreated(kind="k", input={"n": 1}, request_key="r")
    with pytest.raises(KeyReused):
        await store.jobs.submit(JobDraft(kind="k", input={"n": 2}, request_key="r"))
    found = await store.jobs.find("default", "r")
    assert found == await store.jobs.get(first.job_id)


async def test_many_jobs_are_submitted_all_or_none(store: Store) -> None:
    before = snapshot(store)
    with pytest.raises(InvalidPayload):
        await store.jobs.submit_many([JobDraft(kind="k"), JobDraft(kind="k", input=float("nan"))])
    assert snapshot(store) == before


async def test_jobs_are_listed_newest_first_in_pages(store: Store) -> None:
    made = [(await store.jobs.submit(JobDraft(kind="k"))).job_id for _ in range(5)]
    await store.jobs.submit(JobDraft(kind="other"))
    seen: list[str] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = await store.jobs.list(JobFilter(kind="k"), limit=2, cursor=cursor)
        seen += [record.job_id for record in page]
        cursor, pages = page.next, pages + 1
    assert (seen, pages) == (made[::-1], 3)


async def test_one_job_of_a_session_is_live(store: Store) -> None:
    holder = await running(store, "a", session_id="s")
    await store.jobs.submit(JobDraft(kind="k", job_id="c", session_id="s"))
    await store.jobs.submit(JobDraft(kind="k", job_id="b", session_id="s"))
    behind = await store.jobs.head("b")
    assert (behind.status, behind.wait_reason, behind.session_slot) == (
        Status.WAITING,
        WaitReason.JOINED,
        Slot.BEHIND,
    )
    assert await claim(store, "t2", limit=9) == []
    await store.journal.append(completion(holder))
    promoted = await store.jobs.head("b")
    assert (promoted.status, promoted.wait_reason, promoted.session_slot) == (Status.PENDING, None, Slot.LIVE)
    assert (await store.jobs.head("c")).session_slot is Slot.BEHIND
    assert (await store.jobs.head("a")).session_slot is None


# ── leases ────────────────────────────────────────────────────────────────────────────────────────


async def test_claims_go_by_priority_or_by_age(store: Store, clock: VirtualClock) -> None:
    for job_id, priority in (("a", 1), ("b", 9), ("c", 9)):
        await store.jobs.submit(JobDraft(kind="k", job_id=job_id, priority=priority))
        clock.advance(1)
    assert [grant.job_id for grant in await claim(store, "old", by_age=True)] == ["a"]
    grants = await claim(store, "t1", limit=9)
    assert [grant.job_id for grant in grants] == ["b", "c"]
    assert await claim(store, "t1", limit=9) == grants, "the same token finds the same grants"


async def test_an_expired_lease_is_taken_over_and_fences_the_old_holder(
    store: Store, clock: VirtualClock
) -> None:
    holder = await running(store)
    clock.jump_wall(3600 * SECOND)
    assert await claim(store, "t2") == [], "the wall clock does not end a lease"
    clock.advance(30 * SECOND)
    assert await store.leases.list_expired() == ["a"]
    (grant,) = await claim(store, "t2")
    assert (grant.takeover, grant.takeovers, grant.fence) == (True, 1, holder.fence + 1)
    before = snapshot(store)
    with pytest.raises(Fenced):
        await store.journal.append(completion(holder))
    assert snapshot(store) == before


async def test_a_lease_is_renewed_by_fence_and_not_by_clock(store: Store, clock: VirtualClock) -> None:
    holder = await running(store)
    clock.advance(60 * SECOND)
    held = HeldLease("a", holder.fence, "t1")
    assert await store.leases.renew([held, HeldLease("a", 1, "t1"), HeldLease("b", 1, "t1")]) == {"a"}
    assert await store.leases.list_expired() == []
    assert await store.leases.expire("w1") == 1
    assert await store.leases.list_expired() == ["a"]


async def test_a_due_timer_makes_a_job_claimable_unless_a_person_holds_it(
    store: Store, clock: VirtualClock
) -> None:
    for job_id, reason in (("a", WaitReason.TIMER), ("b", WaitReason.DRIFT)):
        holder = await running(store, job_id, token=job_id)
        move = Move(status=Status.WAITING, reason=reason, wake_at=clock.wall_us() + SECOND)
        await store.journal.append(append_of(holder, [e.JobWaiting(reason=reason)], at=1, move=move))
    assert await claim(store, "t2", limit=9) == []
    clock.advance(SECOND)
    (grant,) = await claim(store, "t2", limit=9)
    assert (grant.job_id, grant.takeover) == ("a", False)


# ── journal ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_append_is_written_once(store: Store) -> None:
    holder = await running(store)
    append = completion(holder)
    assert await store.journal.append(append) == append.head
    before = snapshot(store)
    assert await store.journal.append(append) == append.head
    assert snapshot(store) == before
    written = await store.journal.read("a")
    assert [event.type for event in written] == ["job_created", "job_claimed", "job_completed"]
    assert find_break("a", written) is None
    head = await store.jobs.head("a")
    assert (head.status, head.lease_token, head.lease_owner, head.lease_expires_at) == (
        Status.COMPLETED,
        "",
        "",
        0,
    )


async def test_appends_that_do_not_fit_say_why(store: Store) -> None:
    holder = await running(store)
    await store.post.send(MailDraft(job_id="a", kind=MailKind.SIGNAL, operation_id="1"))
    with pytest.raises(MailWaiting) as waiting:
        await store.journal.append(append_of(holder, [e.StepFinished("s", "")], at=1, mail_seen=0))
    assert waiting.value.mail_seq == 1
    await store.journal.append(append_of(holder, [e.StepFinished("s", "")], at=1, mail_seen=1))
    with pytest.raises(Broken):
        await store.journal.append(append_of(holder, [e.StepFinished("t", "")], at=1))
    with pytest.raises(NotFound):
        await store.journal.append(
            append_of(msgspec.structs.replace(holder, job_id="b"), [e.JobReleased()], at=1)
        )


async def test_a_refused_extra_refuses_the_whole_append(store: Store) -> None:
    """The turn comes last; everything before it has been written to the copy when it is refused."""
    holder = await running(store)
    extras = Extras(
        calls=(call(),),
        timers=(Timer("s", 5),),
        children=(JobDraft(kind="child", job_id="child", input=LARGE),),
        letters=(MailDraft(job_id="child", kind=MailKind.SIGNAL, operation_id="1"),),
        turn=TurnCommit(session_id="s", nodes=(SessionNode(node_id="n"),), expected_revision=7),
    )
    before = snapshot(store)
    outcomes = await store.journal.append_many([completion(holder, extras)])
    assert isinstance(outcomes[0], HeadMoved)
    assert snapshot(store) == before
    assert extras.turn is not None
    turn = msgspec.structs.replace(extras.turn, expected_revision=0)
    await store.journal.append(completion(holder, msgspec.structs.replace(extras, turn=turn)))
    assert (await store.jobs.head("child")).mail_seq == 1
    assert await store.sessions.node("s", "n") == SessionNode(node_id="n")
    assert await store.post.timers("a") == [], "a job that is over has no timers"


async def test_many_appends_are_judged_one_by_one(store: Store) -> None:
    first, second = await running(store, "a", "t1"), await running(store, "b", "t2")
    bad = completion(msgspec.structs.replace(first, fence=1))
    outcomes: list[Head | HoldfastError] = await store.journal.append_many([bad, completion(second)])
    assert isinstance(outcomes[0], Fenced)
    assert isinstance(outcomes[1], Head)
    assert (await store.jobs.head("a")).status is Status.RUNNING


async def test_a_short_hold_needs_a_job_that_nobody_drives(store: Store, clock: VirtualClock) -> None:
    holder = await running(store)

    def cancel(head: JobHead) -> Ruling:
        assert head.job_id == "a"
        return Ruling((e.JobCancellation(),), Move(status=Status.CANCELLED))

    assert await store.journal.hold("a", cancel) is None
    clock.advance(30 * SECOND)
    assert await store.journal.hold("a", lambda _: None) is None
    with pytest.raises(InvalidMove):
        await store.journal.hold("a", lambda _: Ruling((), Move(status=Status.RUNNING)))
    assert await store.journal.hold("a", cancel) is not None
    head = await store.jobs.head("a")
    assert (head.status, head.fence, head.lease_token) == (Status.CANCELLED, holder.fence + 1, "")
    assert await store.journal.hold("a", cancel) is None, "it is over"
    with pytest.raises(NotFound):
        await store.journal.hold("b", cancel)


async def test_counters_follow_the_move(store: Store, clock: VirtualClock) -> None:
    await running(store)
    clock.advance(30 * SECOND)
    (grant,) = await claim(store, "t2")
    move = Move(status=Status.PENDING, failed=True, ready_at=clock.wall_us() + SECOND)
    append = append_of(holder_of(grant), [e.JobRequeued()], at=1, move=move, progress=True)
    await store.journal.append(append)
    head = await store.jobs.head("a")
    assert (head.attempts, head.takeovers, head.ready_at) == (1, 0, clock.wall_us() + SECOND)


# ── ledger ────────────────────────────────────────────────────────────────────────────────────────


async def test_calls_move_along_and_keys_stay_with_their_step(store: Store) -> None:
    holder = await running(store)

    async def write(row: CallRow) -> None:
        nonlocal holder
        append = append_of(holder, [e.NodeStarted("p", "n")], at=1, extras=Extras(calls=(row,)))
        await store.journal.append(append)
        holder = msgspec.structs.replace(holder, head=append.head)

    await write(call())
    await write(call(CallStatus.SUCCEEDED))
    for row, error in (
        (call(CallStatus.PREPARED), InvalidMove),
        (call(CallStatus.UNCERTAIN, step="new", key="hf_2"), InvalidMove),
        (call(step="other"), KeyReused),
        (call(args="bb"), KeyReused),
    ):
        with pytest.raises(error):
            await write(row)
    assert await store.ledger.list("a") == [call(CallStatus.SUCCEEDED)]
    assert await store.ledger.list("a", status=CallStatus.PREPARED) == []
    assert await store.ledger.find_by_key("hf_1") == await store.ledger.find("a", "s")
    assert await store.ledger.counts("default") == {("pay", "unsafe", "succeeded"): 1}


# ── mail ──────────────────────────────────────────────────────────────────────────────────────────


async def test_mail_wakes_whom_it_may(store: Store, clock: VirtualClock) -> None:
    holder = await running(store)
    move = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER)
    await store.journal.append(append_of(holder, [e.JobDeadLettered()], at=1, move=move))
    signal = MailDraft(job_id="a", kind=MailKind.SIGNAL, operation_id="1", body={"n": [1]})
    sent = await store.post.send(signal)
    assert (sent.mail_seq, sent.accepted, sent.woke) == (1, True, False)
    again = await store.post.send(signal)
    assert (again.mail_seq, again.accepted, again.repeated) == (1, True, True)
    clock.advance(SECOND)
    woken = await store.post.send(MailDraft(job_id="a", kind=MailKind.RESUME, operation_id="2"))
    head = await store.jobs.head("a")
    assert (woken.woke, head.status, head.ready_at, head.mail_seq) == (
        True,
        Status.PENDING,
        clock.wall_us(),
        2,
    )
    letter = (await store.post.read("a"))[0]
    assert letter.body == {"n": [1]}
    assert [mail.mail_seq for mail in await store.post.read("a", after=1)] == [2]


async def test_a_job_that_is_over_accepts_no_mail(store: Store) -> None:
    await store.journal.append(completion(await running(store)))
    sent = await store.post.send(MailDraft(job_id="a", kind=MailKind.CANCEL, operation_id="1"))
    assert (sent.mail_seq, sent.accepted) == (0, False)
    with pytest.raises(NotFound):
        await store.post.send(MailDraft(job_id="b", kind=MailKind.CANCEL, operation_id="1"))


async def test_timers_are_kept_by_step_and_shown_by_time(store: Store) -> None:
    extras = Extras(timers=(Timer("b", 2), Timer("a", 9), Timer("c", 1), Timer("c", None)))
    await store.journal.append(append_of(await running(store), [e.TimerSet("b", 2)], at=1, extras=extras))
    assert await store.post.timers("a") == [Timer("b", 2), Timer("a", 9)]


# ── inbox ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_source_key_is_one_batch_for_ever(store: Store) -> None:
    first = await store.inbox.enqueue(batch("b1", source_key="k"))
    again = await store.inbox.enqueue(batch("b2", source_key="k", items=(ItemDraft("other", None),)))
    assert first == again
    assert (first.enqueue_seq, first.items[0].item_id) == (1, "b1.0")
    held = await claim_inbox(store)
    assert held is not None
    await store.sessions.commit(
        stamp_commit(TurnCommit(session_id="s", completes=(held.completion(),)), "turn")
    )
    receipt = await store.inbox.enqueue(batch("b3", source_key="k"))
    assert (receipt.state, receipt.settled_by, receipt.items) == (BatchState.COMPLETED, "turn", ())
    assert await store.inbox.list("s") == []


async def test_claims_take_the_head_and_its_company(store: Store, clock: VirtualClock) -> None:
    join = {"slot": SlotPolicy.JOIN, "merge_key": group("g")}
    await store.inbox.enqueue(batch("late", available_at=clock.wall_us() + 1))
    await store.inbox.enqueue(batch("b1", **join))
    await store.inbox.enqueue(batch("b2", **join))
    await store.inbox.enqueue(batch("b3"))
    assert await store.inbox.claim_exact("s", "w", Boundary.IDLE, ["b2"], ttl_us=1, token="x") is None
    held = await claim_inbox(store)
    assert (ids_of(held), held and held.fence) == (["b1", "b2"], 1)
    assert await claim_inbox(store) == held, "the same token finds the same claim"
    assert ids_of(await claim_inbox(store, "t2")) == ["b3"]
    assert await store.inbox.list_pending("s") == (await store.inbox.list("s"))[:1]
    assert await store.inbox.cancel("s", "b1") is None, "it is held"
    cancelled = await store.inbox.cancel("s", "late")
    assert cancelled is not None
    assert (cancelled.state, len(cancelled.items)) == (BatchState.CANCELLED, 1)


async def test_a_claim_is_lost_by_takeover_and_not_by_time(store: Store, clock: VirtualClock) -> None:
    await store.inbox.enqueue(batch("b1"))
    held = await claim_inbox(store)
    assert held is not None
    clock.advance(2 * SECOND)
    held = await store.inbox.renew(held, SECOND)
    clock.advance(SECOND)
    taken = await claim_inbox(store, "t2")
    assert taken is not None
    assert (taken.fence, taken.claim_id) == (2, "b1.2")
    with pytest.raises(ClaimLost):
        await store.inbox.renew(held, SECOND)
    before = snapshot(store)
    with pytest.raises(ClaimLost):
        await store.sessions.commit(
            TurnCommit(session_id="s", nodes=(SessionNode(node_id="n"),), completes=(held.completion(),))
        )
    assert snapshot(store) == before
    await store.inbox.abandon(held)
    assert await store.inbox.list_pending("s") == [], "abandoning a lost claim frees nothing"
    await store.inbox.abandon(taken)
    await store.inbox.abandon(taken)
    assert len(await store.inbox.list_pending("s")) == 1


@pytest.mark.parametrize("boundary", Boundary)
@pytest.mark.parametrize("most", [0, 1, 2, 5])
async def test_the_selection_agrees_with_the_model(store: Store, boundary: Boundary, most: int) -> None:
    """Every queue of three batches over all policies and two merge keys."""
    kinds = [(d, s, k) for d in Delivery for s in SlotPolicy for k in (group("a"), group("b"))]
    drafts = [batch(f"b{i}", delivery=d, slot=s, merge_key=k) for i, (d, s, k) in enumerate(kinds)]
    rows = [BatchRow(batch=await store.inbox.enqueue(draft)) for draft in drafts]
    for queue in ((x, y, z) for x in rows for y in rows for z in rows):
        candidates = [
            Candidate(b.batch_id, b.enqueue_seq, b.delivery, b.slot, b.merge_key, 0)
            for b in (r.batch for r in queue)
        ]
        expected = [candidate.batch_id for candidate in select_candidates(candidates, boundary, most)]
        assert [row.batch.batch_id for row in _take(list(queue), boundary, most)] == expected


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_is_committed_once(store: Store) -> None:
    turn = stamp_commit(
        TurnCommit(session_id="s", nodes=(SessionNode(node_id="n", body={"a": 1}),), expected_revision=0), "t"
    )
    first = await store.sessions.commit(turn)
    before = snapshot(store)
    again = await store.sessions.commit(turn)
    assert again == msgspec.structs.replace(first, replayed=True)
    with pytest.raises(TurnConflict):
        await store.sessions.commit(stamp_commit(TurnCommit(session_id="s"), "t"))
    with pytest.raises(HeadMoved) as moved:
        await store.sessions.commit(TurnCommit(session_id="s", expected_revision=0))
    assert (moved.value.expected, moved.value.actual) == (0, 1)
    assert snapshot(store) == before


async def test_a_handle_serves_one_session(store: Store) -> None:
    await store.sessions.save_meta(SessionMeta(session_id="s", relation={"child": "p"}), handle="h")
    assert await store.sessions.find_bound_session("h") == "s"
    assert await store.sessions.load("s") is None, "nothing was committed"
    with pytest.raises(SessionBound):
        await store.sessions.commit(TurnCommit(session_id="other"), handle="h")
    assert await store.sessions.meta("s") == SessionMeta(session_id="s", relation={"child": "p"})
    assert await store.sessions.meta("other") is None


async def test_a_session_is_loaded_as_it_was_committed(store: Store) -> None:
    nodes = (
        SessionNode(node_id="root", body=1),
        SessionNode(node_id="left", parent_node_id="root"),
        SessionNode(node_id="right", parent_node_id="root"),
    )
    frame = Frame(frame_id="f", assignment={"a": 1}, snapshot=b"state")
    used = Usage(source="agent", model="m", input_tokens=1)
    checkpoint = SessionCheckpoint(turn_index=1, options={"o": []}, tool_state=b"tools")
    await store.sessions.commit(
        TurnCommit(session_id="s", nodes=nodes, frames=(frame,), frame_id="f", usage=(used, used))
    )
    await store.sessions.commit(TurnCommit(session_id="s", checkpoint=checkpoint))
    view = await store.sessions.load("s")
    assert view is not None
    assert (view.revision, view.graph.nodes, view.graph.leaf_node_id) == (2, nodes, "right")
    assert (view.frames, view.frame_id, view.checkpoint) == ((frame,), "f", checkpoint)
    assert view.usage == (msgspec.structs.replace(used, input_tokens=2),)
    path = await store.sessions.load("s", ACTIVE_PATH)
    assert path is not None
    assert path.graph.nodes == (nodes[0], nodes[2])
    other = await store.sessions.load("s", SessionScope(active_path=True, leaf_node_id="left"))
    assert other is not None
    assert (other.graph.nodes, other.graph.leaf_node_id) == (nodes[:2], "left")


async def test_what_was_read_cannot_change_what_is_stored(store: Store) -> None:
    body = {"a": [1]}
    await store.sessions.commit(TurnCommit(session_id="s", nodes=(SessionNode(node_id="n", body=body),)))
    body["a"].append(2)
    read = await store.sessions.node("s", "n")
    assert read is not None
    read.body["a"].append(3)
    assert await store.sessions.node("s", "n") == SessionNode(node_id="n", body={"a": [1]})


async def test_tombstones_hide_and_vacuum_removes(store: Store) -> None:
    nodes = (SessionNode(node_id="a"), SessionNode(node_id="b"))
    await store.sessions.commit(TurnCommit(session_id="s", nodes=nodes))
    assert await store.sessions.tombstone("s", ["a", "a", "b", "unknown"]) == 2
    assert await store.sessions.node("s", "a") is None
    await store.sessions.commit(TurnCommit(session_id="s", nodes=nodes[:1]))
    view = await store.sessions.load("s")
    assert view is not None
    assert view.graph.nodes == nodes[:1], "committing a node again clears its tombstone"
    assert (await store.sessions.vacuum("s")).removed_nodes == 1
    assert (await store.sessions.vacuum("s")).removed_nodes == 0


# ── blobs and attachments ─────────────────────────────────────────────────────────────────────────


async def test_blobs_are_found_by_content(store: Store) -> None:
    digest = await store.blobs.put(b"bytes")
    assert digest == hashlib.sha256(b"bytes").hexdigest()
    assert await store.blobs.get(digest) == b"bytes"
    assert not await store.blobs.has(digest, namespace="other")
    with pytest.raises(NotFound):
        await store.blobs.get("00" * 32)
    with pytest.raises(TooLarge):
        await store.blobs.put(bytes(BLOB_BYTES_MAX + 1))


async def test_gc_keeps_what_is_used_and_what_is_young(store: Store, clock: VirtualClock) -> None:
    """Roots: an input, a letter, an item, a node, a snapshot, a checkpoint field and an attachment, all different."""
    await store.jobs.submit(JobDraft(kind="k", job_id="a", input=LARGE))
    await store.post.send(MailDraft(job_id="a", kind=MailKind.SIGNAL, operation_id="1", body=LARGE + "m"))
    await store.inbox.enqueue(batch("b1", items=(ItemDraft("turn_input", LARGE + "i"),)))
    commit = TurnCommit(
        session_id="s",
        nodes=(SessionNode(node_id="n", body=LARGE + "n"), SessionNode(node_id="small", body="n")),
        frames=(Frame(frame_id="f", snapshot=LARGE.encode() + b"f"),),
        checkpoint=SessionCheckpoint(tool_state=LARGE.encode() + b"c", execution_state=b"small"),
    )
    await store.sessions.commit(commit)
    attached = await store.blobs.put(b"attached")
    await store.attachments.record_intent(AttachmentIntent("a1", "s", f"sha256:{attached}", 1))
    old = await store.blobs.put(b"old")
    clock.advance(SECOND)
    young = await store.blobs.put(b"young")
    assert await store.sessions.gc(older_than_us=SECOND) == CollectionResult(roots=7, retained=1, deleted=1)
    assert (await store.blobs.has(old), await store.blobs.has(young)) == (False, True)
    await store.sessions.commit(TurnCommit(session_id="s", replace=True))
    await store.attachments.forget("a1")
    assert await store.sessions.gc() == CollectionResult(roots=4, retained=0, deleted=4)


async def test_attachments_are_stamped_by_their_turn(store: Store, clock: VirtualClock) -> None:
    for number, attachment_id in enumerate(("a1", "a2", "a3")):
        await store.attachments.record_intent(AttachmentIntent(attachment_id, "s", "file:x", number))
    await store.attachments.record_intent(AttachmentIntent("a1", "other", "file:y", 9))
    assert [intent.uri for intent in await store.attachments.list_uncommitted(1)] == ["file:x"]
    await store.sessions.commit(TurnCommit(session_id="s", attachments=("a1", "unknown")))
    await store.attachments.commit_refs("s", ["a2"])
    assert [intent.attachment_id for intent in await store.attachments.list_uncommitted(9)] == ["a3"]
    await store.attachments.forget("a3")
    assert await store.attachments.list_uncommitted(9) == []


# ── wake-ups ──────────────────────────────────────────────────────────────────────────────────────


async def test_hints_are_kept_until_somebody_asks(store: Store) -> None:
    await store.jobs.submit(JobDraft(kind="k", job_id="a"))
    await store.post.send(MailDraft(job_id="a", kind=MailKind.SIGNAL, operation_id="1"))
    await store.inbox.enqueue(batch("b1"))
    topics = frozenset({"queue:default", "job:a", "session:s", "queue:other"})
    assert await store.wakeups.wait(topics, 0) == topics - {"queue:other"}
    assert await store.wakeups.wait(topics, 0) == frozenset()


async def test_everybody_who_waits_is_woken(store: Store) -> None:
    topic = frozenset({"queue:default"})
    waiting = [asyncio.ensure_future(store.wakeups.wait(topic, 60)) for _ in range(2)]
    given_up = asyncio.ensure_future(store.wakeups.wait(frozenset({"job:a"}), 60))
    await asyncio.wait([given_up], timeout=0.001)
    await store.jobs.submit(JobDraft(kind="k", job_id="a"))
    store.wakeups.hint("job:a")
    given_up.cancel()
    assert await asyncio.gather(*waiting) == [topic, topic]
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await store.wakeups.wait(frozenset({"job:a"}), 0) == {"job:a"}, "an unread hint is not lost"


async def test_a_refused_write_hints_at_nothing(store: Store) -> None:
    drafts = [JobDraft(kind="k"), JobDraft(kind="k", priority=99)]
    with pytest.raises(InvalidPayload):
        await store.jobs.submit_many(drafts)
    assert await store.wakeups.wait(frozenset({"queue:default"}), 0) == frozenset()
