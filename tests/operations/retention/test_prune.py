"""Retention on every store: what is over and old goes, what somebody may need stays, and the invariants hold after it.

Every shop ends with `verify`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.engine.durable_call import CallPolicy, DurableCall
from holdfast.engine.execution import Execution
from holdfast.engine.replay_check import replay
from holdfast.engine.retention import prune
from holdfast.engine.suspension import sleep
from holdfast.errors import InvalidPayload, InvalidSetting, KeyReused, NotFound
from holdfast.model.events import JobCompleted, JobCreated, LlmRequested, LlmResponded
from holdfast.model.hash_chain import find_break, unseal
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.retention import ERASABLE, PruneMode, RetentionPolicy
from holdfast.model.side_effects import CallStatus, Effect
from holdfast.model.states import MailKind, Status
from holdfast.model.time import DAY, HOUR
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.driver import Driver
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

pytestmark = pytest.mark.parametrize("backend", STORES, indirect=True)

LARGE = "x" * 20_000
KEYED = CallPolicy(effect=Effect.IDEMPOTENT)
OLD = RetentionPolicy(older_than_us=30 * DAY)
REMOVE = RetentionPolicy(older_than_us=30 * DAY, how=PruneMode.REMOVE)


async def errand(drive: Execution, given: Any) -> Any:
    """A read with a large answer, an effect, a small answer."""

    async def look(_key: str) -> str:
        return LARGE

    async def send(key: str) -> str:
        return f"sent under {key}"

    await drive.call(DurableCall("look", [given], look, CallPolicy(effect=Effect.READ_ONLY)))
    await drive.call(DurableCall("send", ["secret"], send, KEYED))
    return {"for": given, "large": LARGE + "out"}


async def finished(shop: Shop, **draft: Any) -> str:
    """A job of this errand, completed now."""
    shop.programs["errand"] = errand
    submitted = await shop.store.jobs.submit(JobDraft(kind="errand", input={"n": 1}, **draft))
    assert await (await shop.claim()).go() == "completed"
    return submitted.job_id


async def test_an_erased_job_keeps_what_it_was(backend: Backend) -> None:
    """Goal: payloads go, the proof stays. Method: erase a finished job; its input, output, ledger and chain are there,
    what it said in between is not, and it cannot be replayed any more."""
    async with opened(backend) as shop:
        job_id = await finished(shop)
        before = await shop.store.journal.read(job_id)
        backend.clock.advance(31 * DAY)
        report = await prune(shop.store, OLD)
        after = await shop.store.journal.read(job_id)
        gone = {one.seq for one in before if one.type in ERASABLE}
        assert {one.seq for one in after if one.body is None} == gone
        assert (report.jobs, report.events, report.blobs) == (1, len(gone), 1)
        assert report.size >= len(LARGE)
        assert report.blob_bytes >= len(LARGE)
        assert find_break(job_id, after) is None
        assert [one.hash for one in after] == [one.hash for one in before]
        created, completed = unseal(after[0]), unseal(after[-1])
        assert isinstance(created, JobCreated)
        assert isinstance(completed, JobCompleted)
        assert (created.input, completed.output["large"]) == ({"n": 1}, LARGE + "out")
        assert [row.status for row in await shop.store.ledger.list(job_id)] == [CallStatus.SUCCEEDED]
        with pytest.raises(InvalidPayload, match="was erased"):
            await replay(shop.store, job_id, errand, clock=backend.clock)
        stone = await shop.store.retention.find_tombstone(job_id)
        assert stone is not None
        assert (stone.how, stone.status, stone.head_seq) == (PruneMode.ERASE, Status.COMPLETED, len(before))
        assert (await prune(shop.store, OLD)).jobs == 0


async def test_letters_are_erased_with_their_job(backend: Backend) -> None:
    """A signal's content lies in the journal and in the mail: both are erased, and that it came is still known."""
    async with opened(backend) as shop:
        shop.programs["errand"] = errand
        job_id = (await shop.store.jobs.submit(JobDraft(kind="errand"))).job_id
        letter = MailDraft(job_id=job_id, kind=MailKind.SIGNAL, operation_id="o", name="n", body={"b": LARGE})
        await shop.store.post.send(letter)
        assert await (await shop.claim()).go() == "completed"
        backend.clock.advance(31 * DAY)
        assert (await prune(shop.store, OLD)).blobs == 3, "a read, a letter, and the fact of the letter"
        (mail,) = await shop.store.post.read(job_id)
        assert (mail.name, mail.body) == ("n", None)


async def test_a_removed_job_is_gone_and_remembered(backend: Backend) -> None:
    """Goal: nothing is left of it, and nobody gets its id or its keys again. Method: remove, look everywhere, ask for
    it once more."""
    async with opened(backend) as shop:
        job_id = await finished(shop, job_id="ticket-81", request_key="r-81")
        (call,) = await shop.store.ledger.list(job_id)
        head = await shop.store.jobs.head(job_id)
        backend.clock.advance(31 * DAY)
        report = await prune(shop.store, REMOVE)
        assert (report.jobs, report.events, report.kept) == (1, head.head_seq, {})
        assert await shop.store.journal.read(job_id) == []
        assert await shop.store.ledger.list(job_id) == []
        assert await shop.store.ledger.find_by_key(call.idempotency_key) is None
        with pytest.raises(NotFound):
            await shop.store.jobs.get(job_id)
        assert await shop.store.jobs.find("default", "r-81") is None
        stone = await shop.store.retention.find_tombstone(job_id)
        assert stone is not None
        assert (stone.how, stone.head_hash) == (PruneMode.REMOVE, head.head_hash)
        again = JobDraft(kind="errand", input={"n": 1}, job_id="ticket-81", request_key="r-81")
        assert not (await shop.store.jobs.submit(again)).created
        with pytest.raises(KeyReused):
            await shop.store.jobs.submit(JobDraft(kind="errand", input={"n": 2}, job_id="ticket-81"))
        with pytest.raises(KeyReused):
            await shop.store.jobs.submit(JobDraft(kind="errand", input={"n": 2}, request_key="r-81"))
        assert await shop.claim_all() == []


async def test_erased_and_then_removed(backend: Backend) -> None:
    async with opened(backend) as shop:
        job_id = await finished(shop)
        backend.clock.advance(31 * DAY)
        assert (await prune(shop.store, OLD)).jobs == 1
        assert (await prune(shop.store, REMOVE)).jobs == 1
        stone = await shop.store.retention.find_tombstone(job_id)
        assert stone is not None
        assert stone.how is PruneMode.REMOVE
        assert (await prune(shop.store, OLD)).jobs == 0


async def test_what_somebody_may_need_is_kept(backend: Backend) -> None:
    """Goal: nothing is pruned that is not over, or that something else hangs on. Method: one job of each sort, all very
    old, both ways of pruning."""
    async with opened(backend) as shop:

        async def sleeper(drive: Execution, _: Any) -> Any:
            await sleep(drive, 1000 * DAY)

        async def unlucky(drive: Execution, _: Any) -> Any:
            async def lost(_key: str) -> Any:
                raise ConnectionResetError("no answer")

            await drive.call(DurableCall("send", [], lost))

        asleep = await shop.submit(sleeper)
        assert await (await shop.claim()).go() == "waiting"
        child = await finished(shop, job_id="child", parent_job_id=asleep)
        uncertain = await shop.submit(unlucky)
        assert await (await shop.claim()).go() == "waiting"
        stop = MailDraft(job_id=uncertain, kind=MailKind.CANCEL, operation_id="stop")
        await shop.store.post.send(stop)
        assert await (await shop.claim()).go() == "cancelled"
        pending = await shop.submit(sleeper)
        backend.clock.advance(100 * DAY)
        kept = {"a call of unknown outcome": 1, "its parent is not over": 1}
        jobs = [asleep, child, uncertain, pending]
        before = [await shop.store.journal.read(job_id) for job_id in jobs]
        for policy in (OLD, REMOVE):
            report = await prune(shop.store, policy)
            assert (report.jobs, report.kept) == (0, kept)
        assert [await shop.store.journal.read(job_id) for job_id in jobs] == before
        asked = await shop.store.retention.prune(jobs, REMOVE)
        reasons = {one.job_id: one.kept for one in asked}
        assert (reasons[asleep], reasons[pending]) == ("not over", "not over")


async def test_young_jobs_and_young_keys_are_kept(backend: Backend) -> None:
    """A job is old from when it ended. Its ledger is kept while receivers may remember its keys, whatever the policy
    says about age."""
    async with opened(backend) as shop:
        await finished(shop)
        backend.clock.advance(2 * HOUR)
        assert (await prune(shop.store, OLD)).jobs == 0
        hasty = RetentionPolicy(older_than_us=HOUR, how=PruneMode.REMOVE)
        assert (await prune(shop.store, hasty)).kept == {"receivers may remember its keys": 1}
        backend.clock.advance(8 * DAY)
        assert (await prune(shop.store, hasty)).jobs == 1


async def test_children_go_before_their_parents(backend: Backend) -> None:
    """Three generations, all old: one call removes them all. A child that is young keeps its parent."""
    async with opened(backend) as shop:
        await finished(shop, job_id="a")
        await finished(shop, job_id="b", parent_job_id="a")
        await finished(shop, job_id="c", parent_job_id="b")
        backend.clock.advance(31 * DAY)
        await finished(shop, job_id="d", parent_job_id="c")
        assert (await prune(shop.store, REMOVE)).kept == {"its children are kept": 3}
        backend.clock.advance(31 * DAY)
        assert (await prune(shop.store, REMOVE, dry_run=True)).jobs == 1
        assert (await prune(shop.store, REMOVE)).jobs == 4


async def test_a_dry_run_changes_nothing(backend: Backend) -> None:
    async with opened(backend) as shop:
        jobs = [await finished(shop) for _ in range(3)]
        backend.clock.advance(31 * DAY)
        before = [await shop.store.journal.read(job_id) for job_id in jobs]
        for policy in (OLD, REMOVE):
            dry = await prune(shop.store, policy, dry_run=True)
            assert (dry.jobs, dry.blobs) == (3, 0), "blobs are loose only when their jobs are gone"
            assert dry.size > 3 * len(LARGE)
        assert [await shop.store.journal.read(job_id) for job_id in jobs] == before
        assert await shop.store.retention.find_tombstone(jobs[0]) is None


async def test_blobs_of_others_stay(backend: Backend) -> None:
    """Two jobs said the same large thing, and one of them is young: what both refer to is stored once, and stays. A
    blob that nobody refers to stays for its grace."""
    async with opened(backend) as shop:
        await finished(shop)
        backend.clock.advance(31 * DAY)
        young = await finished(shop)
        loose = await shop.store.blobs.put(b"loose" * 10_000)
        report = await prune(shop.store, OLD)
        assert (report.jobs, report.blobs) == (1, 0)
        assert all(one.body is not None for one in await shop.store.journal.read(young))
        backend.clock.advance(2 * DAY)
        assert (await prune(shop.store, OLD)).blobs == 1
        assert not await shop.store.blobs.has(loose)


async def test_messages_to_a_model_are_kept_with_their_request(backend: Backend) -> None:
    """A request to a model names its messages by digest. They are nobody's only when the request is erased."""
    async with opened(backend) as shop:
        message = await shop.store.blobs.put(b"hello" * 100)
        await shop.store.jobs.submit(JobDraft(kind="chat"))
        ask = ClaimRequest(worker="w", token="t", queues=("default",))
        (grant,) = await shop.store.leases.claim(ask)
        driver = Driver(shop.store, backend.clock, grant)
        await driver.write(LlmRequested("m", "x", messages=(message,)), LlmResponded("m", "hi"))
        await driver.complete()
        backend.clock.advance(20 * DAY)
        assert (await shop.store.sessions.gc(older_than_us=DAY)).deleted == 0
        assert (await prune(shop.store, OLD)).blobs == 0
        backend.clock.advance(20 * DAY)
        report = await prune(shop.store, OLD)
        assert (report.jobs, report.blobs, report.blob_bytes) == (1, 1, 500)


@pytest.mark.parametrize("policy", [OLD, REMOVE], ids=["erase", "remove"])
async def test_small_batches_and_two_at_once(backend: Backend, policy: RetentionPolicy) -> None:
    """Two processes prune the same store, a job per commit: every job goes once, and neither fails."""
    async with opened(backend) as shop:
        for _ in range(5):
            await finished(shop)
        backend.clock.advance(31 * DAY)
        one_each = RetentionPolicy(older_than_us=policy.older_than_us, how=policy.how, batch=1)
        reports = await asyncio.gather(prune(shop.store, one_each), prune(shop.store, one_each))
        assert sum(report.jobs for report in reports) == 5
        assert sum(report.blobs for report in reports) >= 1


async def test_a_policy_that_makes_no_sense_is_refused(backend: Backend) -> None:
    async with opened(backend) as shop:
        for wrong in (RetentionPolicy(older_than_us=-1), RetentionPolicy(older_than_us=1, batch=0)):
            with pytest.raises(InvalidSetting):
                await prune(shop.store, wrong)
