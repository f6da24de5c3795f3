"""Asking a server that may be away, for as long as that takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import Unavailable
from holdfast.model.retry import Backoff, delay
from holdfast.model.time import MILLISECOND, SECOND

T = TypeVar("T")

BACK_OFF: Final = Backoff(base_us=200 * MILLISECOND, cap_us=10 * SECOND)
"""How long to wait between tries. Of their number nobody keeps count: whoever runs an agent ends it."""

log = logging.getLogger("holdfast.outside")


class ServerRetry:
    """Asks again while the server is away, does not answer in time or has no room. Any other error is an answer."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance

    async def answer(self, what: str, ask: Callable[[], Awaitable[T]], *, within_s: float) -> T:
        """What the server answers. One try takes so long at most: a connection that died without a word is given
        up."""
        tries = 0
        while True:
            try:
                async with asyncio.timeout(within_s):
                    answered = await ask()
            except (Unavailable, TimeoutError) as error:
                tries += 1
                await self.wait(what, tries, error)
            else:
                if tries:
                    log.info("%s: answered after %d attempts", what, tries + 1)
                return answered

    async def wait(self, what: str, tries: int, error: Exception) -> None:
        """It is worth trying again after so many tries."""
        told_us = getattr(error, "retry_after_s", 0) * SECOND
        wait_s = delay(BACK_OFF, tries, self._chance(), told_us) / SECOND
        # Every try is told while there are few of them, and fewer of many.
        level = logging.WARNING if tries & (tries - 1) == 0 else logging.DEBUG
        log.log(
            level, "%s: no answer (attempt %d), retrying in %.1f s: %s", what, tries, wait_s, _text(error)
        )
        await sleep_on_loop(wait_s)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
