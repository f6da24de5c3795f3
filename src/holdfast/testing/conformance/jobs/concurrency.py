"""Concurrency: every promise also holds for several callers at once."""

from __future__ import annotations

import asyncio

from holdfast.errors import Broken
from holdfast.model.hash_chain import Head, find_break
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import TurnCommit, stamp_commit
from holdfast.model.states import MailKind, Slot
from holdfast.testing.conformance.drafts import batches_in, message
from holdfast.testing.conformance.driver import step
from holdfast.testing.conformance.harness import Bench

CALLERS = 8


async def one_request_from_many_callers_is_one_job(bench: Bench) -> None:
    draft = JobDraft(kind="work", input=[1], request_key="key-1")
    answers = await asyncio.gather(*(bench.store.jobs.submit(draft) for _ in range(CALLERS)))
    assert len({answer.job_id for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1


async def one_session_has_one_turn_whoever_submits(bench: Bench) -> None:
    jobs = await asyncio.gather(*(bench.submit(session_id="root") for _ in range(CALLERS)))
    slots = [(await bench.store.jobs.head(job_id)).session_slot for job_id in jobs]
    assert sorted(slots, key=str) == [Slot.BEHIND] * (CALLERS - 1) + [Slot.LIVE]


async def no_job_is_granted_twice(bench: Bench) -> None:
    jobs = {await bench.submit() for _ in range(20)}
    granted: list[str] = []
    while True:
        rounds = await asyncio.gather(*(bench.claimable(worker=f"w{n}", limit=3) for n in range(CALLERS)))
        taken = [job_id for round_ in rounds for job_id in round_]
        granted += taken
        if not taken:
            break
    assert len(granted) == len(set(granted)), "two workers got the same job"
    assert set(granted) == jobs, "a job was forgotten"


async def of_two_appends_on_one_head_one_wins(bench: Bench) -> None:
    driver = await bench.drive_new()
    appends = [driver.build(step(f"by caller {n}")) for n in range(CALLERS)]
    sent = (bench.store.journal.append(append) for append in appends)
    outcomes = await asyncio.gather(*sent, return_exceptions=True)
    winners = [outcome for outcome in outcomes if isinstance(outcome, Head)]
    losers = [outcome for outcome in outcomes if isinstance(outcome, Broken)]
    assert (len(winners), len(losers)) == (1, CALLERS - 1)
    events = await bench.store.journal.read(driver.job_id)
    assert [event.seq for event in events] == [1, 2, 3], "no gap and no fork"
    assert find_break(driver.job_id, events) is None


async def letters_from_many_senders_are_numbered_without_gaps(bench: Bench) -> None:
    job_id = await bench.submit()
    drafts = [MailDraft(job_id=job_id, kind=MailKind.SIGNAL, operation_id=f"op-{n}") for n in range(CALLERS)]
    sent = await asyncio.gather(*(bench.store.post.send(draft) for draft in drafts + drafts))
    assert sorted(receipt.mail_seq for receipt in sent if not receipt.repeated) == list(range(1, CALLERS + 1))
    assert [receipt.repeated for receipt in sent].count(True) == CALLERS
    assert (await bench.store.jobs.head(job_id)).mail_seq == CALLERS


async def one_source_key_from_many_senders_is_one_batch(bench: Bench) -> None:
    drafts = [message(f"from {n}", source_key="mail:1") for n in range(CALLERS)]
    batches = await asyncio.gather(*(bench.store.inbox.enqueue(draft) for draft in drafts))
    assert len({batch.batch_id for batch in batches}) == 1
    assert len(await bench.list_queued()) == 1


async def batches_from_many_senders_are_numbered_without_gaps(bench: Bench) -> None:
    drafts = [message(f"from {n}") for n in range(CALLERS)]
    await asyncio.gather(*(bench.store.inbox.enqueue(draft) for draft in drafts))
    assert [batch.enqueue_seq for batch in await bench.store.inbox.list("root")] == list(
        range(1, CALLERS + 1)
    )


async def no_batch_is_claimed_twice(bench: Bench) -> None:
    for n in range(CALLERS):
        await bench.store.inbox.enqueue(message(f"number {n}"))
    claims = await asyncio.gather(*(bench.claim(owner=f"owner-{n}") for n in range(CALLERS)))
    taken = [batch_id for claim in claims if claim is not None for batch_id in batches_in(claim)]
    assert len(taken) == len(set(taken))


async def one_turn_from_many_callers_is_one_revision(bench: Bench) -> None:
    turn = stamp_commit(TurnCommit(session_id="root", expected_revision=0), "turn-1")
    answers = await asyncio.gather(*(bench.store.sessions.commit(turn) for _ in range(CALLERS)))
    assert {answer.revision for answer in answers} == {1}
    assert [answer.replayed for answer in answers].count(False) == 1


async def turns_of_one_session_take_turns(bench: Bench) -> None:
    turns = [stamp_commit(TurnCommit(session_id="root"), f"turn-{n}") for n in range(CALLERS)]
    answers = await asyncio.gather(*(bench.store.sessions.commit(turn) for turn in turns))
    assert sorted(answer.revision for answer in answers) == list(range(1, CALLERS + 1))
