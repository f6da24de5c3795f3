"""Journals that break a rule and nothing else: `verify` names that rule, and the event. Journals that look much like
them and break none are clean."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import pytest

from holdfast.engine.verify.concurrency_checks import LeaseSpan, count_concurrent
from holdfast.engine.verify.journal_checks import JournalLimits
from holdfast.engine.verify.verify import verify
from holdfast.model import events as e
from holdfast.model.hash_chain import body_of
from holdfast.model.time import SECOND
from holdfast.store.executor import Transaction
from holdfast.store.tables.job_heads import head_of
from holdfast.store.tables.store import SqlStore
from tests.store.verify.forge import JOB, START, Told, forge
from tests.support.fixtures.stores import PostgresBackend, SqliteBackend

SQL_STORES = ("sqlite", "postgres")

Steps = tuple[tuple[int, e.Event], ...]


class Case(NamedTuple):
    """`seq` is the event that the finding names; 0 for one that names none."""

    name: str
    told: Told
    invariants: set[str]
    seq: int = 0
    letters: Sequence[str] = ()


def at(fence: int, *events: e.Event) -> Steps:
    return tuple((fence, event) for event in events)


BORN = at(0, e.JobCreated("report"))
HELD = (*BORN, *at(1, e.JobClaimed("w1")))
DONE = at(1, e.JobCompleted("done"))
GIVEN_BACK = at(1, e.JobReleased())


def called(
    key: str = "k0",
    *,
    generation: int = 0,
    attempt: int = 1,
    effect: str = "unsafe",
    digest: str = "d",
    step: str = "0/send#1",
    approval: str | None = None,
) -> e.ToolCalled:
    return e.ToolCalled(
        step, "send", effect, digest, key, generation=generation, attempt=attempt, approval_id=approval
    )


def returned(*, generation: int = 0, adopted: bool = False) -> e.ToolReturned:
    return e.ToolReturned("0/send#1", generation, result="ok", adopted=adopted)


def read(generation: int = 0, *, digest: str = "d", outcome: str = "succeeded") -> e.StepFinished:
    return e.StepFinished("0/look#1", digest, outcome=outcome, result=1, generation=generation)


UNCERTAIN = e.ToolUncertain("0/send#1", why="cut off")
NOT_HAPPENED = e.ToolReconciled("0/send#1", "not_happened", by="ann", why="looked")
ASKED = e.ApprovalRequested("ap1", "0/send#1", "d", expires_at=START + 100 * SECOND)
APPROVED = e.ApprovalDecided("ap1", "approved", by="ann", mail_seq=1)
DENIED = e.ApprovalDecided("ap1", "denied", by="ann", mail_seq=1)
APPROVAL = ("approval",)
SIGNAL = e.SignalReceived("paid", 1, None)
CANCEL = e.CancelRequested(by="ann", mail_seq=1)

ORIGIN = hashlib.sha256(body_of(BORN[0][1])).hexdigest()


def saved(**carries: object) -> e.CheckpointSaved:
    return e.CheckpointSaved(1, carries={"origin": ORIGIN, "worker": "w1", "claims": 1, **carries})


WAITING_SIGNAL = {"name": "paid", "mail_seq": 1, "body": None}

BROKEN = (
    Case(
        "a checkpoint that forgets a signal",
        (*HELD, *at(1, SIGNAL, saved(mail_seq=1)), *DONE),
        {"I9"},
        4,
        ("signal",),
    ),
    Case(
        "a checkpoint that makes a signal up",
        (*HELD, *at(1, saved(signals=[WAITING_SIGNAL])), *DONE),
        {"I9"},
        3,
    ),
    Case("a checkpoint of another job", (*HELD, *at(1, saved(origin="0" * 64)), *DONE), {"I9"}, 3),
    Case("a fence that fell", (*BORN, *at(2, e.JobClaimed("w1")), *at(1, read()), *GIVEN_BACK), {"I1"}, 3),
    Case("a claim under an old fence", (*HELD, *at(1, e.JobClaimed("w2")), *DONE), {"I2"}),
    Case(
        "a result after the job was given back",
        (*HELD, *at(1, called()), *GIVEN_BACK, *at(1, returned())),
        {"I3"},
        5,
    ),
    Case(
        "a plan made twice",
        (*HELD, *at(1, e.PlanGenerated("p", {}), e.PlanGenerated("p", {})), *DONE),
        {"I7"},
        4,
    ),
    Case(
        "a node that ends and never began",
        (*HELD, *at(1, e.PlanGenerated("p", {}), e.NodeFinished("p", "a")), *DONE),
        {"I7"},
        4,
    ),
    Case("a result without an intent", (*HELD, *at(1, returned()), *DONE), {"I7"}, 3),
    Case("a timer that rings and was not set", (*HELD, *at(1, e.TimerFired("0/sleep#1")), *DONE), {"I7"}, 3),
    Case("a word after the end", (*HELD, *DONE, *at(2, SIGNAL)), {"I7"}, 4, ("signal",)),
    Case("two ends", (*HELD, *DONE, *at(2, e.JobFailure())), {"I7"}, 4),
    Case("a step that finished twice", (*HELD, *at(1, read(), read()), *DONE), {"I10"}, 4),
    Case("a step made again under a new generation", (*HELD, *at(1, read(), read(1)), *DONE), {"I10"}, 4),
    Case(
        "a call sent again after its result",
        (
            *HELD,
            *at(1, called(effect="idempotent"), returned(), called(effect="idempotent", attempt=2)),
            *DONE,
        ),
        {"I10"},
        5,
    ),
    Case("two results of a call", (*HELD, *at(1, called(), returned(), returned()), *DONE), {"I10"}, 5),
    Case(
        "a new generation after a result",
        (*HELD, *at(1, called(), returned(), called("k1", generation=1), returned(generation=1)), *DONE),
        {"I10"},
        5,
    ),
    Case(
        "an unsafe call sent again by another worker",
        (
            *HELD,
            *at(1, called()),
            *at(2, e.JobClaimed("w2", takeover=True), called(attempt=2), returned(), e.JobCompleted()),
        ),
        {"I12"},
        5,
    ),
    Case(
        "a new generation while the last is uncertain",
        (*HELD, *at(1, called(), UNCERTAIN, called("k1", generation=1), returned(generation=1)), *DONE),
        {"I12"},
        5,
    ),
    Case(
        "an uncertain call that simply returned",
        (*HELD, *at(1, called(), UNCERTAIN, returned()), *DONE),
        {"I13"},
        5,
    ),
    Case(
        "an uncertain call sent again",
        (*HELD, *at(1, called(), UNCERTAIN, called(attempt=2), returned()), *DONE),
        {"I13"},
        5,
    ),
    Case(
        "one key for two calls",
        (*HELD, *at(1, called(), returned(), called(step="0/send#2")), *DONE),
        {"I14", "I8"},
        5,
    ),
    Case(
        "a key that changed its arguments",
        (*HELD, *at(1, called(effect="idempotent"), called(effect="idempotent", digest="e")), *DONE),
        {"I14"},
        4,
    ),
    Case("an approval nobody asked for", (*HELD, *at(1, called(approval="ap1")), *DONE), {"I15"}, 3),
    Case("a decision nobody asked for", (*HELD, *at(1, APPROVED), *DONE), {"I15"}, 3, APPROVAL),
    Case("an approval not given", (*HELD, *at(1, ASKED, called(approval="ap1")), *DONE), {"I15"}, 4),
    Case(
        "an approval denied",
        (*HELD, *at(1, ASKED, DENIED, called(approval="ap1")), *DONE),
        {"I15"},
        5,
        APPROVAL,
    ),
    Case(
        "an approval for other arguments",
        (*HELD, *at(1, ASKED, APPROVED, called(approval="ap1", digest="e")), *DONE),
        {"I15"},
        5,
        APPROVAL,
    ),
    Case(
        "an approval given too late",
        (
            *HELD,
            *at(
                1,
                e.ApprovalRequested("ap1", "0/send#1", "d", expires_at=1),
                APPROVED,
                called(approval="ap1"),
            ),
            *DONE,
        ),
        {"I15"},
        5,
        APPROVAL,
    ),
    Case(
        "an approval used twice",
        (
            *HELD,
            *at(1, ASKED, APPROVED, called(approval="ap1"), e.ToolFailed("0/send#1")),
            *at(1, called("k1", generation=1, approval="ap1")),
            *DONE,
        ),
        {"I15"},
        7,
        APPROVAL,
    ),
    Case("an approval asked for twice", (*HELD, *at(1, ASKED, ASKED), *DONE), {"I15"}, 4),
    Case(
        "two replies of a model",
        (*HELD, *at(1, e.LlmRequested("m", "x"), e.LlmResponded("m"), e.LlmResponded("m")), *DONE),
        {"I16"},
        5,
    ),
    Case(
        "a reply to an attempt never made",
        (*HELD, *at(1, e.LlmRequested("m", "x"), e.LlmResponded("m", attempt=2)), *DONE),
        {"I16"},
        4,
    ),
    Case("a dead letter without a cause", (*HELD, *at(1, e.JobDeadLettered())), {"I26"}, 3),
    Case("a call after the end", (*HELD, *DONE, *at(2, called())), {"I27"}, 4),
    Case(
        "a call after the cancel",
        (*HELD, *at(1, CANCEL, called(), e.JobCancellation())),
        {"I28"},
        4,
        ("cancel",),
    ),
    Case("an end that ignores the cancel", (*HELD, *at(1, CANCEL), *DONE), {"I28"}, 4, ("cancel",)),
    Case("one letter, two facts", (*HELD, *at(1, SIGNAL, SIGNAL), *DONE), {"I29"}, 4, ("signal",)),
    Case(
        "a word that woke nobody",
        (*HELD, *at(1, called(), UNCERTAIN, NOT_HAPPENED, e.JobWaiting("reconcile"))),
        {"I29"},
    ),
    Case(
        "a sleep over a call that is under way",
        (*HELD, *at(1, e.TimerSet("0/sleep#1", START), called(), e.JobWaiting("timer", START))),
        {"I13"},
        5,
    ),
    Case("a fact of no letter", (*HELD, *at(1, SIGNAL), *DONE), {"I29", "I8"}, 3),
    Case("a fact of another letter", (*HELD, *at(1, SIGNAL), *DONE), {"I29"}, 3, ("cancel",)),
)

HEALTHY = {
    "a checkpoint that carries what is still to come": (
        *HELD,
        *at(1, e.ChildStarted("0/spawn#1", "job-child"), read()),
        *at(1, saved(born=1, children={"job-child": "0/spawn#1"})),
        *DONE,
    ),
    "a checkpoint from before anything was carried": (*HELD, *at(1, e.CheckpointSaved(1)), *DONE),
    "a call that came too late and was intended again": (
        *HELD,
        *at(1, called(), called(attempt=2), returned()),
        *DONE,
    ),
    "a keyed call sent again by another worker": (
        *HELD,
        *at(1, called(effect="idempotent")),
        *at(2, e.JobClaimed("w2", takeover=True), called(effect="idempotent", attempt=2), returned()),
        *at(2, e.JobCompleted()),
    ),
    "a word on an uncertain call": (
        *HELD,
        *at(1, called(), UNCERTAIN, NOT_HAPPENED, called("k1", generation=1), returned(generation=1)),
        *DONE,
    ),
    "a wait for a word": (*HELD, *at(1, called(), UNCERTAIN, e.JobWaiting("reconcile"))),
    "evidence for an uncertain call": (*HELD, *at(1, called(), UNCERTAIN, returned(adopted=True)), *DONE),
    "a failure tried again": (
        *HELD,
        *at(1, read(outcome="failed"), e.JobRequeued(why="failed", rerun=("0/look#1",))),
        *at(2, e.JobClaimed("w1"), read(1), e.JobCompleted()),
    ),
    "an approval used": (*HELD, *at(1, ASKED, APPROVED, called(approval="ap1"), returned()), *DONE),
    "a model asked again after a crash": (
        *HELD,
        *at(1, e.LlmRequested("m", "x")),
        *at(2, e.JobClaimed("w2", takeover=True), e.LlmRequested("m", "x", attempt=2)),
        *at(2, e.LlmResponded("m", attempt=2), e.JobCompleted()),
    ),
    "a dead letter with its causes": (*HELD, *at(1, e.JobDeadLettered(("it failed",)))),
    "a sleep after a call was given up": (
        *HELD,
        *at(1, called(), e.CallCancelled("0/send#1", "d")),
        *at(1, e.TimerSet("0/sleep#1", START), e.JobWaiting("timer", START)),
    ),
    "a sleep": (*HELD, *at(1, e.TimerSet("0/sleep#1", START), e.JobWaiting("timer", START))),
    "a cancel that is obeyed": (*HELD, *at(1, e.CancelRequested(), e.JobCancellation())),
    "a cancel while a call is out": (
        *HELD,
        *at(1, called(), e.CancelRequested(), returned(), e.JobCancellation()),
    ),
}


async def opened(backend: SqliteBackend | PostgresBackend) -> SqlStore:
    store = await backend.open()
    assert isinstance(store, SqlStore)
    return store


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name.replace(" ", "_"))
async def test_the_broken_rule_is_named(backend: SqliteBackend | PostgresBackend, case: Case) -> None:
    """Forge a journal that breaks one rule; the report has that rule, the job and the event, and nothing else."""
    store = await opened(backend)
    try:
        await forge(store, case.told, case.letters)
        found = (await verify(store)).violations
        assert {violation.invariant for violation in found} == case.invariants, found
        assert {violation.subject for violation in found} == {JOB}
        if case.seq:
            assert any(f"event {case.seq}" in violation.detail for violation in found), found
    finally:
        await store.close()


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_a_healthy_journal_is_clean(backend: SqliteBackend | PostgresBackend) -> None:
    """Forge journals that come close to breaking a rule, and break none: nothing is found."""
    store = await opened(backend)
    try:
        for nth, told in enumerate(HEALTHY.values()):
            mine = [(fence, _with_key(event, f"j{nth}-")) for fence, event in told]
            needed = APPROVAL if any(isinstance(event, e.ApprovalDecided) for _, event in told) else ()
            await forge(store, mine, needed, job_id=f"job-{nth}")
        report = await verify(store)
        assert report.clean, report.violations
        assert report.jobs == len(HEALTHY)
    finally:
        await store.close()


def _with_key(event: e.Event, prefix: str) -> e.Event:
    """Keys are the jobs' own."""
    return (
        msgspec.structs.replace(event, key=prefix + event.key) if isinstance(event, e.ToolCalled) else event
    )


@pytest.mark.parametrize("backend", SQL_STORES, indirect=True)
async def test_limits_are_checked_when_they_are_known(backend: SqliteBackend | PostgresBackend) -> None:
    """Two jobs held by one worker at once, one of which failed twice: found by those who know the limits only."""
    store = await opened(backend)
    try:
        failing: Told = (
            *HELD,
            *at(1, e.JobRequeued(why="failed")),
            *at(2, e.JobClaimed("w1"), e.JobRequeued(why="failed")),
        )
        await forge(store, failing, job_id="job-1")
        await forge(store, (*HELD, *at(1, read()), *DONE), job_id="job-2")
        await store.executor.write(_fail_twice)
        assert (await verify(store)).clean
        assert (await verify(store, JournalLimits(attempts=2, concurrency=2))).clean
        strict = await verify(store, JournalLimits(attempts=1, concurrency={"w1": 1, "w2": 0}))
        assert [(one.invariant, one.subject) for one in strict.violations] == [
            ("I26", "job-1"),
            ("I30", "w1"),
        ]
    finally:
        await store.close()


async def _fail_twice(tx: Transaction) -> None:
    for _ in range(2):
        head = head_of(await tx.row("get_head", job_id="job-1") or ())
        await tx.run(
            "write_ruling",
            job_id="job-1",
            head_seq=head.head_seq,
            head_hash=head.head_hash,
            fence=head.fence,
            failed=1,
            anew=0,
            taken_over=0,
            status="pending",
            wait_reason=None,
            wake_at=None,
            requeues=0,
            ready_at=None,
        )


def test_holds_that_meet_are_counted() -> None:
    """One after the other is one at a time; what overlaps is not."""
    holds = [
        LeaseSpan("w", "a", 0, 10),
        LeaseSpan("w", "b", 10, 20),
        LeaseSpan("w", "c", 15, 30),
        LeaseSpan("v", "d", 3, 3),
    ]
    assert count_concurrent(holds) == {"w": 2, "v": 1}
