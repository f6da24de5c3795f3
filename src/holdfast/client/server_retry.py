"""Server retry: repeats a request until the server responds."""

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
"""The pause between attempts. Their number is not limited: the operator of an agent ends it."""

log = logging.getLogger("holdfast.outside")


class ServerRetry:
    """Repeats a request while the server is unavailable, does not respond in time or is overloaded. Any other error
    is a response."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance

    async def answer(self, subject: str, ask: Callable[[], Awaitable[T]], *, within_s: float) -> T:
        """The server's response. Each attempt has a time limit, so that a dead connection is given up."""
        tries = 0
        while True:
            try:
                async with asyncio.timeout(within_s):
                    response = await ask()
            except (Unavailable, TimeoutError) as error:
                tries += 1
                await self.wait(subject, tries, error)
            else:
                if tries:
                    log.info("%s: answered after %d attempts", subject, tries + 1)
                return response

    async def wait(self, subject: str, tries: int, error: Exception) -> None:
        """Waits before the next attempt, with exponential backoff."""
        retry_after_us = getattr(error, "retry_after_s", 0) * SECOND
        wait_s = delay(BACK_OFF, tries, self._chance(), retry_after_us) / SECOND
        # Logs every one of the first attempts, and fewer of many.
        level = logging.WARNING if tries & (tries - 1) == 0 else logging.DEBUG
        log.log(
            level, "%s: no answer (attempt %d), retrying in %.1f s: %s", subject, tries, wait_s, _text(error)
        )
        await sleep_on_loop(wait_s)


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
