"""A job is resumed from its last checkpoint: as much is read as lies behind it, and what is known is the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from holdfast.engine import journal_loader
from holdfast.engine.checkpoints import checkpoint, restore_state
from holdfast.engine.children import spawn
from holdfast.engine.execution import Execution
from holdfast.engine.suspension import sleep, wait
from holdfast.errors import Broken, StoreCorrupt
from holdfast.model.checkpoint_snapshot import pack_snapshot, take_snapshot
from holdfast.model.events import (
    BudgetReached,
    CancelRequested,
    CheckpointSaved,
    ChildFinished,
    ChildStarted,
    Event,
    JobClaimed,
    JobCreated,
    SignalReceived,
    StepFinished,
)
from holdfast.model.hash_chain import EMPTY, SealedEvent, seal
from holdfast.model.jobs import JobDraft
from holdfast.model.lease import Grant
from holdfast.model.limits import CARRIED_BYTES_MAX
from holdfast.model.replay_history import History
from holdfast.model.states import MailKind, Status
from holdfast.model.time import HOUR
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.testing.conformance.harness import Backend
from tests.engine.shop import Shop, opened
from tests.support.fixtures.stores import STORES

on_every_store = pytest.mark.parametrize("backend", STORES, indirect=True)


class Reading:
    """A desk that knows how many events were read at it, by which calls."""

    def __init__(self, shop: Shop) -> None:
        self.events: Counter[str] = Counter()
        self.desk = msgspec.structs.replace(shop.desk(), store=InterceptedStore(shop.store, self._count))

    async def _count(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        answer = await call(*args, **options)
        if name in {"journal.read", "journal.since_commit"}:
            self.events[name] += len(answer)
        return answer


@on_every_store
async def test_what_lies_before_a_checkpoint_is_not_read(backend: Backend) -> None:
    """Goal: a resume costs what follows the checkpoint, however long the job has run. Method: two jobs, one with ten
    times the steps; the same few events are read to go on with either, and no step runs twice."""
    async with opened(backend) as shop:

        async def pages(drive: Execution, given: Any) -> Any:
            state = restore_state(drive)
            if state is None:
                state = [await shop.look(drive, f"{given}:{page}") for page in range(given)]
                await checkpoint(drive, state)
            last = await shop.look(drive, f"{given}:last")
            await sleep(drive, HOUR)
            return [*state, last]

        read: list[Counter[str]] = []
        for steps in (10, 100):
            job_id = await shop.submit(pages, steps)
            assert await shop.drive_all() == ["waiting"]
            backend.clock.advance(HOUR)
            reading = Reading(shop)
            assert await (await shop.claim(desk=reading.desk)).go() == "completed"
            read.append(reading.events)
            assert len((await shop.job(job_id)).output) == steps + 1
        # The first, the one before, the checkpoint, the step, the timer, the wait, and the claim.
        assert read == [Counter({"journal.since_commit": 7})] * 2
        assert set(shop.done.values()) == {1}


@on_every_store
async def test_what_is_still_to_come_comes_after_the_checkpoint(backend: Backend) -> None:
    """Signals that nobody had taken are there after a checkpoint, in their order, and after the next one. What the job
    knows at each claim is what its whole journal says."""
    async with opened(backend) as shop:

        async def child(drive: Execution, _: Any) -> Any:
            return await wait(drive, "go on")

        async def parent(drive: Execution, _: Any) -> Any:
            if restore_state(drive) is None:
                helper = asyncio.ensure_future(spawn(drive, JobDraft(kind="child")))
                await shop.look(drive, "begun")
                helper.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await helper
                await wait(drive, "start")
                await checkpoint(drive, "started")
            heard = [await wait(drive, "word"), await wait(drive, "other")]
            await sleep(drive, HOUR)
            await checkpoint(drive, "heard")
            return [*heard, await wait(drive, "word")]

        shop.programs["child"] = child
        job_id = await shop.submit(parent)
        assert "waiting" in await shop.drive_all()
        for name, body in [("other", 1), ("word", 2), ("word", 3), ("start", 4)]:
            await shop.tell(job_id, MailKind.SIGNAL, body, name=name)
        for _ in range(2):
            await shop.drive_all()
            await _is_known_the_same(shop, job_id)
            backend.clock.advance(HOUR)
        job = await shop.job(job_id)
        assert (job.status, job.output) == (Status.COMPLETED, [2, 1, 3])
        (child_id,) = job.children.values()
        assert (await shop.store.jobs.head(child_id)).status is Status.CANCELLED, "its parent is over"
        saved = [event for event in await shop.events(job_id) if isinstance(event, CheckpointSaved)]
        assert [sorted(one.carries) for one in saved] == [
            ["born", "claims", "mail_seq", "origin", "signals", "worker"]
        ] * 2


async def _is_known_the_same(shop: Shop, job_id: str) -> None:
    journal = shop.store.journal
    whole, shortened = await journal.read(job_id), await journal.since_commit(job_id)
    assert len(shortened) < len(whole)
    _must_agree(job_id, whole, shortened)


def _must_agree(job_id: str, whole: Sequence[SealedEvent], shortened: Sequence[SealedEvent]) -> None:
    """Whoever reads either knows the same; of the fold, as far as keys of calls do not restart with a commit."""
    one, other = History(), History()
    job, created = journal_loader.replay_events(job_id, whole, one)
    job_again, created_again = journal_loader.replay_events(job_id, shortened, other)
    assert created == created_again
    for name in ("seq", "fence", "status", "wait_reason", "wake_at", "claims", "commits", "mail_seq"):
        assert getattr(job, name) == getattr(job_again, name), name
    assert take_snapshot(one) == take_snapshot(other)
    assert _known(one) == _known(other)


def _known(history: History) -> dict[str, Any]:
    """All of it, but for what is compared as it is carried, and a report that is about calls before the commit."""
    return {
        name: value for name, value in vars(history).items() if name not in {"signals", "stops", "_parked"}
    }


# ── journals without a store ──────────────────────────────────────────────────────────────────────

JOB = "job-1"


def journal(*events: Event) -> list[SealedEvent]:
    first, head = seal(JOB, EMPTY, 0, 1, [JobCreated("errand", input="bread")])
    return [*first, *seal(JOB, head, 1, 1, [JobClaimed("w1"), *events])[0]]


def step(number: int, ordinal: int = 0) -> StepFinished:
    return StepFinished(f"{ordinal}/look#{number}", "d", result=number)


def committed(*before: Event) -> CheckpointSaved:
    """The checkpoint that code would make after these events."""
    history = History()
    journal_loader.replay_events(JOB, journal(*before), history)
    return CheckpointSaved(1, "state", carries=pack_snapshot(take_snapshot(history)))


def shortened(sealed: Sequence[SealedEvent]) -> list[SealedEvent]:
    """As the store gives it."""
    commit = next(one.seq for one in reversed(sealed) if one.type == CheckpointSaved.type)
    return [sealed[0], *sealed[commit - 2 :]]


BEFORE = (
    step(1),
    SignalReceived("paid", 1, {"cents": 7}),
    ChildStarted("0/spawn#1", "job-2"),
    ChildStarted("0/spawn#2", "job-3"),
    ChildFinished("0/spawn#2", "job-3", "completed", mail_seq=2),
    BudgetReached("usd", allowed=5, budget_id=JOB),
    step(2),
)
AFTER = (step(1, 1), ChildFinished("0/spawn#1", "job-2", "completed", mail_seq=3))
SAVED = journal(*BEFORE, committed(*BEFORE), *AFTER)


@pytest.mark.parametrize("after", range(len(AFTER) + 1))
def test_wherever_a_shortened_journal_ends_it_says_what_the_whole_one_says(after: int) -> None:
    """Also while the child of before the checkpoint still runs."""
    sealed = journal(*BEFORE, committed(*BEFORE), *AFTER[:after])
    _must_agree(JOB, sealed, shortened(sealed))


def test_a_shortened_journal_says_what_the_whole_one_says() -> None:
    assert [one.seq for one in shortened(SAVED)] == [1, 9, 10, 11, 12]
    _must_agree(JOB, SAVED, shortened(SAVED))
    history = History()
    journal_loader.replay_events(JOB, shortened(SAVED), history)
    assert (history.state, history.children, history.born, history.heard) == ("state", {}, 2, 3)
    assert history.stops.allowed == {(JOB, "usd"): 5}
    assert history.find("1/look#1", "d") is not None
    assert history.find("0/look#1", "d") is None, "what the state has grown from is forgotten"
    signal = history.next_signal("paid")
    assert signal is not None
    assert signal.body == {"cents": 7}


def changed(one: SealedEvent, event: Event) -> SealedEvent:
    """Another fact in its place, with a body and a digest that fit each other."""
    (sealed,), _ = seal(JOB, EMPTY, one.fence, one.at, [event])
    return msgspec.structs.replace(one, body=sealed.body, body_digest=sealed.body_digest)


OTHER_STATE = msgspec.structs.replace(committed(*BEFORE), state="another")
FORGOTTEN = msgspec.structs.replace(
    committed(*BEFORE), carries=msgspec.json.decode(msgspec.json.encode(committed().carries))
)
DAMAGE: dict[str, Callable[[list[SealedEvent]], None]] = {
    "another input": lambda sealed: sealed.__setitem__(0, journal_of("cake")[0]),
    "an input that was changed": lambda sealed: sealed.__setitem__(
        0, changed(sealed[0], JobCreated("errand", input="cake"))
    ),
    "another state": lambda sealed: sealed.__setitem__(2, changed(sealed[2], OTHER_STATE)),
    "another past": lambda sealed: sealed.__setitem__(2, changed(sealed[2], FORGOTTEN)),
    "another step": lambda sealed: sealed.__setitem__(3, changed(sealed[3], step(9, 1))),
    "a forged link": lambda sealed: sealed.__setitem__(1, msgspec.structs.replace(sealed[1], hash=bytes(32))),
    "a step less": lambda sealed: sealed.__delitem__(3),
    "no link": lambda sealed: sealed.__delitem__(1),
    "no checkpoint": lambda sealed: sealed.__delitem__(2),
    "neither": lambda sealed: sealed.__delitem__(slice(1, 3)),
}


def journal_of(given: str) -> list[SealedEvent]:
    return list(seal(JOB, EMPTY, 0, 1, [JobCreated("errand", input=given)])[0])


@pytest.mark.parametrize("damage", DAMAGE)
def test_nothing_that_is_used_can_be_changed(damage: str) -> None:
    """Every row that a shortened journal is told from hangs on the head: changed as well as one can without the head,
    it is refused."""
    sealed = shortened(journal(*BEFORE, committed(*BEFORE), step(1, 1), step(2, 1)))
    journal_loader.replay_events(JOB, sealed, History())
    DAMAGE[damage](sealed)
    with pytest.raises((Broken, StoreCorrupt)):
        journal_loader.replay_events(JOB, sealed, History())


class OneJournal:
    """A store's journal with one job in it, that says how it was read."""

    def __init__(self, sealed: list[SealedEvent]) -> None:
        self._sealed = sealed
        self.calls: list[str] = []

    async def read(self, _job_id: str, *, limit: int) -> list[SealedEvent]:
        self.calls.append("read")
        return self._sealed[:limit]

    async def since_commit(self, _job_id: str, *, limit: int) -> list[SealedEvent]:
        self.calls.append("since_commit")
        return shortened(self._sealed)


SIGNALS = tuple(SignalReceived("paid", number, "x" * 1000) for number in range(1, 12))
UNCARRIED = {
    "written before anything was carried": (*BEFORE, CheckpointSaved(1)),
    "with too much to carry": (*SIGNALS, committed(*SIGNALS)),
    "of a job that somebody wants to end": (
        *BEFORE,
        CancelRequested("ann"),
        committed(*BEFORE, CancelRequested("ann")),
    ),
    "of a newer Holdfast": (*BEFORE, CheckpointSaved(1, carries={"origin": "0" * 64, "moods": 3})),
}


@pytest.mark.parametrize("which", UNCARRIED)
async def test_a_checkpoint_that_carries_nothing_is_found_in_the_whole_journal(which: str) -> None:
    sealed = journal(*UNCARRIED[which], step(1, 1))
    one = OneJournal(sealed)
    assert await journal_loader.load_journal(one, _grant(sealed), 4) == sealed  # type: ignore[arg-type]
    assert one.calls == ["since_commit", "read"]
    journal_loader.replay_events(JOB, sealed, History())


async def test_a_short_journal_is_read_whole() -> None:
    one = OneJournal(SAVED)
    assert await journal_loader.load_journal(one, _grant(SAVED), len(SAVED)) == SAVED  # type: ignore[arg-type]
    assert one.calls == ["read"]


def _grant(sealed: Sequence[SealedEvent]) -> Grant:
    head = {"head_seq": sealed[-1].seq, "head_hash": sealed[-1].hash}
    nothing = dict.fromkeys(("mail_seq", "attempts", "takeovers", "lease_expires_at"), 0)
    return msgspec.convert(
        {
            "job_id": JOB,
            "namespace": "default",
            "kind": "errand",
            "queue": "default",
            "session_id": None,
            "fence": 1,
            "lease_token": "token",
            "takeover": False,
            **head,
            **nothing,
        },
        Grant,
        builtin_types=(bytes,),
    )


def test_what_is_carried_has_a_limit() -> None:
    assert committed(*SIGNALS).carries is None
    few = committed(*SIGNALS[:3]).carries
    assert len(msgspec.json.encode(few)) <= CARRIED_BYTES_MAX
