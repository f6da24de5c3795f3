"""The world outside: receivers with their own logs, and the lines on which requests travel.

A request is the world's own matter once its first byte has left: it lands whether or not its sender lives to hear the
answer. It can be lost, late, doubled, or done with its answer lost.

    mail    does whatever it is told, every time (unsafe)
    pay     remembers keys (idempotent)
    post    does whatever it is told, and can be asked afterwards (verifiable)
    draft   drafts are made by key; each can be sent once (idempotent, a handle that is used up)
    file    the same bytes at the same place (idempotent by nature)
    box     does its work anew for every key, and leaves its output where it can be found (relaunched when cut off)

The bytes leave in the same breath as the sender's last look at the clock: no freeze falls between the two. A process
that stands still exactly there is the hole that RELIABILITY §1.6 leaves open for `verifiable`; so is a request that the
network holds back longer than the call may take. Neither happens here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from holdfast.engine.durable_call import CallPolicy, ProbeResult
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import Refused
from holdfast.model.side_effects import Effect, ProbeAnswer
from holdfast.model.time import HOUR, SECOND
from holdfast.testing.simulated_process import SimulatedProcess
from tests.simulation.world.mix import Mix
from tests.simulation.world.witness import Request, Witness

LONGEST_S: Final = 20.0
INDEXING_S: Final = 2.0
KEYED: Final = CallPolicy(
    effect=Effect.IDEMPOTENT, key_lifetime_us=24 * HOUR, longest_call_us=int(LONGEST_S) * SECOND
)
NATURAL: Final = CallPolicy(effect=Effect.IDEMPOTENT, longest_call_us=int(LONGEST_S) * SECOND)
PLAIN: Final = CallPolicy(longest_call_us=int(LONGEST_S) * SECOND)


class Outside:
    """All receivers. They outlive every process."""

    def __init__(self, mix: Mix, chance: random.Random, witness: Witness, root: SimulatedProcess) -> None:
        self.mix = mix
        self.chance = chance
        self.witness = witness
        self.calm = False
        self._root = root
        self._seen: dict[tuple[str, str], int] = {}
        self._indexed_at: dict[str, float] = {}
        self._in_flight: dict[str, int] = {}
        self._receipts = 0

    def strikes(self, share: float) -> bool:
        return not self.calm and share > 0 and self.chance.random() < share

    def happened(self, key: str) -> int | None:
        """The receipt of the effect under this key, if there was one: what somebody finds who looks."""
        for landing in self.witness.landings:
            if landing.key == key and landing.effect:
                return landing.receipt
        return None

    def in_flight(self, key: str) -> bool:
        return self._in_flight.get(key, 0) > 0

    def launch(self, request: Request, answer: Callable[[int | None], None]) -> None:
        """The request is on its way: it lands, once or not at all or twice. The sender hears of it, or that the line
        broke (None): soon, or when it had given up hope, and maybe before the request has landed."""
        key = request[3]
        told: Callable[[int | None], None] | None = answer
        if self.strikes(self.mix.request_lost):
            self.witness.counts["request lost"] += 1
            self._root.call_later(self.chance.choice((0.05, 1.0, LONGEST_S)), answer, None)
            return
        if self.strikes(self.mix.reply_lost):
            self.witness.counts["reply lost"] += 1
            self._root.call_later(self.chance.choice((0.05, 1.0, LONGEST_S)), answer, None)
            told = None
        delay = self.chance.uniform(0.001, 0.2)
        if self.strikes(self.mix.late):
            self.witness.counts["late"] += 1
            delay = self.chance.uniform(1.0, LONGEST_S - 1.0)
        self._in_flight[key] = self._in_flight.get(key, 0) + 1
        self._root.call_later(delay, self._land, request, told)
        if request[2] in {"pay", "draft", "file"} and self.strikes(self.mix.doubled):
            self.witness.counts["doubled"] += 1
            self._in_flight[key] += 1
            self._root.call_later(delay + self.chance.uniform(0.0, 40.0), self._land, request, None)

    def _land(self, request: Request, answer: Callable[[int | None], None] | None) -> None:
        job_id, label, kind, key = request
        self._in_flight[key] -= 1
        place = (job_id, label) if kind in {"draft", "file"} else (kind, key)
        known = self._seen.get(place) if kind in {"pay", "draft", "file"} else None
        if known is None:
            self._receipts += 1
            known = self._seen[place] = self._receipts
            self.witness.landed(request, effect=True, receipt=known)
            self._indexed_at.setdefault(
                key, self._root.loop.clock_time() + self.chance.uniform(0.0, INDEXING_S)
            )
        else:
            self.witness.landed(request, effect=False, receipt=known)
        if answer is not None:
            self._root.call_later(self.chance.uniform(0.001, 0.1), answer, known)

    def probe(self, key: str) -> ProbeResult:
        indexed_at = self._indexed_at.get(key)
        if indexed_at is None or indexed_at > self._root.loop.clock_time():
            return ProbeResult(ProbeAnswer.NOT_HAPPENED)
        return ProbeResult(ProbeAnswer.HAPPENED, {"receipt": self.happened(key)})


class Line:
    """How one process reaches the outside."""

    def __init__(self, outside: Outside, process: SimulatedProcess) -> None:
        self._outside = outside
        self._process = process

    async def send(self, request: Request, fence: int) -> dict[str, Any]:
        """The receiver's receipt; or an error after which nobody knows."""
        outside, process = self._outside, self._process
        if process.dead:  # nothing leaves a dead process
            await process.must_live()
        if outside.strikes(outside.mix.refusal):
            outside.witness.counts["refused"] += 1
            await sleep_on_loop(0.01)
            raise Refused("the receiver does not want it")
        outside.witness.fired(request, fence, process.name)
        answered: asyncio.Future[int] = process.loop.create_future()

        def answer(receipt: int | None) -> None:
            if answered.done():
                return
            if receipt is None:
                answered.set_exception(ConnectionError("the line broke"))
            else:
                answered.set_result(receipt)

        outside.launch(request, answer)
        return {"receipt": await answered}

    async def look(self, job_id: str, label: str, fence: int, seconds: float | None = None) -> int:
        """An answer that is new every time: only the recorded one can be seen twice."""
        if self._process.dead:
            await self._process.must_live()
        self._outside.witness.looked(job_id, label, fence)
        number = len(self._outside.witness.looks)
        await sleep_on_loop(self._outside.chance.uniform(0.001, 0.3) if seconds is None else seconds)
        return number

    async def probe(self, key: str, _args: Any) -> ProbeResult:
        if self._process.dead:
            await self._process.must_live()
        outside = self._outside
        await sleep_on_loop(outside.chance.uniform(0.001, 0.2))
        outside.witness.counts["probes"] += 1
        if outside.strikes(outside.mix.probe_fails):
            if outside.chance.random() < 0.5:
                return ProbeResult(ProbeAnswer.CANNOT_TELL)
            raise ConnectionError("nobody answers the probe")
        return outside.probe(key)

    @property
    def relaunched(self) -> CallPolicy:
        return CallPolicy(relaunch=True, probe=self.probe, longest_call_us=int(LONGEST_S) * SECOND)

    @property
    def verifiable(self) -> CallPolicy:
        return CallPolicy(
            effect=Effect.VERIFIABLE,
            probe=self.probe,
            longest_call_us=int(LONGEST_S) * SECOND,
            receiver_delay_us=int(INDEXING_S) * SECOND,
        )
