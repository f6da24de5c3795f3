"""Person: says of every uncertain call what the receiver's log says about it, through the client or the command line.

A refusal ("it is too early", "its process still lives") is taken as one would: the same is said again later.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

from holdfast.client.embedded import EmbeddedClient
from holdfast.client.records import Need
from holdfast.errors import Conflict, InvalidMove, NotFound, Unavailable
from holdfast.model.side_effects import Effect
from holdfast.model.states import WaitReason
from tests.kill.processes.stage import Stage
from tests.kill.storm.receiver import Act, read_log

LOOK_EVERY_S = 0.5
WHY = "the receiver's log says so"
BY_COMMAND = 0.1
"""The share of answers that are typed."""


class Person:
    """`answers` counts what was said of calls of which tool, `refusals` what was not accepted."""

    def __init__(self, stage: Stage, client: EmbeddedClient, log: Path, seed: int) -> None:
        self.answers: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.asked_needlessly: set[str] = set()
        self._stage = stage
        self._client = client
        self._log = log
        self._chance = random.Random(seed)

    async def work(self) -> None:
        while True:
            await self.answer_all()
            await asyncio.sleep(LOOK_EVERY_S)

    async def answer_all(self) -> None:
        needs = [
            need for need in await self._client.waiting_for_person() if need.reason is WaitReason.RECONCILE
        ]
        if not needs:
            return
        acts = {(act.call, act.item): act for act in reversed(read_log(self._log))}
        for need in needs:
            if need.effect != Effect.UNSAFE:
                self.asked_needlessly.add(f"{need.tool} of {need.job_id}: {need.evidence}")
            call = need.tool.removeprefix("block_and_")
            await self._answer(need, acts.get((call, need.args["item"])))

    async def _answer(self, need: Need, act: Act | None) -> None:
        decision = "not_happened" if act is None else "happened"
        say = self._type if self._chance.random() < BY_COMMAND else self._say
        refusal = await say(need, decision, None if act is None else act.receipt)
        if refusal is None:
            self.answers[f"{need.tool} {decision}"] += 1
        else:
            self.refusals[refusal] += 1

    async def _say(self, need: Need, decision: str, result: str | None) -> str | None:
        """The class of the refusal; None, if the answer was accepted."""
        assert need.step_key is not None
        try:
            await self._client.reconcile(
                *(need.job_id, need.step_key, decision),
                why=WHY,
                by="person",
                result=result,
                generation=need.generation,
            )
        except (InvalidMove, Conflict, NotFound, Unavailable) as error:
            return type(error).__name__
        return None

    async def _type(self, need: Need, decision: str, result: str | None) -> str | None:
        assert need.step_key is not None
        how = (f"--{decision.replace('_', '-')}", "--why", WHY)
        with_result = () if result is None else ("--result", json.dumps(result))
        command = await self._stage.command("reconcile", need.job_id, need.step_key, *how, *with_result)
        return None if await command.over() == 0 else f"exit status {command.process.returncode}"
