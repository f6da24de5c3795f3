"""What the server does for work and agents while nobody asks: it would be right without, and late.

A lease that has run out can be claimed as it is, by whoever asks next. Here it is also given back, so that who looks
finds it pending; what nobody will begin any more has ended; agents that were silent for a day are forgotten. Workers do
the same for jobs. A company whose agents all live elsewhere has no worker: then this is the only one who does.

When NATS was away and is back, work in progress is judged once more, and it is said what came of it: an agent that kept
its lease over HTTP keeps its work; one that could not renew has lost it, and somebody else gets it.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Final

from holdfast.engine.external_work import ExternalWork
from holdfast.engine.loop_sleep import rest
from holdfast.engine.recovery import Rules, SweepResult, sweep_jobs
from holdfast.errors import HoldfastError
from holdfast.model.states import Status
from holdfast.model.work import WorkWhich, agent_in
from holdfast.registry.registry import Registry
from holdfast.registry.store_registry import StorePlace
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

EVERY_S: Final = 5.0
FORGET_EVERY: Final = 120
"""Rounds between two looks for agents that are to be forgotten."""

LOOKED_AT: Final = 1000
RULES: Final = Rules(by="the server")
log = logging.getLogger("holdfast.server")


class Tending:
    """Tends from `start`, called in the loop, to `stop`. `registry` is the one that is not in the store."""

    def __init__(self, store: Store, clock: Clock, registry: Registry | None) -> None:
        self._store = store
        self._clock = clock
        self._registry = registry
        self._outwork = ExternalWork(store, clock, random.random)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tend(), name="holdfast-tend")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _tend(self) -> None:
        rounds = 0
        while True:
            await rest(EVERY_S)
            try:
                await self.go()
                if rounds % FORGET_EVERY == 0:
                    await self.forget()
            except HoldfastError as error:
                log.warning("maintenance round for work items failed: %s", error)
            rounds += 1

    async def go(self) -> list[SweepResult]:
        """What nobody holds any more is pending, or held as a dead letter; what nobody will begin has ended."""
        await self._store.clock.sync()
        ended = await self._outwork.tidy()
        if ended:
            log.info("work items past their deadline or cancelled: %d", ended)
        _, swept = await sweep_jobs(self._store, self._clock, RULES)
        for one in swept:
            what = "a dead letter" if one.dead else "pending again"
            level = logging.WARNING if one.dead else logging.INFO
            log.log(
                level,
                "work %s: the lease of agent %s expired; it is %s",
                one.head.job_id,
                one.head.lease_owner,
                what,
            )
        return swept

    async def forget(self) -> None:
        """Agents that were silent for a day are not listed any more."""
        for record in await self._store.namespaces.list():
            await Registry(StorePlace(self._store, record.namespace), self._clock.wall_us).forget()
        if self._registry is not None:
            await self._registry.forget()

    async def judge_again(self) -> None:
        """It is said what became of work in progress while NATS was away."""
        try:
            given_back = await self.go()
            left = await self._held()
        except HoldfastError as error:
            log.warning("NATS is back; work in progress could not be checked: %s", error)
            return
        log.info(
            "NATS is back; work in progress: %d kept by their agents, %d released",
            len(left),
            sum(agent_in(one.head.lease_owner) is not None for one in given_back),
        )

    async def _held(self) -> Sequence[str]:
        held: list[str] = []
        for record in await self._store.namespaces.list():
            which = WorkWhich(namespace=record.namespace, status=Status.RUNNING)
            held += [row.head.job_id for row in await self._store.work.list(which, limit=LOOKED_AT)]
        return held
