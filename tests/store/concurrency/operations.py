"""Every kind of write a caller can lose the answer to, and how to tell what became of it.

A `Trial` is one call with its own job, session or key. `landed` is SQL that counts, from another connection, how often
the call has taken effect; `check` looks at the answer and at everything else the call should have done once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.model.access import ApiKey, Role
from holdfast.model.append import Append, Extras, Move, Timer
from holdfast.model.audit import Act, ActDraft, find_breaks, read_act
from holdfast.model.events import JobCancellation, JobCompleted, JobReleased
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.model.inbox import BatchState, Boundary, Claim, Completion, InboxBatch
from holdfast.model.jobs import JobDraft, JobHead, SubmittedJob
from holdfast.model.mailbox import MailDraft, MailReceipt
from holdfast.model.schedule import Schedule, make_job
from holdfast.model.session import SessionCheckpoint, TurnCommit, stamp_commit
from holdfast.model.states import MailKind, Status
from holdfast.model.time import MINUTE
from holdfast.store.contract import Store
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.leases import ClaimRequest
from holdfast.testing.conformance.drafts import LARGE, call_row, intent_of, message, node
from holdfast.testing.conformance.driver import Driver, step
from tests.store.concurrency.stores import check_journal, driving, fresh

COMMIT = b"COMMIT"


@dataclass(frozen=True, slots=True)
class Trial:
    call: Callable[[Store], Awaitable[Any]]
    landed: str
    key: str
    check: Callable[[Any], Awaitable[None]]
    commits: bytes = COMMIT
    """What is in the request that commits. A plain append, a claim and new jobs without names are one statement and
    its own transaction."""


Operation = Callable[[Store], Awaitable[Trial]]

EVENT = "SELECT count(*) FROM holdfast.events WHERE encode(hash, 'hex') = $1"


async def submit(store: Store) -> Trial:
    """With a request key: the caller's own name for it."""
    key = fresh("key")
    draft = JobDraft(kind="work", input=LARGE, request_key=key, queue=fresh("queue"))

    async def check(answer: SubmittedJob) -> None:
        found = await store.jobs.find("default", key)
        assert found is not None
        assert found.job_id == answer.job_id
        await check_journal(store, answer.job_id)

    landed = "SELECT count(*) FROM holdfast.jobs WHERE request_key = $1"
    return Trial(lambda store: store.jobs.submit(draft), landed, key, check)


async def submit_unnamed(store: Store) -> Trial:
    """Without any name: only the store can know that it is the same call, and that it made the job."""
    queue = fresh("queue")

    async def check(answer: list[SubmittedJob]) -> None:
        assert [one.created for one in answer] == [True, True], "this very call made the jobs"
        for one in answer:
            await check_journal(store, one.job_id)

    landed = "SELECT count(*) / 2 FROM holdfast.jobs WHERE queue = $1"
    drafts = [JobDraft(kind="work", queue=queue)] * 2
    return Trial(lambda store: store.jobs.submit_many(drafts), landed, queue, check, commits=queue.encode())


async def append(store: Store) -> Trial:
    (driver,) = await driving(store)
    return _appended(store, driver, driver.build(step("plain"), step("and more")))


async def append_with_rows(store: Store) -> Trial:
    """With a call, a timer, a child, a letter and a turn: all of it once."""
    driver, other = await driving(store, 2)
    row = call_row(driver, "1/mail#1")
    session, child = fresh("session"), fresh("job")
    extras = Extras(
        calls=(row,),
        timers=(Timer("1/sleep#1", 7),),
        children=(JobDraft(kind="work", job_id=child, queue=fresh("queue")),),
        letters=(MailDraft(job_id=other.job_id, kind=MailKind.SIGNAL, operation_id=fresh("op")),),
        turn=stamp_commit(TurnCommit(session_id=session, nodes=(node("n1"),)), "turn-1"),
    )
    trial = _appended(store, driver, driver.build(intent_of(row), step("large", LARGE), extras=extras))

    async def check(answer: Head) -> None:
        await trial.check(answer)
        assert len(await store.ledger.list(driver.job_id)) == 1
        assert len(await store.post.timers(driver.job_id)) == 1
        assert (await store.jobs.head(child)).head_seq == 1
        assert (await store.jobs.head(other.job_id)).mail_seq == 1
        view = await store.sessions.load(session)
        assert view is not None
        assert view.revision == 1

    return Trial(trial.call, trial.landed, trial.key, check)


async def append_last(store: Store) -> Trial:
    (driver,) = await driving(store)
    return _appended(store, driver, driver.build(JobCompleted(), move=Move(status=Status.COMPLETED)))


async def append_many(store: Store) -> Trial:
    drivers = await driving(store, 4)
    appends = [driver.build(step("one")) for driver in drivers[:3]]
    appends.append(drivers[3].build(JobReleased(), move=Move(status=Status.PENDING)))

    async def check(answer: list[Head]) -> None:
        assert answer == [append.head for append in appends]
        for append in appends:
            assert (await check_journal(store, append.job_id))[-1] == append.head.hash

    head = appends[0].head.hash
    return Trial(lambda store: store.journal.append_many(appends), EVENT, head.hex(), check, commits=head)


def _appended(store: Store, driver: Driver, append: Append) -> Trial:
    async def check(answer: Head) -> None:
        assert answer == append.head
        assert (await check_journal(store, driver.job_id))[-1] == append.head.hash

    head = append.head.hash
    return Trial(lambda store: store.journal.append(append), EVENT, head.hex(), check, commits=head)


async def hold(store: Store) -> Trial:
    submitted = await store.jobs.submit(JobDraft(kind="work", queue=fresh("queue")))
    job_id = submitted.job_id

    def decide(_: JobHead) -> Ruling:
        return Ruling((JobCancellation(),), Move(status=Status.CANCELLED))

    async def check(answer: Head | None) -> None:
        head = await store.jobs.head(job_id)
        assert head.status is Status.CANCELLED
        assert answer == head.head, "this very call ended the job"
        await check_journal(store, job_id)

    landed = "SELECT count(*) FROM holdfast.events WHERE job_id = $1 AND type = 'job_cancelled'"
    return Trial(lambda store: store.journal.hold(job_id, decide), landed, job_id, check)


async def claim(store: Store) -> Trial:
    queue = fresh("queue")
    jobs = await store.jobs.submit_many([JobDraft(kind="work", queue=queue) for _ in range(5)])
    ask = ClaimRequest(worker="worker", token=fresh("token"), queues=(queue,), limit=2)

    async def check(answer: list[Any]) -> None:
        heads = [await store.jobs.head(job.job_id) for job in jobs]
        running = {head.job_id for head in heads if head.status is Status.RUNNING}
        assert {grant.job_id for grant in answer} == running, "the worker knows all that it was given"
        assert len(answer) == 2
        for grant in answer:
            await check_journal(store, grant.job_id)
            assert (await store.jobs.head(grant.job_id)).fence == grant.fence

    landed = (
        "SELECT (count(*) + 1) / 2 FROM holdfast.events e JOIN holdfast.jobs j USING (job_id)"
        " WHERE e.type = 'job_claimed' AND j.queue = $1"
    )
    return Trial(lambda store: store.leases.claim(ask), landed, queue, check, commits=ask.token.encode())


async def send(store: Store) -> Trial:
    submitted = await store.jobs.submit(JobDraft(kind="work", queue=fresh("queue")))
    draft = MailDraft(job_id=submitted.job_id, kind=MailKind.SIGNAL, operation_id=fresh("op"), body=LARGE)

    async def check(answer: MailReceipt) -> None:
        assert (answer.accepted, answer.mail_seq) == (True, 1)
        assert (await store.jobs.head(submitted.job_id)).mail_seq == 1
        assert len(await store.post.read(submitted.job_id)) == 1

    landed = "SELECT count(*) FROM holdfast.mail WHERE job_id = $1"
    return Trial(lambda store: store.post.send(draft), landed, submitted.job_id, check)


async def enqueue(store: Store) -> Trial:
    session = fresh("session")
    draft = message("hello", session, source_key="mail:1")
    return _enqueued(store, session, lambda store: store.inbox.enqueue(draft))


async def enqueue_unnamed(store: Store) -> Trial:
    session = fresh("session")
    draft = message("hello", session)
    return _enqueued(store, session, lambda store: store.inbox.enqueue(draft))


def _enqueued(store: Store, session: str, call: Callable[[Store], Awaitable[Any]]) -> Trial:
    async def check(answer: Any) -> None:
        assert await store.inbox.list(session) == [answer]
        assert answer.enqueue_seq == 1

    landed = "SELECT count(*) FROM holdfast.inbox_batches WHERE session_id = $1"
    return Trial(call, landed, session, check)


async def cancel_batch(store: Store) -> Trial:
    session = fresh("session")
    batch = await store.inbox.enqueue(message("hello", session))

    async def check(answer: InboxBatch | None) -> None:
        assert answer is not None, "this very call cancelled it"
        assert (answer.state, answer.items) == (BatchState.CANCELLED, batch.items)
        assert await store.inbox.list(session) == []

    landed = "SELECT count(*) FROM holdfast.inbox_batches WHERE session_id = $1 AND state = 'cancelled'"
    return Trial(lambda store: store.inbox.cancel(session, batch.batch_id), landed, session, check)


async def create_namespace(store: Store) -> Trial:
    name = fresh("namespace")

    async def check(answer: bool) -> None:
        assert answer, "this very call made it"

    landed = "SELECT count(*) FROM holdfast.namespaces WHERE namespace = $1"
    return Trial(lambda store: store.namespaces.create(name), landed, name, check)


async def claim_inbox(store: Store) -> Trial:
    session, token = fresh("session"), fresh("token")
    await store.inbox.enqueue(message("one", session))

    async def check(answer: Claim | None) -> None:
        assert answer is not None
        assert (answer.fence, len(answer.batches), answer.token) == (1, 1, token)
        assert await store.inbox.list_pending(session) == []

    return Trial(
        lambda store: _claim_inbox(store, session, token),
        "SELECT claim_fence FROM holdfast.inbox_batches WHERE session_id = $1",
        session,
        check,
    )


async def _claim_inbox(store: Store, session: str, token: str) -> Claim | None:
    return await store.inbox.claim(session, "owner", Boundary.IDLE, ttl_us=MINUTE, max_batches=5, token=token)


async def commit_turn(store: Store) -> Trial:
    """A stamped turn that completes what it claimed."""
    session = fresh("session")
    await store.inbox.enqueue(message("one", session))
    held = await _claim_inbox(store, session, fresh("token"))
    assert held is not None
    turn = stamp_commit(
        TurnCommit(
            session_id=session,
            nodes=(node("n1"), node("n2", "n1", LARGE)),
            checkpoint=SessionCheckpoint(),
            expected_revision=0,
            completes=(
                Completion(held.claim_id, held.token, tuple(batch.batch_id for batch in held.batches)),
            ),
        ),
        "turn-1",
    )

    async def check(answer: Any) -> None:
        view = await store.sessions.load(session)
        assert view is not None
        assert (answer.revision, answer.checkpoint_ref) == (1, view.checkpoint_ref)
        assert view.revision == 1
        assert len(view.graph.nodes) == 2
        assert await store.inbox.list(session) == []

    landed = "SELECT revision FROM holdfast.sessions WHERE session_id = $1"
    return Trial(lambda store: store.sessions.commit(turn), landed, session, check)


async def fire(store: Store) -> Trial:
    """The job and the move of its schedule, by this very call."""
    name = fresh("schedule")
    one = await store.schedules.put(Schedule(schedule_id=name, kind="work", cron="0 * * * *", next_at=MINUTE))
    job = make_job(msgspec.structs.replace(one, queue=fresh("queue")), MINUTE)

    async def check(answer: SubmittedJob | None) -> None:
        assert answer is not None, "nobody else fired it"
        assert answer.created
        assert (await store.schedules.get(name)).next_at == 2 * MINUTE
        await check_journal(store, answer.job_id)

    landed = "SELECT count(*) FROM holdfast.jobs WHERE request_key = $1"
    return Trial(
        lambda store: store.schedules.fire(one, job, 2 * MINUTE), landed, str(job.request_key), check
    )


async def remove_schedule(store: Store) -> Trial:
    name = fresh("schedule")
    await store.schedules.put(Schedule(schedule_id=name, kind="work", cron="0 * * * *", next_at=MINUTE))

    async def check(answer: bool) -> None:
        assert answer, "this very call removed it"

    landed = "SELECT 1 - count(*) FROM holdfast.schedules WHERE schedule_id = $1"
    return Trial(lambda store: store.schedules.remove(name), landed, name, check)


async def make_key(store: Store) -> Trial:
    """The key, and its one line in the audit log."""
    key = ApiKey(key_id=fresh("key"), digest=bytes(32), roles=(Role.VIEWER,), name="ci")

    async def check(answer: ApiKey) -> None:
        assert await store.keys.find(key.key_id) == answer
        assert await _lines_of(store, key.key_id) == ["key.create"]

    landed = "SELECT count(*) FROM holdfast.api_keys WHERE key_id = $1"
    act = ActDraft(act_id=fresh("act"), what="key.create", who="ada", object=key.key_id)
    return Trial(lambda store: store.keys.create(key, act), landed, key.key_id, check)


async def revoke_key(store: Store) -> Trial:
    key = ApiKey(key_id=fresh("key"), digest=bytes(32), roles=(Role.VIEWER,), name="ci")
    await store.keys.create(
        key, ActDraft(act_id=fresh("act"), what="key.create", who="ada", object=key.key_id)
    )

    async def check(answer: ApiKey) -> None:
        assert answer.revoked_at is not None
        assert await _lines_of(store, key.key_id) == ["key.create", "key.revoke"]

    landed = "SELECT count(*) FROM holdfast.api_keys WHERE key_id = $1 AND revoked_at IS NOT NULL"
    act = ActDraft(act_id=fresh("act"), what="key.revoke", who="ada", object=key.key_id)
    return Trial(lambda store: store.keys.revoke(key.key_id, act), landed, key.key_id, check)


async def write_act(store: Store) -> Trial:
    act = ActDraft(act_id=fresh("act"), what="job.cancel", who="ada", object=fresh("job"))

    async def check(answer: Act) -> None:
        assert await _lines_of(store, answer.object) == ["job.cancel"]

    landed = "SELECT count(*) FROM holdfast.audit_acts WHERE act_id = $1"
    return Trial(lambda store: store.audit.write(act), landed, act.act_id, check)


async def _lines_of(store: Store, what: str) -> list[str]:
    """What the log says of this thing; the log as a whole is in order."""
    lines = await store.audit.read(limit=10_000)
    assert list(find_breaks("default", EMPTY, lines)) == []
    return [line.what for line in map(read_act, lines) if line.object == what]


OPERATIONS: tuple[Operation, ...] = (
    submit,
    submit_unnamed,
    append,
    append_with_rows,
    append_last,
    append_many,
    hold,
    claim,
    send,
    enqueue,
    enqueue_unnamed,
    cancel_batch,
    claim_inbox,
    commit_turn,
    create_namespace,
    fire,
    remove_schedule,
    make_key,
    revoke_key,
    write_act,
)
