"""What the tests of the registry over NATS share: a server of their own, a link to it, and somebody else's client."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.js.kv import KeyValue

from holdfast.model.agent_registry import AgentEntry
from holdfast.registry.addresses import nats_settings
from holdfast.registry.bucket import BUCKET
from holdfast.registry.connect import NatsLink, open_nats
from holdfast.store.clock import Clock, SystemClock, pause
from tests.support.servers import NatsServer

SOON_S = 30.0
"""Patience where nothing is measured: the machine may be loaded many times over."""


async def until(holds: Callable[[], bool | Awaitable[bool]], within_s: float = SOON_S) -> float:
    """It holds; and how long that took, in seconds."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return loop.time() - begun
        assert loop.time() - begun < within_s, f"not within {within_s:g} s"
        await pause(0.01)


@asynccontextmanager
async def linked(
    url: str, clock: Clock | None = None, *, well: bool = True, **settings: str
) -> AsyncIterator[NatsLink]:
    """A link as a process has it; with `well`, when it is."""
    found = nats_settings({"HOLDFAST_NATS_URL": url, **settings})
    assert found is not None
    link = open_nats(found, SystemClock() if clock is None else clock, random.Random(6).random)
    link.start()
    try:
        if well:
            await until(lambda: link.well)
        yield link
    finally:
        await link.close()


@asynccontextmanager
async def stranger(url: str) -> AsyncIterator[KeyValue]:
    """The bucket, as anybody's client has it."""
    async with await nats.connect(url) as client:
        yield await client.jetstream().key_value(BUCKET)


def entry(guid: str, **more: Any) -> AgentEntry:
    return AgentEntry(**{"guid": guid, "handle": guid, "agent_type": "coder", **more})


def written(guid: str, **more: Any) -> bytes:
    """An entry as an agent in another language writes it."""
    return json.dumps({"guid": guid, "handle": f"@{guid}", "agentType": "coder", **more}).encode()


async def guids(link: NatsLink) -> set[str]:
    return {seen.entry.guid for seen in await link.place.list()}


class ConfiguredServer(NatsServer):
    """A nats-server that is told more."""

    def __init__(self, **told: object) -> None:
        super().__init__()
        self.told = told

    def _configuration(self) -> dict[str, object]:
        merged = {**super()._configuration(), **self.told}
        return {name: value for name, value in merged.items() if value is not None}
