"""Wake-ups over NATS: `holdfast.ready.<capability>` means that work of that capability may be ready.

A message may be lost, late or duplicated: the claim decides. One subscription of a process receives all of them, and
wakes the listeners of that capability. After a reconnect every listener is woken once, because messages meanwhile were
lost.
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
    """The subject of this capability."""
    return f"{SUBJECT}.{token_of(capability)}"


class Hints:
    """Publishes and receives wake-ups. Create it before the connection is started."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._saying: dict[str, asyncio.Task[None]] = {}
        self._listening: dict[str, list[Wake]] = {}
        connection.attend("hints", self._attend)

    def ready(self, capability: str) -> None:
        """Publish a wake-up, if there is a connection. Returns at once and never fails."""
        subject = subject_of(capability)
        if not self._connection.connected or subject in self._saying or len(self._saying) >= UNSAID_MAX:
            return
        task = asyncio.get_running_loop().create_task(self._publish(subject))
        self._saying[subject] = task
        task.add_done_callback(lambda _: self._saying.pop(subject, None))

    def listen(self, capabilities: Iterable[str], wake: Wake) -> Callable[[], None]:
        """Call `wake` whenever work of these capabilities may be ready, until the returned function is called."""
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

    async def _publish(self, subject: str) -> None:
        with contextlib.suppress(Unavailable, errors.Error):
            async with self._connection.asking() as client:
                await client.publish(subject)

    async def _attend(self, client: Client) -> None:
        async def on_message(message: Msg) -> None:
            self._wake(message.subject)

        await client.subscribe(f"{SUBJECT}.*", cb=on_message)
        await client.flush(timeout=1)
        for subject in list(self._listening):
            self._wake(subject)

    def _wake(self, subject: str) -> None:
        for wake in list(self._listening.get(subject, ())):
            try:
                wake()
            except Exception:  # a listener that raises must not keep others from being woken
                log.exception("a subscriber of %s failed", subject)
