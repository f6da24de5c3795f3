"""Those outside who talk to jobs: who submits them, who cancels, who signals, and who looks into what is uncertain."""

from __future__ import annotations

import random
from typing import Any, Final

from holdfast.engine.rest import rest
from holdfast.errors import Unavailable
from holdfast.model.effects import CallStatus
from holdfast.model.jobs import JobDraft
from holdfast.model.ledger import CallRow
from holdfast.model.mail import MailDraft, Sent
from holdfast.model.states import TERMINAL, MailKind, WaitReason
from holdfast.store.contract import Store
from holdfast.testing.faults import Decide, FaultyStore
from holdfast.testing.process import ProcessLoop
from holdfast.testing.world.mix import Mix
from holdfast.testing.world.outside import LONGEST_S, Outside
from holdfast.testing.world.witness import Witness

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

    async def submit(self, until_s: float) -> None:
        """Jobs come one after the other, the first at once."""
        pause_s = until_s / 2 / len(self._mix.errands)
        for number, moves in enumerate(self._mix.errands):
            job_id = f"job-{number:02}"
            given = {"job": job_id, "moves": moves}
            await self._submit(JobDraft(kind="errand", input=given, job_id=job_id, request_key=job_id))
            self.acknowledged[job_id] = given
            if self._chance.random() < self._mix.cancels:
                self._loop.root.start(
                    self._cancel(job_id, self._chance.expovariate(1 / self._mix.cancel_after_s))
                )
            await rest(self._chance.uniform(0, 2 * pause_s))

    async def _submit(self, draft: JobDraft) -> None:
        while True:
            try:
                await self._store.jobs.submit(draft)
                if self._chance.random() < 0.9:
                    return
            except Unavailable:
                await rest(0.5)

    async def signal(self, until_s: float) -> None:
        """Words that nobody waits for, and some that are none at all."""
        every_s = self._mix.signal_every_s
        while every_s and self._loop.time() + every_s < until_s:
            await rest(self._chance.uniform(0.5, 1.5) * every_s)
            if self.acknowledged:
                job_id = self._chance.choice(list(self.acknowledged))
                kind, body = MailKind.SIGNAL, "ping"
                if self._chance.random() < self._mix.nonsense:
                    kind, body = MailKind.RECONCILE, self._chance.choice(["?", "", "happened"])
                await self._send(MailDraft(job_id=job_id, kind=kind, operation_id=self._name(), body=body))

    async def _cancel(self, job_id: str, after_s: float) -> None:
        await rest(after_s)
        sent = await self._send(
            MailDraft(job_id=job_id, kind=MailKind.CANCEL, operation_id=self._name(), sender="ada")
        )
        self._witness.counts["cancels"] += sent.accepted

    async def _send(self, letter: MailDraft) -> Sent:
        while True:
            try:
                return await self._store.post.send(letter)
            except Unavailable:
                await rest(0.5)

    def _name(self) -> str:
        self._letters += 1
        return f"op-{self._letters}"

    # ── what is uncertain ─────────────────────────────────────────────────────────────────────────

    async def look_after(self) -> None:
        """Now and then somebody looks at the jobs that wait for a word, and says what is true. Never ends."""
        while True:
            await rest(self._chance.uniform(0.3, 1.7) * self._mix.person_every_s if not self.calm else 5.0)
            for job_id in list(self.acknowledged):
                head = await self._truth.jobs.head(job_id)
                if head.status not in TERMINAL and head.wait_reason is WaitReason.RECONCILE:
                    for row in await self._truth.ledger.list(job_id, status=CallStatus.UNCERTAIN):
                        await self._decide(row)

    async def _decide(self, row: CallRow) -> None:
        key = row.idempotency_key
        receipt = self._outside.happened(key)
        odd = not self.calm and self._chance.random() < self._mix.odd_words
        if receipt is None and not odd:
            born = max(intent.at for intent in self._witness.intents[key])
            if self._loop.time() < born + SURE_AFTER_S or self._outside.in_flight(key):
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
