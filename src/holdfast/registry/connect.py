"""NATS link: one connection per process, and the registry and hints that use it.

    link = open_nats(nats_settings(os.environ), clock, random.random)
    link.connection.attend(…)         # further attendants
    link.start()                      # returns at once: NATS need not be available
    registry = Registry(link.place, clock.wall_us)
    await link.close()

The connection reconnects for ever, see `connection`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import InvalidSetting
from holdfast.registry.addresses import NatsSettings
from holdfast.store.clock import Clock

if TYPE_CHECKING:
    from holdfast.registry.connection import NatsConnection
    from holdfast.registry.hints import Hints
    from holdfast.registry.nats import NatsEntries


class NatsLink:
    def __init__(
        self, settings: NatsSettings, connection: NatsConnection, place: NatsEntries, hints: Hints
    ) -> None:
        self.settings = settings
        self.connection = connection
        self.place = place
        self.hints = hints

    @property
    def well(self) -> bool:
        """Whether it is connected, and the listing is current."""
        return self.place.current

    def start(self) -> None:
        self.connection.start()

    async def close(self) -> None:
        """Close everything. May be called again."""
        await self.hints.close()
        await self.connection.close()


def open_nats(settings: NatsSettings, clock: Clock, chance: Callable[[], float]) -> NatsLink:
    """A link that is not started yet.

    Raises:
        InvalidSetting: The library for NATS is not installed.
    """
    try:
        from holdfast.registry.connection import NatsConnection
        from holdfast.registry.hints import Hints
        from holdfast.registry.nats import NatsEntries
    except ImportError as error:
        msg = "HOLDFAST_NATS_URL is set, and the library for NATS is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[nats]'") from error
    connection = NatsConnection(settings, clock, chance)
    return NatsLink(settings, connection, NatsEntries(connection, clock), Hints(connection))
