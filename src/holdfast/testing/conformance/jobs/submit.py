"""Submitting jobs, and finding them again."""

from __future__ import annotations

from collections import Counter

from holdfast.errors import InvalidName, InvalidPayload, KeyReused, NotFound
from holdfast.model.hash_chain import Head, find_break, unseal
from holdfast.model.jobs import (
    JobDraft,
    JobFilter,
    JobHead,
    JobNames,
    JobRecord,
    SubmittedJob,
    make_created_event,
)
from holdfast.model.lease import floor
from holdfast.model.states import Status, WaitReason
from holdfast.testing.conformance.harness import Bench


async def a_new_job_is_pending_and_has_one_event(bench: Bench) -> None:
    draft = JobDraft(
        kind="work", input={"n": 1}, priority=7, queue="fast", request_key="key-1", code_version="v1"
    )
    job_id = (await bench.store.jobs.submit(draft)).job_id
    [event] = await bench.store.journal.read(job_id)
    head = await bench.store.jobs.head(job_id)

    assert unseal(event) == make_created_event(draft), "the journal begins with what was asked for"
    assert (event.seq, event.at) == (1, bench.clock.wall_us())
    assert find_break(job_id, [event]) is None, "the chain begins with it"
    assert head.head == Head(1, event.hash)
    assert (head.status, head.wait_reason, head.wake_at) == (Status.PENDING, None, None)
    assert (head.namespace, head.queue, head.kind, head.priority) == ("default", "fast", "work", 7)
    assert head.fence == floor((await bench.store.info()).epoch), "no holder yet, in this epoch"
    assert_no_lease(head)
    assert (head.mail_seq, head.attempts, head.takeovers) == (0, 0, 0)


async def a_job_can_be_found_by_id_and_by_request(bench: Bench) -> None:
    job_id = await bench.submit(request_key="key-1", session_id="root")
    record = JobRecord(
        job_id=job_id,
        namespace="default",
        kind="work",
        queue="default",
        priority=5,
        request_key="key-1",
        parent_job_id=None,
        parent_step_key=None,
        session_id="root",
        created_at=bench.clock.wall_us(),
        status=Status.PENDING,
        wait_reason=None,
        head_seq=1,
        changed_at=bench.clock.wall_us(),
        worker=None,
        attempts=0,
        takeovers=0,
    )
    assert await bench.store.jobs.get(job_id) == record
    assert await bench.store.jobs.find("default", "key-1") == record
    assert await bench.store.jobs.find("default", "key-2") is None


async def an_unknown_job_is_not_found(bench: Bench) -> None:
    async with bench.refuses(NotFound):
        await bench.store.jobs.get("job_unknown")
    async with bench.refuses(NotFound):
        await bench.store.jobs.head("job_unknown")


async def the_same_request_makes_one_job(bench: Bench) -> None:
    first = await bench.submit(input=[1], request_key="key-1")
    bench.clock.advance(1)
    async with bench.expect_unchanged():
        again = await bench.store.jobs.submit(JobDraft(kind="work", input=[1], request_key="key-1"))
        renamed = JobDraft(kind="work", input=[1], request_key="key-1", job_id="job_renamed")
        assert again == SubmittedJob(first, created=False)
        assert await bench.store.jobs.submit(renamed) == SubmittedJob(first, created=False), "the key decides"


async def the_same_job_id_makes_one_job(bench: Bench) -> None:
    draft = JobDraft(kind="work", input=[1], job_id="job_mine")
    assert await bench.store.jobs.submit(draft) == SubmittedJob("job_mine", created=True)
    async with bench.expect_unchanged():
        assert await bench.store.jobs.submit(draft) == SubmittedJob("job_mine", created=False)


async def a_request_that_is_over_still_makes_no_second_job(bench: Bench) -> None:
    driver = await bench.drive_new(request_key="key-1")
    await driver.complete()
    draft = JobDraft(kind="work", request_key="key-1", queue=driver.grant.queue)
    assert await bench.store.jobs.submit(draft) == SubmittedJob(driver.job_id, created=False)


async def a_reused_key_leaves_nothing(bench: Bench) -> None:
    await bench.submit(input=[1], request_key="key-1", job_id="job_mine")
    async with bench.refuses(KeyReused) as refusal:
        await bench.store.jobs.submit(JobDraft(kind="work", input=[2], request_key="key-1"))
    assert refusal.error.stored != refusal.error.sent, "the error shows that the bodies differ"
    async with bench.refuses(KeyReused):
        await bench.store.jobs.submit(JobDraft(kind="work", input=[2], job_id="job_mine"))
    async with bench.refuses(KeyReused):
        await bench.store.jobs.submit(JobDraft(kind="other", input=[1], request_key="key-1"))


async def request_keys_of_two_namespaces_do_not_meet(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    here = await bench.submit(input=[1], request_key="key-1")
    there = await bench.submit(input=[2], request_key="key-1", namespace="elsewhere")
    found = await bench.store.jobs.find("elsewhere", "key-1")
    assert found is not None
    assert found.job_id == there != here


async def submit_many_is_all_or_nothing(bench: Bench) -> None:
    drafts = [JobDraft(kind="work", input=n, request_key=f"key-{n}") for n in range(3)]
    made = await bench.store.jobs.submit_many(drafts)
    assert [submitted.created for submitted in made] == [True, True, True]
    assert [submitted.job_id for submitted in made] == sorted(submitted.job_id for submitted in made), (
        "in the order they were given"
    )
    bad = [JobDraft(kind="work", input="new"), JobDraft(kind="work", input="other", request_key="key-1")]
    async with bench.refuses(KeyReused):
        await bench.store.jobs.submit_many(bad)
    assert await bench.store.jobs.submit_many([]) == []


async def of_many_the_first_that_is_refused_says_why(bench: Bench) -> None:
    """Whatever is wrong with the drafts after it; also if plain drafts and others are mixed."""
    await bench.store.jobs.submit(JobDraft(kind="work", job_id="taken"))
    reused = JobDraft(kind="other", job_id="taken")
    homeless = JobDraft(kind="work", job_id="homeless", namespace="nowhere")
    keyed = JobDraft(kind="work", job_id="keyed", request_key="r")
    for others in ((), (keyed,)):
        async with bench.refuses(KeyReused):
            await bench.store.jobs.submit_many([*others, reused, homeless])
        async with bench.refuses(NotFound):
            await bench.store.jobs.submit_many([*others, homeless, reused])


async def submit_many_recognises_a_repeat_inside_itself(bench: Bench) -> None:
    draft = JobDraft(kind="work", request_key="key-1")
    first, second = await bench.store.jobs.submit_many([draft, draft])
    assert second == SubmittedJob(first.job_id, created=False)


async def a_bad_draft_makes_no_job(bench: Bench) -> None:
    for bad in (
        JobDraft(kind=""),
        JobDraft(kind="work", queue="a\nb"),
        JobDraft(kind="work", request_key="k" * 201),
        JobDraft(kind="work", session_id="\x00"),
        JobDraft(kind="work", job_id="\ud800"),
    ):
        async with bench.refuses(InvalidName):
            await bench.store.jobs.submit(bad)
    for priority in (0, 11):
        async with bench.refuses(InvalidPayload):
            await bench.store.jobs.submit(JobDraft(kind="work", priority=priority))


async def a_listing_goes_from_new_to_old_in_pages(bench: Bench) -> None:
    made = [await bench.submit() for _ in range(5)]
    listed: list[str] = []
    page = await bench.store.jobs.list(JobFilter(), limit=2)
    listed += [record.job_id for record in page]
    await bench.submit()
    while page.next is not None:
        page = await bench.store.jobs.list(JobFilter(), limit=2, cursor=page.next)
        listed += [record.job_id for record in page]
    assert listed == made[::-1], "each once, whatever arrives in between"
    assert (await bench.store.jobs.list(JobFilter(), limit=6)).next is None, (
        "a full last page is the last page"
    )


async def a_listing_goes_by_time_and_not_by_id(bench: Bench) -> None:
    for job_id in ("zebra", "ant", "monkey"):
        await bench.submit(job_id=job_id)
        bench.clock.advance(1_000_000)
    page = await bench.store.jobs.list(JobFilter(), limit=2)
    assert [record.job_id for record in page] == ["monkey", "ant"]
    rest = await bench.store.jobs.list(JobFilter(), limit=2, cursor=page.next)
    assert [record.job_id for record in rest] == ["zebra"]


async def a_listing_can_be_filtered(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    parent = await bench.submit("parent")
    child = await bench.submit("child", parent_job_id=parent, session_id="root")
    behind = await bench.submit("behind", session_id="root")
    there = await bench.submit("there", namespace="elsewhere")

    async def listed(**filters: object) -> list[str]:
        page = await bench.store.jobs.list(JobFilter(**filters))  # type: ignore[arg-type]
        assert page.next is None
        return [record.job_id for record in page]

    assert await listed() == [there, behind, child, parent]
    assert await listed(kind="child") == [child]
    assert await listed(parent_job_id=parent) == [child]
    assert await listed(session_id="root") == [behind, child]
    assert await listed(namespace="elsewhere") == [there]
    assert await listed(status=Status.WAITING) == [behind]
    assert await listed(wait_reason=WaitReason.JOINED) == [behind]
    assert await listed(namespace="elsewhere", kind="child") == []


async def a_listing_can_be_narrowed_by_status_time_queue_and_text(bench: Bench) -> None:
    began = bench.clock.wall_us()
    driver = await bench.drive_new("ant", kind="Report", request_key="Order-81")
    bench.clock.advance(1_000)
    other = await bench.submit("chat", session_id="Ärger")
    behind = await bench.submit("chat", session_id="Ärger", job_id="ticket_1")
    bench.clock.advance(1_000)

    async def listed(**filters: object) -> set[str]:
        page = await bench.store.jobs.list(JobFilter(**filters))  # type: ignore[arg-type]
        ids = [record.job_id for record in page]
        assert (page.next, ids) == (None, sorted(ids, reverse=True))
        tally = await bench.store.jobs.tally(JobFilter(**filters))  # type: ignore[arg-type]
        counted = Counter((record.status, record.wait_reason) for record in page)
        assert tally == counted, "what is counted is what is listed"
        return set(ids)

    running, waiting = driver.job_id, {behind}
    assert await listed(statuses=(Status.RUNNING, Status.WAITING)) == {running} | waiting
    assert await listed(statuses=(Status.RUNNING, Status.COMPLETED)) == {running}
    assert await listed(statuses=(Status.RUNNING,), status=Status.PENDING) == set()
    assert await listed(status=Status.COMPLETED) == set()
    assert await listed(queue=(await bench.store.jobs.head(running)).queue) == {running}
    assert await listed(since=began + 1_000) == {other} | waiting
    assert await listed(until=began + 1_000) == {running}
    assert await listed(since=began, until=began + 1_001, text="chat") == {other} | waiting
    assert await listed(text="REPORT") == {running}
    assert await listed(text="order-81") == {running}
    assert await listed(text="Är") == {other} | waiting
    assert await listed(text="är") == set(), "letters beyond A to Z are what they are"
    assert await listed(text="t_1") == waiting, "an underscore is an underscore"
    assert await listed(text="%") == set()
    (record,) = await bench.store.jobs.list(JobFilter(status=Status.RUNNING))
    assert (record.worker, record.changed_at, record.takeovers) == ("ant", began, 0)
    await driver.complete()
    (record,) = await bench.store.jobs.list(JobFilter(status=Status.COMPLETED))
    assert (record.worker, record.changed_at) == (None, began + 2_000)


async def jobs_go_by_kinds_and_queues(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    assert await bench.store.jobs.names() == JobNames((), ())
    for kind, queue in (("b", "fast"), ("a", "fast"), ("b", "slow")):
        await bench.submit(kind, queue=queue)
    await bench.submit("there", namespace="elsewhere")
    assert await bench.store.jobs.names("default") == JobNames(("a", "b"), ("fast", "slow"))
    assert await bench.store.jobs.names(limit=1) == JobNames(("a",), ("default",))


async def jobs_are_counted_by_status(bench: Bench) -> None:
    await bench.store.namespaces.create("elsewhere")
    assert await bench.store.jobs.counts() == {}
    driver = await bench.drive_new()
    await bench.submit()
    await bench.submit(namespace="elsewhere")
    await bench.submit(namespace="elsewhere")
    assert await bench.store.jobs.counts() == {Status.RUNNING: 1, Status.PENDING: 3}
    await driver.complete()
    assert await bench.store.jobs.counts("default") == {Status.COMPLETED: 1, Status.PENDING: 1}
    assert await bench.store.jobs.counts("elsewhere") == {Status.PENDING: 2}
    assert await bench.store.jobs.counts("never heard of") == {}


async def a_foreign_cursor_is_refused(bench: Bench) -> None:
    async with bench.refuses(InvalidPayload):
        await bench.store.jobs.list(JobFilter(), cursor="not one of ours")


def assert_no_lease(head: JobHead) -> None:
    """Assert that no worker has a lease on this job."""
    lease = (head.lease_token, head.lease_owner, head.lease_boot, head.lease_expires_at)
    assert lease == ("", "", "", 0), f"a job that nobody drives has no lease: {lease}"
