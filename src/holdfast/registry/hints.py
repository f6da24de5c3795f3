"""`holdfast.ready.<capability>`: work of that capability may be ready. Lossy, late or twice: the claim decides.

One subscription of a process hears all of them, and wakes whoever waits here for one of its names. After a reconnect
everybody is woken once, because what was said meanwhile was not heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Final

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdfast.errors import Unavailable
from holdfast.registry.bucket import token_of
from holdfast.registry.connection import NatsConnection, end_tasks

SUBJECT: Final = "holdfast.ready"
UNSAID_MAX: Final = 1_000
log = logging.getLogger("holdfast.nats")

Wake = Callable[[], None]


def subject_of(capability: str) -> str:
    """What is said, and listened to, for this capability."""
    return f"{SUBJECT}.{token_of(capability)}"


class Hints:
    """Says and hears what may be ready. Make it before the connection is started."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._saying: dict[str, asyncio.Task[None]] = {}
        self._listening: dict[str, list[Wake]] = {}
        connection.attend("hints", self._attend)

    def ready(self, capability: str) -> None:
        """It is being said, if anybody can hear it. Returns at once and never fails."""
        subject = subject_of(capability)
        if not self._connection.connected or subject in self._saying or len(self._saying) >= UNSAID_MAX:
            return
        task = asyncio.get_running_loop().create_task(self._say(subject))
        self._saying[subject] = task
        task.add_done_callback(lambda _: self._saying.pop(subject, None))

    def listen(self, capabilities: Iterable[str], wake: Wake) -> Callable[[], None]:
        """`wake` is called whenever one of them may be ready, until the function that is returned is."""
        subjects = {subject_of(capability) for capability in capabilities}
        for subject in subjects:
            self._listening.setdefault(subject, []).append(wake)

        def stop() -> None:
            for subject in subjects:
                waking = self._listening.get(subject, [])
                if wake in waking:
                    waking.remove(wake)
                if not waking:
                    self._listening.pop(subject, None)

        return stop

    async def close(self) -> None:
        await end_tasks(list(self._saying.values()))

    async def _say(self, subject: str) -> None:
        with contextlib.suppress(Unavailable, errors.Error):
            async with self._connection.asking() as client:
                await client.publish(subject)

    async def _attend(self, client: Client) -> None:
        async def heard(message: Msg) -> None:
            self._wake(message.subject)

        await client.subscribe(f"{SUBJECT}.*", cb=heard)
        await client.flush(timeout=1)
        for subject in list(self._listening):
            self._wake(subject)

    def _wake(self, subject: str) -> None:
        for wake in list(self._listening.get(subject, ())):
            try:
                wake()
            except Exception:  # one that breaks keeps nobody else from hearing
                log.exception("a subscriber of %s failed", subject)
