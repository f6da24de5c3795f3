"""Work items, routed by capability, and registry entries of external agents."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.errors import InvalidPayload, NotFound
from holdfast.model.agent_registry import AgentEntry, StoredEntry, Visibility
from holdfast.model.append import Move
from holdfast.model.events import JobDeadLettered
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import SECOND
from holdfast.model.work import Work, WorkFilter, draft_of, kinds_for, queues_for
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.harness import Bench

ANT = AgentEntry(
    guid="a1", handle="ant", agent_type="claude", capabilities=("dig",), metadata={"since": [1, None]}
)


def _draft_work(job_id: str, **fields: object) -> JobDraft:
    request = {"description": "dig", "capability": "dig", **fields}
    return draft_of(msgspec.convert(request, Work), namespace="default", job_id=job_id)


async def work_is_found_by_what_is_asked_of_it(bench: Bench) -> None:
    store = bench.store
    await store.namespaces.create("other")
    await store.jobs.submit(JobDraft(kind="report", job_id="job-0"))
    await store.jobs.submit(_draft_work("job-1", projectId="hill"))
    await store.jobs.submit(_draft_work("job-2", boundary="acme", capability="carry"))
    await store.jobs.submit(_draft_work("job-3", preferredAgentType="claude"))
    await store.jobs.submit(
        draft_of(Work(description="x", capability="dig"), namespace="other", job_id="job-4")
    )
    await bench.reopen()
    work = bench.store.work
    assert await _list_ids(bench) == ["job-3", "job-2", "job-1"]
    assert await _list_ids(bench, capability="carry") == await _list_ids(bench, boundary="acme") == ["job-2"]
    assert await _list_ids(bench, project="hill") == ["job-1"]
    assert await _list_ids(bench, namespace="other") == ["job-4"]
    item = await work.find("job-3")
    assert item is not None
    assert (item.capability, item.preferred_type, item.project) == ("dig", "claude", "default")
    assert await work.find("job-0") is None
    assert await work.counts() == {
        ("hill", Status.PENDING, None): 1,
        ("default", Status.PENDING, None): 2,
    }


async def _list_ids(bench: Bench, **filters: str) -> list[str]:
    """The ids of the matching items, read in pages of one item."""
    found, cursor = [], None
    while True:
        page = await bench.store.work.list(msgspec.convert(filters, WorkFilter), limit=1, cursor=cursor)
        found += [row.head.job_id for row in page]
        if (cursor := page.next) is None:
            return found


async def a_claim_takes_what_its_agent_may(bench: Bench) -> None:
    """By capability, type, boundary and namespace; no item that is reserved for others."""
    store = bench.store
    await store.namespaces.create("other")
    for nth, fields in enumerate(
        (
            {},
            {"requiredAgentType": "claude"},
            {"requiredAgentType": "human"},
            {"boundary": "acme"},
            {"boundary": "secret"},
            {"capability": "carry"},
            {"preferredAgentType": "claude"},
            {"preferredAgentType": "human"},
        )
    ):
        await store.jobs.submit(_draft_work(f"job-{nth}", **fields))
    await store.jobs.submit(
        draft_of(Work(description="x", capability="dig"), namespace="other", job_id="job-9")
    )
    ask = ClaimRequest(
        worker="agent:a1",
        token="t",
        queues=queues_for(["acme"]),
        kinds=kinds_for(["dig"], "claude"),
        namespace="default",
        limit=10,
    )
    assert [grant.job_id for grant in await store.leases.claim(ask)] == ["job-0", "job-1", "job-3", "job-6"]
    assert await store.work.find_unpreferred(["dig"], grace_us=5 * SECOND) == []
    bench.clock.advance(5 * SECOND)
    assert await store.work.find_unpreferred(["dig"], grace_us=5 * SECOND) == ["work:dig~human"]
    assert await store.work.find_unpreferred(["carry"], grace_us=0) == []
    assert await store.work.find_unpreferred([], grace_us=0) == []


async def work_that_nobody_will_claim_is_found(bench: Bench) -> None:
    store = bench.store
    for job_id, deadline in (("job-1", 2), ("job-2", 1), ("job-3", 3), ("job-4", None)):
        draft = _draft_work(job_id)
        assert draft.work is not None
        at = None if deadline is None else bench.clock.wall_us() + deadline * SECOND
        item = msgspec.structs.replace(draft.work, deadline_at=at)
        await store.jobs.submit(msgspec.structs.replace(draft, work=item))
    assert list(await store.work.find_unclaimed()) == []
    bench.clock.advance(2 * SECOND)
    assert list(await store.work.find_unclaimed()) == ["job-1", "job-2"]
    assert list(await store.work.find_unclaimed(limit=1)) == ["job-1"]
    await store.leases.claim(ClaimRequest(worker="w", token="t", queues=("work",), limit=1))
    assert list(await store.work.find_unclaimed()) == ["job-2"], "what somebody has begun is not"
    await store.post.send(MailDraft(job_id="job-4", kind=MailKind.CANCEL, operation_id="o"))
    assert list(await store.work.find_unclaimed()) == ["job-2", "job-4"]


async def what_somebody_holds_is_counted(bench: Bench) -> None:
    """Leases that have not ended count; items that were given back or taken over do not."""
    store = bench.store
    for nth in range(3):
        await store.jobs.submit(_draft_work(f"job-{nth}"))
    assert await store.leases.count("agent:a1") == 0
    ask = ClaimRequest(worker="agent:a1", token="t", queues=("work",), limit=2, ttl_us=10 * SECOND)
    assert len(await store.leases.claim(ask)) == 2
    assert (await store.leases.count("agent:a1"), await store.leases.count("agent:b1")) == (2, 0)
    bench.clock.advance(10 * SECOND)
    assert await store.leases.count("agent:a1") == 0


async def nobody_is_granted_more_than_it_may_hold(bench: Bench) -> None:
    """All unexpired leases count; a repeated claim finds its grants, with or without room for more."""
    store = bench.store
    for nth in range(6):
        await store.jobs.submit(_draft_work(f"job-{nth}"))

    async def granted(token: str, worker: str = "agent:a1", *, most: int) -> list[str]:
        ask = ClaimRequest(
            worker=worker, token=token, queues=("work",), limit=2, ttl_us=10 * SECOND, most=most
        )
        return [grant.job_id for grant in await store.leases.claim(ask)]

    assert await granted("t1", most=3) == ["job-0", "job-1"]
    assert await granted("t2", most=3) == ["job-2"], "one is left of three"
    assert await granted("t3", most=3) == []
    assert await granted("t2", most=3) == ["job-2"], "a lost reply"
    assert await granted("t4", most=1) == []
    assert await granted("t5", worker="agent:b1", most=1) == ["job-3"], "what others hold does not count"
    bench.clock.advance(10 * SECOND)
    assert await granted("t6", most=1) == ["job-0"], "nor what it held before"


async def dead_work_is_told_apart(bench: Bench) -> None:
    store = bench.store
    for job_id in ("job-1", "job-2"):
        await store.jobs.submit(_draft_work(job_id))
    buried = Ruling(
        (JobDeadLettered(({"why": "enough"},)),), Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER)
    )
    await store.journal.hold("job-1", lambda _: buried)
    (row,) = await store.work.list(WorkFilter(dead=True))
    assert row.head.job_id == "job-1"
    assert [row.head.job_id for row in await store.work.list(WorkFilter(dead=False))] == ["job-2"]
    assert (await store.work.counts())["default", Status.WAITING, WaitReason.DEAD_LETTER] == 1


# ── entries ───────────────────────────────────────────────────────────────────────────────────────


async def an_entry_changes_over_the_revision_that_was_read(bench: Bench) -> None:
    entries = bench.store.entries
    first = await entries.put(ANT, over=0)
    assert first is not None
    assert await entries.put(ANT, over=0) is None, "there is one"
    bench.clock.advance(SECOND)
    renamed = msgspec.structs.replace(ANT, handle="bee", visibility=Visibility.PRIVATE)
    second = await entries.put(renamed, over=first.revision)
    assert second is not None
    assert second.revision != first.revision
    assert await entries.put(ANT, over=first.revision) is None, "somebody else was there first"
    await bench.reopen()
    entries = bench.store.entries
    assert await entries.get("a1") == StoredEntry(
        entry=renamed, revision=second.revision, heard_at=bench.clock.wall_us()
    )
    assert not await entries.remove("a1", over=first.revision)
    assert await entries.remove("a1", over=second.revision)
    assert await entries.get("a1") is None
    third = await entries.put(ANT, over=0)
    assert third is not None
    assert third.revision not in {first.revision, second.revision}, "made again is another one"


async def entries_belong_to_a_namespace(bench: Bench) -> None:
    store = bench.store
    await store.namespaces.create("other")
    await store.entries.put(ANT, over=0)
    await store.entries.put(msgspec.structs.replace(ANT, handle="theirs"), over=0, namespace="other")
    assert [seen.entry.handle for seen in await store.entries.list()] == ["ant"]
    assert [seen.entry.handle for seen in await store.entries.list(namespace="other")] == ["theirs"]
    async with bench.refuses(NotFound):
        await store.entries.put(ANT, over=0, namespace="nowhere")
    wrong = msgspec.structs.replace(ANT, guid="a2", capabilities=("dig", "dig"))
    async with bench.refuses(InvalidPayload):
        await store.entries.put(wrong, over=0)


async def of_many_who_change_an_entry_one_is_first(bench: Bench) -> None:
    first = await bench.store.entries.put(ANT, over=0)
    assert first is not None
    results = await asyncio.gather(
        *(
            bench.store.entries.put(msgspec.structs.replace(ANT, current_task_count=nth), over=first.revision)
            for nth in range(10)
        )
    )
    (won,) = [seen for seen in results if seen is not None]
    assert await bench.store.entries.get("a1") == won
