"""Those outside who talk to jobs: who submits them, who cancels, who signals, and who looks into what is uncertain."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import msgspec

from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import Unavailable
from holdfast.model.events import ApprovalRequested, JobParked
from holdfast.model.hash_chain import unseal
from holdfast.model.jobs import JobDraft, JobHead
from holdfast.model.ledger import CallRow
from holdfast.model.mailbox import MailDraft, MailReceipt
from holdfast.model.side_effects import CallStatus
from holdfast.model.states import HELD, MailKind, WaitReason
from holdfast.store.contract import Store
from holdfast.testing.simulated_process import ProcessLoop
from tests.simulation.world.mix import FAULT_PHASE_S, Mix, moves_in
from tests.simulation.world.outside import LONGEST_S, Outside
from tests.simulation.world.witness import Witness
from tests.support.faulty_store import Decide, FaultyStore

SURE_AFTER_S: Final = LONGEST_S + 30.0
"""How old an intent must be before somebody says "it did not happen": nobody can start it any more, and nothing that
was started can still be on its way."""


class People:
    """They ask again when the store does not answer, and remember what they were told."""

    def __init__(
        self,
        mix: Mix,
        chance: random.Random,
        loop: ProcessLoop,
        store: Store,
        fates: Decide,
        witness: Witness,
        outside: Outside,
    ) -> None:
        self._mix = mix
        self._chance = chance
        self._loop = loop
        self._truth = store
        self._store = FaultyStore(store, fates, loop.process("people"))
        self._witness = witness
        self._outside = outside
        self._letters = 0
        self.calm = False
        self.acknowledged: dict[str, Any] = {}
        self.odd: set[tuple[str, str]] = set()
        self.told: set[str] = set()
        self.accepted: set[tuple[str, str]] = set()
        self._resumed: Counter[str] = Counter()
        self._met: set[str] = set()
        self._answered: set[str] = set()
        self._ignored: set[str] = set()

    def jobs(self) -> dict[str, Any]:
        """Every job there is, and what it was given: those that were submitted, and their children."""
        return self.acknowledged | {job_id: child.given for job_id, child in self._witness.children.items()}

    async def submit(self, until_s: float) -> None:
        """Jobs come one after the other, the first at once."""
        pause_s = until_s / 2 / len(self._mix.errands)
        for number, moves in enumerate(self._mix.errands):
            job_id = f"job-{number:02}"
            given = {"job": job_id, "moves": moves}
            await self._submit(JobDraft(kind="errand", input=given, job_id=job_id, request_key=job_id))
            self.acknowledged[job_id] = given
            self._promise(job_id, given["moves"], until_s)
            if self._chance.random() < self._mix.cancels:
                self._loop.root.start(
                    self._cancel(job_id, self._chance.expovariate(1 / self._mix.cancel_after_s))
                )
            await sleep_on_loop(self._chance.uniform(0, 2 * pause_s))

    async def _submit(self, draft: JobDraft) -> None:
        while True:
            try:
                await self._store.jobs.submit(draft)
                if self._chance.random() < 0.9:
                    return
            except Unavailable:
                await sleep_on_loop(0.5)

    async def signal(self, until_s: float) -> None:
        """Words that nobody waits for, and some that are none at all."""
        every_s = self._mix.signal_every_s
        while every_s and self._loop.clock_time() + every_s < until_s:
            await sleep_on_loop(self._chance.uniform(0.5, 1.5) * every_s)
            if self.acknowledged:
                job_id = self._chance.choice(list(self.acknowledged))
                kind, body = MailKind.SIGNAL, "ping"
                if self._chance.random() < self._mix.nonsense:
                    kind, body = MailKind.RECONCILE, self._chance.choice(["?", "", "happened"])
                await self._send(MailDraft(job_id=job_id, kind=kind, operation_id=self._name(), body=body))

    def _promise(self, job_id: str, moves: list[Any], until_s: float) -> None:
        """For every wait of a job there is a signal, sooner or later; only a signal that is lost leaves it waiting."""
        self._met.add(job_id)
        for move in moves_in(moves):
            if move[0] == "wait":
                longest_s = self._chance.choice((0.0, 3.0, 20.0, until_s - self._loop.clock_time() + 20.0))
                self._loop.root.start(self._tell(job_id, move[2], self._chance.uniform(0, max(0, longest_s))))

    async def _tell(self, job_id: str, name: str, after_s: float) -> None:
        await sleep_on_loop(after_s)
        operation = self._name()
        letter = MailDraft(
            job_id=job_id, kind=MailKind.SIGNAL, name=name, operation_id=operation, body=operation
        )
        sent = await self._send(letter)
        self._witness.counts["signals"] += sent.accepted
        if self._chance.random() < 0.2:
            await self._send(letter)  # the same letter again is no second signal

    async def _cancel(self, job_id: str, after_s: float) -> None:
        await sleep_on_loop(after_s)
        sent = await self._send(
            MailDraft(job_id=job_id, kind=MailKind.CANCEL, operation_id=self._name(), sender="ada")
        )
        self._witness.counts["cancels"] += sent.accepted

    async def _send(self, letter: MailDraft) -> MailReceipt:
        while True:
            try:
                return await self._store.post.send(letter)
            except Unavailable:
                await sleep_on_loop(0.5)

    def _name(self) -> str:
        self._letters += 1
        return f"op-{self._letters}"

    # ── what is uncertain ─────────────────────────────────────────────────────────────────────────

    async def look_after(self) -> None:
        """Now and then somebody looks at the jobs that wait for a word, and says what is true. Never ends."""
        while True:
            await sleep_on_loop(
                self._chance.uniform(0.3, 1.7) * self._mix.person_every_s if not self.calm else 5.0
            )
            for job_id, given in self.jobs().items():
                if job_id not in self._met:
                    self._meet(job_id, given)
                head = await self._truth.jobs.head(job_id)
                if head.wait_reason is WaitReason.RECONCILE:
                    for row in await self._truth.ledger.list(job_id, status=CallStatus.UNCERTAIN):
                        await self._decide(row)
                elif self.may_resume(head):
                    await self._resume(head)
            for approval_id, (job_id, question) in list(self._witness.questions.items()):
                if approval_id not in self._answered:
                    await self._answer(job_id, question)

    def _meet(self, job_id: str, given: Any) -> None:
        """A child, as soon as somebody sees it."""
        self._promise(job_id, given["moves"], FAULT_PHASE_S)
        if not self.calm and self._chance.random() < self._mix.cancels / 2:
            self._loop.root.start(
                self._cancel(job_id, self._chance.expovariate(1 / self._mix.cancel_after_s))
            )

    def may_resume(self, head: JobHead) -> bool:
        """Whether somebody will still try to set a job that is held going again."""
        return head.wait_reason in HELD and self._resumed[head.job_id] < self._mix.resumes

    async def _resume(self, head: JobHead) -> None:
        self._resumed[head.job_id] += 1
        choice = "continue"
        if head.wait_reason is WaitReason.DRIFT and self._chance.random() < 0.7:
            choice = "accept"
            self.accepted |= {(head.job_id, label) for label in await self._reported(head.job_id)}
        self._witness.counts[f"resumed: {choice}"] += 1
        letter = MailDraft(
            job_id=head.job_id,
            kind=MailKind.RESUME,
            operation_id=self._name(),
            body={"choice": choice, "why": "somebody looked"},
            sender="grace",
        )
        await self._send(letter)
        if self._chance.random() < 0.2:
            await self._send(
                msgspec.structs.replace(letter, operation_id=self._name())
            )  # and once more, too late

    async def _reported(self, job_id: str) -> set[str]:
        """What the report of a parked job names: with other arguments, or under another name, it may be done again."""
        sealed = [one for one in await self._truth.journal.read(job_id) if one.type == JobParked.type]
        parked = unseal(sealed[-1])
        assert isinstance(parked, JobParked)
        return {one["name"].rpartition("-")[2] for one in parked.report["recorded"]}

    async def _answer(self, job_id: str, question: ApprovalRequested) -> None:
        """Yes or no, in time or not; some say it twice, some change their mind, and some never answer."""
        if question.approval_id not in self._ignored and self._chance.random() < self._mix.silence:
            self._witness.counts["not answered"] += 1
            self._ignored.add(question.approval_id)
        if question.approval_id in self._ignored and not self.calm:
            return
        self._answered.add(question.approval_id)
        answers = [self._chance.choice(("approved", "approved", "approved", "denied"))]
        if self._chance.random() < 0.2:
            answers.append(self._chance.choice(("approved", "denied")))
        for decision in answers:
            body = {"approval_id": question.approval_id, "decision": decision, "why": "as it says"}
            self._witness.counts[f"said {decision}"] += 1
            await self._send(
                MailDraft(
                    job_id=job_id, kind=MailKind.APPROVAL, operation_id=self._name(), body=body, sender="ada"
                )
            )

    async def _decide(self, row: CallRow) -> None:
        key = row.idempotency_key
        receipt = self._outside.happened(key)
        odd = not self.calm and self._chance.random() < self._mix.odd_words
        if receipt is None and not odd:
            born = max(intent.at for intent in self._witness.intents[key])
            if self._loop.clock_time() < born + SURE_AFTER_S or self._outside.in_flight(key):
                return  # it may still happen
        decision = "happened" if receipt is not None else "not_happened"
        if odd:
            decision = self._chance.choice(("skip", "fail"))
            self.odd.add((row.job_id, row.tool_name.rpartition("-")[2]))
        body = {
            "step_key": row.step_key,
            "generation": row.generation,
            "decision": decision,
            "why": "somebody looked",
            "result": {"receipt": receipt},
        }
        operation = f"word-{row.tool_call_id}"
        if operation not in self.told:
            self._witness.counts[f"said {decision}"] += 1
        self.told.add(operation)
        letter = MailDraft(job_id=row.job_id, kind=MailKind.RECONCILE, operation_id=self._name(), body=body)
        await self._send(letter)
        if self._chance.random() < 0.2:
            await self._send(letter)
