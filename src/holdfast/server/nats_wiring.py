"""What a server has of NATS, if there is one: presence of agents elsewhere, hints, and the API once more."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp

from holdfast.model.ids import IdSource
from holdfast.registry.addresses import NatsSettings
from holdfast.registry.connect import NatsLink, open_nats
from holdfast.server.settings import Settings
from holdfast.store.clock import Clock


class Wired:
    """A link, and the bridge on it. NATS need not be there: it is connected to whenever it can be."""

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
        """This is done whenever NATS was away and is back."""

        async def attended(_client: object) -> None:
            if self._was_there:
                await again()
            self._was_there = True

        self.link.connection.attend("work", attended)

    def start(self) -> None:
        self.link.start()

    async def close(self) -> None:
        """Messages that were taken are answered, then nothing is open."""
        await self._bridge.close()
        await self.link.close()
