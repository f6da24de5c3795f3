"""Everything that happened, in one order: what the store made durable, and what reached the outside.

It sits between the faults and the store, where nobody lies: what it notes as durable is durable, whether or not anybody
heard. Rules of the kind "never before", "never after" are judged from its order alone; no clock takes part.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any, Final

import msgspec

from holdfast.errors import Fenced, MailWaiting, Unavailable
from holdfast.model import events as e
from holdfast.model.append import Append
from holdfast.model.hash_chain import Head, unseal
from holdfast.model.jobs import JobHead
from holdfast.model.lease import UNTIL_EXPIRED_US, Grant
from holdfast.model.mailbox import MailDraft, MailReceipt
from holdfast.model.states import MailKind
from holdfast.model.worker_lease import WorkerLease
from holdfast.store.contract import Store
from holdfast.store.interceptor import Call, InterceptedStore
from holdfast.store.ports.journal import Ruling
from holdfast.store.ports.leases import BeatResult, ClaimRequest, HeldLease
from holdfast.testing.virtual_loop import SimLoop


class Intent(msgspec.Struct, frozen=True):
    order: int
    at: float
    job_id: str
    key: str
    fence: int


class Fire(msgspec.Struct, frozen=True):
    """The first byte of a request left a process."""

    order: int
    job_id: str
    label: str
    kind: str
    key: str
    fence: int
    process: str


class Landing(msgspec.Struct, frozen=True):
    """A request reached its receiver; `effect` says whether it did anything there."""

    order: int
    job_id: str
    label: str
    kind: str
    key: str
    effect: bool
    receipt: int


class Look(msgspec.Struct, frozen=True):
    """A read was made for real."""

    order: int
    job_id: str
    label: str
    fence: int


class Child(msgspec.Struct, frozen=True):
    """A job that a job started."""

    parent: str
    given: Any


class Checkpoint(msgspec.Struct, frozen=True):
    """From here on a job knows what came of these labels."""

    order: int
    fence: int
    labels: frozenset[str]


_NOTED: Final = frozenset(
    one.type
    for one in (
        *(e.ToolCalled, e.StepFinished, e.TimerFired, e.SignalTaken, e.ApprovalRequested, e.CheckpointSaved),
        *(e.ChildFinished, e.JobCompleted, e.JobCancellation),
    )
)

Request = tuple[str, str, str, str]
"""Job, label, kind, key."""


_NOTED_WHOLE: Final = frozenset({"leases.expire", "leases.renew"})
"""Calls of which more than the first argument counts."""

CLOCK_RATE_MAX: Final = 1.005
"""How much faster than true time the clock of a host runs, at most."""


class Witness:
    """Notes. `counts` is what the floors of a batch are measured by."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._orders = itertools.count(1)
        self.counts: Counter[str] = Counter()
        self.intents: dict[str, list[Intent]] = defaultdict(list)
        self.fires: list[Fire] = []
        self.landings: list[Landing] = []
        self.grants: dict[tuple[str, int], str] = {}
        self.cancels: dict[str, int] = {}
        self.steps: dict[tuple[str, str], tuple[int, int]] = {}
        self.looks: list[Look] = []
        self.naps: dict[tuple[str, str], float] = {}
        self.rung: dict[tuple[str, str], float] = {}
        self.wrong: list[str] = []
        self.children: dict[str, Child] = {}
        self.resumed: dict[str, int] = {}
        self.over: dict[str, tuple[int, str, Any]] = {}
        self.questions: dict[str, tuple[str, e.ApprovalRequested]] = {}
        self.checkpoints: dict[str, list[Checkpoint]] = defaultdict(list)
        self.intended_last = False
        self._appends: set[bytes] = set()
        self._held: dict[tuple[str, int], None] = {}
        self._leased: dict[str, tuple[str, float]] = {}
        """By worker: the incarnation of its lease, and until when no other may declare it expired."""
        self._covered: dict[str, tuple[str, str]] = {}
        """By job: the worker and the incarnation of the lease that covers it."""
        self._fence: dict[str, int] = {}

    def order(self) -> int:
        return next(self._orders)

    def watched(self, store: Store) -> InterceptedStore:
        return InterceptedStore(store, self._noted)

    async def _noted(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = await call(*args, **options)
        note = getattr(self, "_" + name.replace(".", "_"), None)
        if note is not None:
            note(args if name in _NOTED_WHOLE else args[0], result)
        return result

    # ── what the store made durable ───────────────────────────────────────────────────────────────

    def _journal_append_many(self, appends: list[Append], outcomes: list[Any]) -> None:
        self.intended_last = any(sealed.type == e.ToolCalled.type for one in appends for sealed in one.events)
        for append, outcome in zip(appends, outcomes, strict=True):
            self.counts[f"append {type(outcome).__name__}"] += 1
            if not isinstance(outcome, Head | Fenced | MailWaiting | Unavailable):
                self.wrong.append(
                    f"I5: the holder of {append.job_id} wrote what cannot be written: {outcome!r}"
                )
            if isinstance(outcome, Head) and append.head.hash not in self._appends:
                self._appends.add(append.head.hash)  # the same again, after a lost reply, is no second write
                self._written(append)

    def _written(self, append: Append) -> None:
        for sealed in append.events:
            if sealed.type in _NOTED:
                self._fact(append.job_id, append.fence, unseal(sealed))
        for child in append.extras.children:
            assert child.job_id is not None
            self.counts["children"] += 1
            self.children[child.job_id] = Child(append.job_id, child.input)
        for letter in append.extras.letters:
            if letter.kind is MailKind.CANCEL:
                self.counts["children cancelled"] += 1
                self.cancels.setdefault(letter.job_id, self.order())

    def _fact(self, job_id: str, fence: int, event: e.Event) -> None:
        match event:
            case e.ToolCalled():
                intent = Intent(self.order(), self._loop.clock_time(), job_id, event.key, fence)
                if not any(known.fence == fence for known in self.intents[event.key]):
                    self.counts[f"intent {event.effect}"] += 1
                    self.counts["intents with leave"] += event.approval_id is not None
                self.intents[event.key].append(intent)
                if job_id in self.cancels:
                    self.wrong.append(f"I28: an intent of {job_id} follows its accepted cancel")
            case e.StepFinished(outcome="succeeded"):
                self.steps.setdefault((job_id, _label(event.step_key)), (self.order(), fence))
            case e.TimerFired():
                self._over_now(job_id, event.step_key)
            case e.SignalTaken():
                self.counts["signals taken" if event.mail_seq is not None else "waits too late"] += 1
                if event.mail_seq is None:
                    self._over_now(job_id, event.step_key)
            case e.ApprovalRequested():
                self.questions[event.approval_id] = (job_id, event)
            case e.CheckpointSaved():
                self.counts["checkpoints"] += 1
                known = frozenset(event.state["results"])
                self.checkpoints[job_id].append(Checkpoint(self.order(), fence, known))
            case e.ChildFinished():
                self._child_heard(event)
            case e.JobCompleted() | e.JobCancellation():
                output = event.output if isinstance(event, e.JobCompleted) else None
                self.over[job_id] = (self.order(), event.type.removeprefix("job_"), output)
            case _:
                pass

    def _over_now(self, job_id: str, step_key: str) -> None:
        """A sleep or a wait, each in a scope of its own, is over because its time was."""
        self.rung.setdefault((job_id, _label(step_key.rpartition("/")[0])), self._loop.clock_time())

    def _child_heard(self, event: e.ChildFinished) -> None:
        self.counts[f"children heard {event.status}"] += 1
        _, status, output = self.over.get(event.child_job_id, (0, "not over", None))
        if (status, output) != (event.status, event.result):
            self.wrong.append(
                f"children: {event.child_job_id} is {status}, and its parent hears that it is {event.status}"
            )

    def _journal_hold_expired(self, _decide: Any, held: list[tuple[JobHead, Ruling]]) -> None:
        for head, _ in held:
            self.counts["swept"] += 1
            if self._is_leased(head.job_id):
                self.wrong.append(f"I1: {head.job_id} was swept before its lease was over")
            self._fence[head.job_id] = head.fence + 1

    def _leases_expire(self, args: tuple[Any, ...], _count: int | None) -> None:
        """A worker that is proven dead, or gives up its lease itself, holds nothing. Whether another may declare it
        expired, which names the beat, is judged when its jobs are taken."""
        worker, _incarnation, beat = (*args, None, None)[:3]
        if beat is None:
            self._leased.pop(worker, None)

    def _leases_start(self, lease: WorkerLease, _beat: BeatResult) -> None:
        self._beaten(lease)

    def _leases_beat(self, lease: WorkerLease, beat: BeatResult) -> None:
        if beat.mine == lease:
            self._beaten(lease)

    def _beaten(self, lease: WorkerLease) -> None:
        """From now on it lasts for its time, by the fastest clock that an observer may have."""
        until = self._from_now(int(lease.ttl_us / CLOCK_RATE_MAX))
        self._leased[lease.worker] = (lease.incarnation, until)

    def _is_leased(self, job_id: str) -> bool:
        """Whether the job is covered by the lease of a worker that has beaten within its lease time."""
        worker, incarnation = self._covered.get(job_id, ("", ""))
        current, until = self._leased.get(worker, ("", 0.0))
        return current == incarnation and self._loop.clock_time() < until

    def _leases_claim(self, ask: ClaimRequest, grants: list[Grant]) -> None:
        for grant in grants:
            place = (grant.job_id, grant.fence)
            before = self.grants.setdefault(place, ask.worker)
            if before != ask.worker:
                self.wrong.append(f"I2: fence {grant.fence} of {grant.job_id} was given to two workers")
            if grant.takeover and self._is_leased(grant.job_id) and place not in self._held:
                self.wrong.append(f"I1: {grant.job_id} was taken over before its lease was over")
            if place not in self._held:
                self.counts["claims"] += 1
                self.counts["takeovers"] += grant.takeover
                self._covered[grant.job_id] = (ask.worker, ask.incarnation or "")
            self._held[place] = None
            self._fence[grant.job_id] = grant.fence

    def _leases_renew(self, args: tuple[list[HeldLease], int], kept: set[str]) -> None:
        held, ttl_us = args
        for one in held:
            if one.job_id not in kept:
                continue
            worker = self.grants[one.job_id, one.fence]
            if ttl_us < UNTIL_EXPIRED_US:  # abandoned: it has a lease of its own now, which ends by itself
                self._covered.pop(one.job_id, None)
            else:
                self._covered[one.job_id] = (worker, self._leased.get(worker, ("", 0.0))[0])
            if self._fence.get(one.job_id) != one.fence:
                self.wrong.append(f"I2: a lease of {one.job_id} that was lost was renewed")

    def _from_now(self, ttl_us: int) -> float:
        """When a lease of this length is over, which begins with a whole microsecond as the store counts them."""
        return (int(self._loop.clock_time() * 1_000_000) + ttl_us) / 1_000_000

    def _post_send(self, letter: MailDraft, sent: MailReceipt) -> None:
        if letter.kind is MailKind.CANCEL and sent.accepted:
            self.cancels.setdefault(letter.job_id, self.order())
        if letter.kind is MailKind.RESUME and sent.woke:
            self.resumed[letter.job_id] = sent.mail_seq

    # ── what the others tell it ───────────────────────────────────────────────────────────────────

    def fired(self, request: Request, fence: int, process: str) -> None:
        job_id, label, kind, key = request
        self.fires.append(Fire(self.order(), job_id, label, kind, key, fence, process))
        self.counts[f"fire {kind}"] += 1

    def landed(self, request: Request, *, effect: bool, receipt: int) -> None:
        job_id, label, kind, key = request
        self.landings.append(Landing(self.order(), job_id, label, kind, key, effect, receipt))

    def looked(self, job_id: str, label: str, fence: int) -> None:
        self.looks.append(Look(self.order(), job_id, label, fence))
        self.counts["looks"] += 1

    def times_looked(self, job_id: str, label: str) -> int:
        return sum(1 for look in self.looks if (look.job_id, look.label) == (job_id, label))

    def napped(self, job_id: str, label: str, us: int) -> None:
        """Code of the job came to a sleep, for the first time or again: it may be over this much later."""
        self.naps.setdefault((job_id, label), self._loop.clock_time() + us / 1_000_000)


def _label(step_key: str) -> str:
    """`0/branch#1/look-17#1` is the look under the label 17."""
    return step_key.rpartition("/")[2].partition("#")[0].rpartition("-")[2]
