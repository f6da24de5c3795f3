"""Connection to NATS that reconnects for ever.

    dialling ──▶ connected ──▶ gone ──▶ dialling …      without end, with back-off and jitter, each step logged

The client library's own reconnect is off: after it, JetStream subscriptions stay silent if the server is another
process, a rejection during a reconnect closes the client for good, and messages published meanwhile are sent late. So
each connection is a new client, and everything that uses one is an *attendant*: a function that is called with each new
client, and cancelled when the client is gone. An attendant that raises is called again, with back-off.

A server that accepts connections and never answers is found by a ping every two seconds; without an answer it counts as
gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from nats import errors
from nats.aio.client import Client

from holdfast.errors import Unavailable
from holdfast.model.retry import Backoff, delay
from holdfast.model.time import MILLISECOND, SECOND
from holdfast.registry.addresses import NatsAddress, NatsSettings
from holdfast.registry.credentials import read_credentials
from holdfast.registry.diagnostics import Diagnosis, diagnose
from holdfast.store.clock import Clock, pause

ASK_S: Final = 1.5
"""Timeout of a request to NATS."""

DIAL_S: Final = 5.0
BEAT_S: Final = 2.0
CLOSE_S: Final = 1.0
SOON: Final = Backoff(base_us=200 * MILLISECOND, cap_us=2 * SECOND, jitter=0.5)
SLOWLY: Final = Backoff(base_us=2 * SECOND, cap_us=20 * SECOND, jitter=0.5)
_NEVER: Final = 1_000_000_000

log = logging.getLogger("holdfast.nats")

Attendant = Callable[[Client], Awaitable[None]]
_Gone = asyncio.Future[Exception]
"""Done when a client is no longer usable, with the reason."""


class NatsConnection:
    """A connection. Register all attendants, then call `start`. `chance` returns random numbers from 0 up to 1."""

    def __init__(self, settings: NatsSettings, clock: Clock, chance: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = clock
        self._chance = chance
        self._attendants: dict[str, Attendant] = {}
        self._troubles: dict[str, str] = {}
        self._client: Client | None = None
        self._at = settings.servers[0]
        self._dialling: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        return self._client is not None

    @property
    def trouble(self) -> str:
        """What is wrong and who has to act; empty if no problem is known."""
        return "; ".join(dict.fromkeys(self._troubles.values()))

    def attend(self, name: str, attendant: Attendant) -> None:
        """Call `attendant` with each new client. Must be called before `start`."""
        self._attendants[name] = attendant

    def start(self) -> None:
        if self._dialling is None:
            self._dialling = asyncio.get_running_loop().create_task(
                self._keep_dialling(), name="holdfast-nats"
            )

    async def close(self) -> None:
        """Close the connection and stop reconnecting."""
        task, self._dialling = self._dialling, None
        if task is not None:
            await end_tasks([task])

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[Client]:
        """The client, for a short request. A request that NATS does not answer in time raises Unavailable."""
        client = self._client
        if client is None:
            raise Unavailable(self.trouble or f"not connected to NATS at {self._at}")
        try:
            async with asyncio.timeout(ASK_S):
                yield client
        except (errors.Error, OSError, TimeoutError) as error:
            raise Unavailable(diagnose(error, self._at).text) from error

    # ── internals ─────────────────────────────────────────────────────────────────────────────────

    async def _keep_dialling(self) -> None:
        tried = 0
        while True:
            self._at = at = self._settings.servers[tried % len(self._settings.servers)]
            tried += 1
            log.info("connecting to NATS at %s, attempt %d", at, tried)
            gone: _Gone = asyncio.get_running_loop().create_future()
            try:
                client = await self._dial(at, gone)
            except Exception as error:  # any error: dial again
                await self._retry_later("", diagnose(error, at), tried)
                continue
            tried = 0
            await self._run_attendants(client, at, gone)

    async def _dial(self, at: NatsAddress, gone: _Gone) -> Client:
        dialling = True

        async def failed(error: Exception) -> None:
            if dialling:
                raise _DialError from error  # else the library would silently retry by itself
            log.debug("NATS at %s: %s", at, error)
            if "permissions violation" in str(error).lower():
                log.warning("%s (%s)", diagnose(error, at).text, error)

        async def closed() -> None:
            _end(gone, client.last_error or errors.ConnectionClosedError())

        # Read for each attempt: a corrected file needs no restart.
        creds = None if self._settings.creds is None else read_credentials(self._settings.creds)
        client = _Client(must_encrypt=at.encrypted)
        try:
            async with asyncio.timeout(DIAL_S):
                await client.connect(
                    [f"nats://{at}"],
                    error_cb=failed,
                    closed_cb=closed,
                    name="holdfast",
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    connect_timeout=int(DIAL_S),
                    ping_interval=_NEVER,
                    user=at.user if at.password is not None else None,
                    password=at.password,
                    token=at.user if at.password is None else None,
                    signature_cb=None if creds is None else creds.sign,
                    user_jwt_cb=None if creds is None else lambda: bytearray(creds.jwt.encode()),
                    tls=self._load_certificates(at),
                    tls_hostname=at.host,
                )
        except BaseException:
            await _hang_up(client)
            raise
        dialling = False
        return client

    def _load_certificates(self, at: NatsAddress) -> ssl.SSLContext | None:
        """The trusted certificates; None: those of the system, if the server requires TLS."""
        ca = self._settings.ca
        return ssl.create_default_context(cafile=ca) if ca is not None or at.encrypted else None

    async def _run_attendants(self, client: Client, at: NatsAddress, gone: _Gone) -> None:
        """Run the attendants until the client is gone."""
        self._troubles.clear()
        self._client = client
        log.info("connected to NATS %s at %s", client.connected_server_version, at)
        tasks = [asyncio.create_task(self._keep_pinging(client, gone))]
        tasks += [
            asyncio.create_task(self._serve(name, attendant, client, gone), name=f"holdfast-nats-{name}")
            for name, attendant in self._attendants.items()
        ]
        try:
            self._troubles = {"": diagnose(await gone, at).text}
            log.warning("connection to NATS lost: %s", self.trouble)
        finally:
            self._client = None
            await _hang_up(client)
            await end_tasks(tasks)

    async def _keep_pinging(self, client: Client, gone: _Gone) -> None:
        """Ping the server; without an answer the client is gone."""
        while not gone.done():
            await pause(BEAT_S)
            try:
                async with asyncio.timeout(2 * BEAT_S):
                    await client.flush(timeout=int(BEAT_S))
            except (errors.Error, OSError, TimeoutError) as error:
                _end(gone, error)

    async def _serve(self, name: str, attendant: Attendant, client: Client, gone: _Gone) -> None:
        tried = 0
        while not gone.done():
            begun = self._clock.tick_us()
            try:
                await attendant(client)
                self._troubles.pop(name, None)
                return
            except Exception as error:
                if gone.done() or client.is_closed:
                    return
                # The back-off restarts for one that served for a while; it grows for one that breaks at once.
                tried = 1 if self._clock.tick_us() - begun >= SLOWLY.cap_us else tried + 1
                log.debug("%s over NATS broke", name, exc_info=True)
                await self._retry_later(name, diagnose(error, self._at), tried)

    def wait_s(self, policy: Backoff, tried: int) -> float:
        return delay(policy, tried, self._chance()) / SECOND

    def clear_trouble(self, name: str) -> None:
        """Called by an attendant whose problem has passed."""
        self._troubles.pop(name, None)

    async def _retry_later(self, name: str, trouble: Diagnosis, tried: int) -> None:
        self._troubles[name] = trouble.text
        wait_s = self.wait_s(SLOWLY if trouble.ours else SOON, tried)
        log.warning("%s; trying again in %.1f s", trouble.text, wait_s)
        await pause(wait_s)


def _end(gone: _Gone, why: Exception) -> None:
    if not gone.done():
        gone.set_result(why)


class _DialError(Exception):
    """Dialling failed; the cause says why."""


class _Client(Client):
    """The library's client, except that with `must_encrypt` it sends nothing to a server without TLS."""

    def __init__(self, *, must_encrypt: bool) -> None:
        super().__init__()
        self._must_encrypt = must_encrypt

    def _connect_command(self) -> bytes:
        if self._must_encrypt and not self._server_info.get("tls_required"):
            raise errors.SecureConnWantedError
        return super()._connect_command()


async def _hang_up(client: Client) -> None:
    """Close the socket without waiting for pending writes."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(CLOSE_S):
            await client.close()
    for name in ("_io_writer", "_bare_io_writer"):
        writer: Any = getattr(client._transport, name, None)  # noqa: SLF001  closing would wait for a dead peer
        if writer is not None:
            writer.transport.abort()


async def end_tasks(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel the tasks until they have ended: the library swallows some cancellations."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)
