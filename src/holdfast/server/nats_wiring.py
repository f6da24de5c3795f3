"""NATS of a server, if it has one: presence of external agents, work hints, and the API bridge."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp

from holdfast.errors import HoldfastError
from holdfast.model.ids import IdSource
from holdfast.model.states import Status
from holdfast.model.work import WorkFilter, agent_in
from holdfast.registry.addresses import NatsSettings
from holdfast.registry.connect import NatsLink, open_nats
from holdfast.server.settings import Settings
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.worker.maintenance import Maintenance

LISTED_MAX: Final = 1000
_log: Final = logging.getLogger("holdfast.server")


class Wired:
    """A NATS link and the bridge on it. NATS may be down: the link connects whenever it can."""

    def __init__(
        self, app: ASGIApp, clock: Clock, ids: IdSource, settings: Settings, nats: NatsSettings
    ) -> None:
        self.link: NatsLink = open_nats(nats, clock, random.random)
        from holdfast.server.nats_bridge import Bridge  # needs the library that `open_nats` has found

        self._bridge = Bridge(
            app,
            self.link.connection,
            ids,
            settings,
            anybody=nats.is_local and not settings.require_key,
        )
        self._was_there = False

    def attend(self, again: Callable[[], Awaitable[None]]) -> None:
        """Calls `again` whenever NATS was down and is back."""

        async def attended(_client: object) -> None:
            if self._was_there:
                await again()
            self._was_there = True

        self.link.connection.attend("work", attended)

    def start(self) -> None:
        self.link.start()

    async def close(self) -> None:
        """Answers the messages that were taken, and closes the connection."""
        await self._bridge.close()
        await self.link.close()


async def report_held_work(store: Store, maintenance: Maintenance) -> None:
    """Logs what happened to work in progress while NATS was down. An agent that kept its lease over HTTP keeps its
    work; an agent that could not renew has lost it, and another agent gets it."""
    try:
        swept = await maintenance.sweep()
        running = 0
        for record in await store.namespaces.list():
            work_filter = WorkFilter(namespace=record.namespace, status=Status.RUNNING)
            running += len((await store.work.list(work_filter, limit=LISTED_MAX)).items)
    except HoldfastError as error:
        _log.warning("NATS is back; work in progress could not be checked: %s", error)
        return
    _log.info(
        "NATS is back; work in progress: %d kept by their agents, %d released",
        running,
        sum(agent_in(job.head.lease_owner) is not None for job in swept),
    )
