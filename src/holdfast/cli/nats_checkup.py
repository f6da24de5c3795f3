"""Check of NATS for `doctor`, if the environment names a server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from typing import TYPE_CHECKING, Final

from holdfast.cli.store_checkup import Finding
from holdfast.errors import HoldfastError
from holdfast.registry.addresses import nats_settings
from holdfast.store.clock import SystemClock

if TYPE_CHECKING:
    from nats.aio.client import Client

    from holdfast.registry.bucket import BucketState
    from holdfast.registry.connection import NatsConnection

PATIENCE_S: Final = 5.0


async def nats_findings() -> list[Finding]:
    """Checks NATS without creating anything on the server."""
    try:
        settings = nats_settings(os.environ)
        if settings is None:
            return []
        from holdfast.registry.connection import NatsConnection
    except HoldfastError as error:
        return [Finding("failed", "nats", f"{error}  {error.hint}")]
    except ImportError:
        return [Finding("failed", "nats", "the NATS client is not installed: pip install 'holdfast[nats]'")]
    connection = NatsConnection(settings, SystemClock(), random.random)
    return [await _looked(connection)]


async def _looked(connection: NatsConnection) -> Finding:
    from holdfast.registry.bucket import Bucket

    loop = asyncio.get_running_loop()
    state_future: asyncio.Future[BucketState | None] = loop.create_future()

    async def look(client: Client) -> None:
        state = await Bucket(client).state()
        if not state_future.done():
            state_future.set_result(state)

    connection.attend("doctor", look)
    connection.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not state_future.done() and not connection.trouble:
                await asyncio.wait([state_future], timeout=0.05)
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await connection.close()
    if not state_future.done():
        state_future.cancel()
        why = connection.trouble or f"no answer within {PATIENCE_S:g} s"
        return Finding("warning", "nats", f"{why}; jobs and work do not depend on it")
    state = state_future.result()
    registry = "no agents registered" if state is None else f"{state.keys} entries in the registry bucket"
    return Finding("ok", "nats", f"connected, with JetStream; {registry}")
