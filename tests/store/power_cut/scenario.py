"""A worker's day on a disk that remembers it: every kind of write, and what each acknowledgement promised."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from holdfast.model.append import Extras, Move, Timer
from holdfast.model.events import JobCompleted, JobWaiting, TurnCommitted
from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ids import SequentialIds
from holdfast.model.inbox import Boundary, Claim
from holdfast.model.jobs import JobDraft
from holdfast.model.mailbox import MailDraft
from holdfast.model.session import (
    Frame,
    SessionCheckpoint,
    SessionMeta,
    SessionNode,
    TurnCommit,
    Usage,
    stamp_commit,
)
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import MailKind, Status, WaitReason
from holdfast.model.time import MINUTE
from holdfast.store.clock import VirtualClock
from holdfast.store.ports.attachments import AttachmentIntent
from holdfast.store.ports.leases import ClaimRequest
from holdfast.store.sqlite.executor import SqliteExecutor
from holdfast.store.sqlite.open import open_sqlite
from holdfast.store.tables.store import SqlStore
from holdfast.testing.conformance.drafts import call_row, intent_of, make_settled_row, message, outcome_of
from holdfast.testing.conformance.driver import Driver, step
from tests.store.power_cut.evidence import Eye, Fact
from tests.store.power_cut.recording_disk import PowerCutDisk, Tape

FILE: Final = "store.db"
CHECKPOINT_PAGES: Final = 50
"""Small, so that the log is copied back and started over several times within the scenario."""

JOB = "SELECT 1 FROM jobs JOIN job_heads USING (job_id) WHERE job_id = ?"
EVENT = "SELECT 1 FROM events WHERE job_id = ? AND seq = ? AND hash = ?"
FENCE = "SELECT 1 FROM job_heads WHERE job_id = ? AND fence >= ?"
CALL = "SELECT 1 FROM tool_calls WHERE idempotency_key = ? AND status = ?"
LETTER = "SELECT 1 FROM mail WHERE job_id = ? AND mail_seq = ? AND operation_id = ?"
BATCH = "SELECT 1 FROM inbox_batches WHERE session_id = ? AND batch_id = ? AND enqueue_seq = ?"
CLAIMED = "SELECT 1 FROM inbox_batches WHERE session_id = ? AND batch_id = ? AND claim_fence >= ?"
SETTLED = "SELECT 1 FROM inbox_batches WHERE session_id = ? AND batch_id = ? AND state = 'completed' AND settled_by = ?"
TURN = "SELECT 1 FROM turns WHERE session_id = ? AND turn_id = ? AND revision = ?"
META = "SELECT 1 FROM sessions WHERE session_id = ? AND meta IS NOT NULL"
ATTACHMENT = "SELECT 1 FROM attachments WHERE attachment_id = ?"
BLOB = "SELECT 1 FROM blobs WHERE digest = ? AND length(body) = ?"
NAMESPACE = "SELECT 1 FROM namespaces WHERE namespace = ?"
STORE = "SELECT 1 FROM store_state WHERE store_id = ?"


class Ack(msgspec.Struct, frozen=True):
    """Somebody was told yes after `at` steps of the disk; these facts are what the yes was about."""

    name: str
    at: int
    facts: tuple[Fact, ...]


class Recording(msgspec.Struct, frozen=True):
    tape: Tape
    acks: tuple[Ack, ...]

    def eye(self) -> Eye:
        """Looks for everything that was promised."""
        return Eye(fact for ack in self.acks for fact in ack.facts)


class Scenario:
    def __init__(self, path: Path, disk: PowerCutDisk, *, relaxed: bool) -> None:
        self._path = path
        self._disk = disk
        self._relaxed = relaxed
        self._clock = VirtualClock()
        self._opened = 0
        self._store: SqlStore
        self.acks: list[Ack] = []

    def ack(self, name: str, *facts: Fact) -> None:
        # The clock moves with every step, so that no two moments of the store look alike.
        self.acks.append(Ack(name, len(self._disk), facts))
        self._clock.advance(1000)

    async def play(self) -> None:
        await self.open()
        await self.first_job()
        await self.many_jobs()
        await self.conversation()
        await self.reopen()
        await self.ledger()
        await self.job_with_a_turn()
        await self.busy_session()
        await self._store.close()

    # ── opening ───────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        self._opened += 1
        ids = SequentialIds(self._opened)
        self._store = await open_sqlite(
            self._path, clock=self._clock, ids=ids, vfs=self._disk.name, relaxed=self._relaxed
        )
        executor = self._store.executor
        assert isinstance(executor, SqliteExecutor)
        executor.writer.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        info = await self._store.info()
        self.ack("open", (STORE, (info.store_id,)))

    async def reopen(self) -> None:
        """The log is copied back, removed, and begun again."""
        await self._store.close()
        await self.open()

    # ── jobs ──────────────────────────────────────────────────────────────────────────────────────

    async def submit(self, kind: str, **fields: object) -> str:
        draft = msgspec.structs.replace(JobDraft(kind=kind), **fields)
        submitted = await self._store.jobs.submit(draft)
        self.ack(f"submit {kind}", (JOB, (submitted.job_id,)))
        return submitted.job_id

    async def claim(self, queue: str, limit: int = 1) -> list[Driver]:
        ask = ClaimRequest(worker="w", token=f"token {len(self.acks)}", queues=(queue,), limit=limit)
        grants = await self._store.leases.claim(ask)
        assert len(grants) == limit
        facts: list[Fact] = [(EVENT, (grant.job_id, grant.head_seq, grant.head_hash)) for grant in grants]
        facts += [(FENCE, (grant.job_id, grant.fence)) for grant in grants]
        self.ack(f"claim {queue}", *facts)
        return [Driver(self._store, self._clock, grant) for grant in grants]

    async def send(self, job_id: str, kind: MailKind, body: object = None) -> None:
        operation = f"letter {len(self.acks)}"
        sent = await self._store.post.send(
            MailDraft(job_id=job_id, kind=kind, operation_id=operation, body=body)
        )
        self.ack(f"{kind} letter", (LETTER, (job_id, sent.mail_seq, operation)))

    async def first_job(self) -> None:
        await self.submit("report", queue="one", input={"about": "the sea"}, request_key="r-1")
        (driver,) = await self.claim("one")
        for number in range(3):
            append = await driver.write(step(f"look {number}", {"seen": "waves " * 50}))
            self.ack("append", *events(driver.job_id, append.events))
        append = await driver.write(*(step(f"note {number}") for number in range(5)))
        self.ack("append of five events", *events(driver.job_id, append.events))
        timer = Extras(timers=(Timer("1/tide#1", self._clock.wall_us() + MINUTE),))
        waiting = Move(status=Status.WAITING, reason=WaitReason.SIGNAL)
        append = await driver.write(JobWaiting(reason="signal"), move=waiting, mail_seen=0, extras=timer)
        self.ack("wait for a signal", *events(driver.job_id, append.events))
        await self.send(driver.job_id, MailKind.SIGNAL, {"tide": "low"})
        (driver,) = await self.claim("one")
        append = await driver.complete({"report": "blue"})
        self.ack("complete", *events(driver.job_id, append.events))

    async def many_jobs(self) -> None:
        """Several jobs in one commit, and a body that does not fit its row."""
        drafts = [JobDraft(kind="part", queue="many", input={"part": part}) for part in range(6)]
        submitted = await self._store.jobs.submit_many(drafts)
        self.ack("submit six", *((JOB, (each.job_id,)) for each in submitted))
        drivers = await self.claim("many", 6)
        for number in range(2):
            appends = [driver.build(step(f"part {number}", {"text": "x" * 700})) for driver in drivers[:3]]
            heads = await self._store.journal.append_many(appends)
            assert heads == [append.head for append in appends]
            self.ack("append to three jobs", *(f for a in appends for f in events(a.job_id, a.events)))
            for driver, append in zip(drivers, appends, strict=False):
                driver.holder = msgspec.structs.replace(driver.holder, head=append.head)
        large = {"scan": "lorem ipsum " * 2000}
        append = await drivers[3].write(step("scan", large))
        digest = append.events[0].body_digest
        body = append.events[0].body or b""
        self.ack("large append", *events(append.job_id, append.events), (BLOB, (digest, len(body))))
        await self.send(drivers[4].job_id, MailKind.CANCEL)

    async def ledger(self) -> None:
        job_id = await self.submit("mailing", queue="tools")
        (driver,) = await self.claim("tools")
        row = call_row(driver, "1/send#1")
        append = await driver.write(intent_of(row), extras=Extras(calls=(row,)))
        self.ack("intent", *events(job_id, append.events))
        row = make_settled_row(driver, row, CallStatus.SUCCEEDED)
        child = JobDraft(kind="child", queue="children", job_id="child-1", parent_job_id=job_id)
        letter = MailDraft(job_id="child-1", kind=MailKind.SIGNAL, operation_id="hello")
        append = await driver.write(
            outcome_of(row), extras=Extras(calls=(row,), children=(child,), letters=(letter,))
        )
        key = (CALL, (row.idempotency_key, str(CallStatus.SUCCEEDED)))
        self.ack(
            "receipt, child and letter",
            *events(job_id, append.events),
            key,
            (JOB, ("child-1",)),
            (LETTER, ("child-1", 1, "hello")),
        )

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    async def enqueue(self, text: str, session_id: str) -> None:
        batch = await self._store.inbox.enqueue(message(text, session_id))
        self.ack("enqueue", (BATCH, (session_id, batch.batch_id, batch.enqueue_seq)))

    async def claim_inbox(self, session_id: str) -> Claim:
        claim = await self._store.inbox.claim(
            session_id, "w", Boundary.IDLE, ttl_us=MINUTE, max_batches=4, token=f"token {len(self.acks)}"
        )
        assert claim is not None
        held = [(CLAIMED, (session_id, batch.batch_id, claim.fence)) for batch in claim.batches]
        self.ack("claim the inbox", *held)
        return claim

    async def commit(self, claim: Claim, turn_id: str, text: str, state: bytes | None = None) -> None:
        turn = turn_of(claim, turn_id, text, SessionCheckpoint(turn_index=1, tool_state=state))
        committed = await self._store.sessions.commit(turn)
        self.ack("turn", *turn_facts(turn, turn_id, committed.revision))

    async def conversation(self) -> None:
        created = await self._store.namespaces.create("harbour")
        assert created
        self.ack("namespace", (NAMESPACE, ("harbour",)))
        await self._store.sessions.save_meta(SessionMeta(session_id="talk", name="A talk"))
        self.ack("meta", (META, ("talk",)))
        await self.enqueue("hello", "talk")
        await self.enqueue("are you there", "talk")
        intent = AttachmentIntent("photo", "talk", "sha256:00", self._clock.wall_us())
        await self._store.attachments.record_intent(intent)
        self.ack("attachment", (ATTACHMENT, ("photo",)))
        body = bytes(range(256)) * 100
        digest = await self._store.blobs.put(body)
        self.ack("blob", (BLOB, (bytes.fromhex(digest), len(body))))
        await self.commit(await self.claim_inbox("talk"), "t1", "hi")
        state = b"state " * 4000
        await self.commit(await self.claim_inbox("talk"), "t2", "yes", state)
        self.ack("its state", (BLOB, (hashlib.sha256(state).digest(), len(state))))

    async def job_with_a_turn(self) -> None:
        """The turn of a session and the end of the job that made it are one write."""
        job_id = await self.submit("answer", queue="answers", session_id="talk")
        (driver,) = await self.claim("answers")
        await self.enqueue("one more thing", "talk")
        claim = await self.claim_inbox("talk")
        turn = turn_of(claim, "t3", "of course", SessionCheckpoint(turn_index=3))
        append = await driver.write(
            TurnCommitted("talk", "t3", 3, tuple(batch.batch_id for batch in claim.batches)),
            JobCompleted(output="answered"),
            move=Move(status=Status.COMPLETED),
            mail_seen=0,
            extras=Extras(turn=turn),
        )
        self.ack("job and turn", *events(job_id, append.events), *turn_facts(turn, "t3", 3))

    async def busy_session(self) -> None:
        for number in range(2):
            await self.enqueue(f"question {number}", "busy")
            await self.commit(await self.claim_inbox("busy"), f"b{number}", "answer " * 300)


def events(job_id: str, sealed: tuple[SealedEvent, ...]) -> list[Fact]:
    return [(EVENT, (job_id, event.seq, event.hash)) for event in sealed]


def turn_of(claim: Claim, turn_id: str, text: str, checkpoint: SessionCheckpoint) -> TurnCommit:
    commit = TurnCommit(
        session_id=claim.session_id,
        nodes=(SessionNode(node_id=f"node {turn_id}", body={"text": text}),),
        frames=(Frame(frame_id=f"frame {claim.session_id}", assignment={"to": "answer"}),),
        checkpoint=checkpoint,
        usage=(Usage(source="chat", model="m", input_tokens=3, output_tokens=5),),
        completes=(claim.completion(),),
    )
    return stamp_commit(commit, turn_id)


def turn_facts(turn: TurnCommit, turn_id: str, revision: int) -> list[Fact]:
    (completion,) = turn.completes
    settled = [(SETTLED, (turn.session_id, batch_id, turn_id)) for batch_id in completion.batch_ids]
    return [(TURN, (turn.session_id, turn_id, revision)), *settled]


async def record(folder: Path, *, relaxed: bool) -> Recording:
    """The scenario, played once on a file in this folder."""
    with PowerCutDisk(f"power-cut-{'relaxed' if relaxed else 'full'}") as disk:
        scenario = Scenario(folder / FILE, disk, relaxed=relaxed)
        await scenario.play()
        return Recording(disk.tape, tuple(scenario.acks))
