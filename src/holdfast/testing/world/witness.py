"""Everything that happened, in one order: what the store made durable, and what reached the outside.

It sits between the faults and the store, where nobody lies: what it notes as durable is durable, whether or not anybody
heard. Rules of the kind "never before", "never after" are judged from its order alone; no clock takes part.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from typing import Any

import msgspec

from holdfast.model.append import Append
from holdfast.model.chain import Head, unseal
from holdfast.model.events import StepFinished, TimerFired, ToolCalled, ToolReturned
from holdfast.model.jobs import JobDraft
from holdfast.model.lease import Grant
from holdfast.model.mail import MailDraft, Sent
from holdfast.model.states import MailKind
from holdfast.store.contract import Store
from holdfast.store.ports.leases import ClaimAsk
from holdfast.testing.faults import Call, WrappedStore


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


class Witness:
    """Notes. `counts` is what the floors of a batch are measured by."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._orders = itertools.count(1)
        self.counts: Counter[str] = Counter()
        self.intents: dict[str, list[Intent]] = defaultdict(list)
        self.fires: list[Fire] = []
        self.landings: list[Landing] = []
        self.grants: dict[tuple[str, int], str] = {}
        self.cancels: dict[str, int] = {}
        self.submitted: dict[str, Any] = {}
        self.steps: dict[tuple[str, str], int] = {}
        self.returns: dict[str, int] = {}
        self.looks: list[tuple[int, str, str]] = []
        self.naps: dict[tuple[str, str], float] = {}
        self.rung: dict[tuple[str, str], float] = {}
        self.wrong: list[str] = []

    def order(self) -> int:
        return next(self._orders)

    def watched(self, store: Store) -> WrappedStore:
        return WrappedStore(store, self._noted)

    async def _noted(self, name: str, call: Call, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        result = await call(*args, **options)
        note = getattr(self, "_" + name.replace(".", "_"), None)
        if note is not None:
            note(args[0], result)
        return result

    # ── what the store made durable ───────────────────────────────────────────────────────────────

    def _journal_append_many(self, appends: list[Append], outcomes: list[Any]) -> None:
        for append, outcome in zip(appends, outcomes, strict=True):
            self.counts[f"append {type(outcome).__name__}"] += 1
            if isinstance(outcome, Head):
                self._written(append)

    def _written(self, append: Append) -> None:
        for sealed in append.events:
            if sealed.type == ToolCalled.type:
                event = unseal(sealed)
                assert isinstance(event, ToolCalled)
                intent = Intent(
                    self.order(), self._loop.time(), append.job_id, event.key, append.fence
                )
                if not any(known.fence == intent.fence for known in self.intents[event.key]):
                    self.counts[f"intent {event.effect}"] += 1
                self.intents[event.key].append(intent)
                cancelled = self.cancels.get(append.job_id)
                if cancelled is not None:
                    self.wrong.append(f"I28: an intent of {append.job_id} follows its accepted cancel")
            elif sealed.type == StepFinished.type:
                step = unseal(sealed)
                assert isinstance(step, StepFinished)
                if step.outcome == "succeeded":
                    self.steps.setdefault((append.job_id, _label(step.step_key)), self.order())
            elif sealed.type == TimerFired.type:
                timer = unseal(sealed)
                assert isinstance(timer, TimerFired)
                nap = timer.step_key.rpartition("/")[0]
                self.rung.setdefault((append.job_id, _label(nap)), self._loop.time())
            elif sealed.type == ToolReturned.type:
                self.counts["tool returned"] += 1

    def _leases_claim(self, ask: ClaimAsk, grants: list[Grant]) -> None:
        for grant in grants:
            place = (grant.job_id, grant.fence)
            before = self.grants.setdefault(place, ask.worker)
            if before != ask.worker:
                self.wrong.append(f"I2: fence {grant.fence} of {grant.job_id} was given to two workers")
            self.counts["claims"] += 1
            self.counts["takeovers"] += grant.takeover

    def _post_send(self, letter: MailDraft, sent: Sent) -> None:
        if letter.kind is MailKind.CANCEL and sent.accepted:
            self.cancels.setdefault(letter.job_id, self.order())

    def _jobs_submit(self, draft: JobDraft, _submitted: Any) -> None:
        self.counts["submissions"] += 1

    # ── what the others tell it ───────────────────────────────────────────────────────────────────

    def fired(self, job_id: str, label: str, kind: str, key: str, process: str) -> None:
        self.fires.append(Fire(self.order(), job_id, label, kind, key, process))
        self.counts[f"fire {kind}"] += 1

    def landed(self, fire: tuple[str, str, str, str], *, effect: bool, receipt: int) -> None:
        job_id, label, kind, key = fire
        self.landings.append(Landing(self.order(), job_id, label, kind, key, effect, receipt))

    def looked(self, job_id: str, label: str) -> None:
        self.looks.append((self.order(), job_id, label))
        self.counts["looks"] += 1

    def times_looked(self, job_id: str, label: str) -> int:
        return sum(1 for _, job, other in self.looks if (job, other) == (job_id, label))

    def napped(self, job_id: str, label: str, us: int) -> None:
        """Code of the job came to a sleep, for the first time or again: it may be over this much later."""
        self.naps.setdefault((job_id, label), self._loop.time() + us / 1_000_000)


def _label(step_key: str) -> str:
    """`0/branch#1/look-17#1` is the look under the label 17."""
    return step_key.rpartition("/")[2].partition("#")[0].rpartition("-")[2]
