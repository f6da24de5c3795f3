"""External agent: registers at a server, claims work by capability, and runs plain functions for it.

    agent = ExternalAgent("http://127.0.0.1:8080", handle="summer", capabilities=["summarize"])

    @agent.serves("summarize")
    async def summarize(work: Work) -> str: ...

    agent.run()

    register → claim up to the free slots → run each item (`external_work`) → claim again
       └── heartbeats, so that others find it; unknown to the server: register again

The server may be unavailable at any moment and for any time. A claim has an id, so that a claim after a lost response
finds the same grants; the end of an item is reported until the server responds; a heartbeat without an entry makes
the agent register again.

Draining: no more claims; running functions are finished, and after the grace time cancelled and their work released,
which counts no attempt. Work that could not be released returns to the other agents when its lease expires.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from holdfast.api.work_records import AgentEntryView, ClaimedWork
from holdfast.client.external_work import ANSWER_S, HeldItem, Serves
from holdfast.client.http import RemoteClient
from holdfast.client.server_retry import ServerRetry
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import HoldfastError, InvalidPayload, InvalidSetting, NotFound
from holdfast.model.agent_registry import AgentStatus, Visibility, root_guid, sub_guid
from holdfast.model.ids import IdSource, RandomIds, check_name
from holdfast.model.time import SECOND
from holdfast.store.clock import Clock, SystemClock

DEFAULT_URL: Final = "http://127.0.0.1:8080"
LEASE_S: Final = 60
WAIT_S: Final = 15
"""How long the server may wait before it sends an empty response. Below a third of a lease: an item granted at its
end is still renewed in time."""

PACE_S: Final = 1.0
"""The shortest interval between claims of an agent that gets empty responses at once."""

BEAT_S: Final = 60.0
GRACE_S: Final = 30.0
FAREWELL_S: Final = 5.0
"""How long the release of work may take after the grace time."""

F = TypeVar("F", bound=Serves)
T = TypeVar("T")
log = logging.getLogger("holdfast.outside")


class ExternalAgent:
    """Claims work from a server until it is drained. One object serves once.

    The same handle in the same folder of the same machine is the same agent, over every restart, unless `guid` is
    given. So use one process per handle: two would share one entry, and its limit of tasks.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        handle: str,
        agent_type: str = "python",
        capabilities: Iterable[str] = (),
        boundaries: Iterable[str] = (),
        max_concurrent_tasks: int = 1,
        guid: str | None = None,
        project_id: str | None = None,
        username: str | None = None,
        visibility: Visibility | None = None,
        metadata: Mapping[str, Any] | None = None,
        lease_seconds: int = LEASE_S,
        wait_seconds: int = WAIT_S,
        heartbeat_s: float = BEAT_S,
        grace_s: float = GRACE_S,
        key: str | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        hostname = socket.gethostname()
        self.handle = check_name(handle, "handle")
        self.guid = sub_guid(root_guid(hostname, str(Path.cwd())), handle) if guid is None else guid
        self.url = url or os.environ.get("HOLDFAST_API_URL") or DEFAULT_URL
        self._capabilities = dict.fromkeys(capabilities)
        self._functions: dict[str, Serves] = {}
        self._room = max_concurrent_tasks
        self._entry: dict[str, Any] = {
            "agent_type": agent_type,
            "boundaries": tuple(boundaries),
            "max_concurrent_tasks": max_concurrent_tasks,
            "hostname": hostname,
            "project_id": project_id,
            "username": username,
            "visibility": visibility,
            "heartbeat_interval_ms": int(heartbeat_s * 1000),
            "metadata": metadata,
        }
        self._lease_s, self._wait_s, self._beat_s, self._grace_s = (
            lease_seconds,
            wait_seconds,
            heartbeat_s,
            grace_s,
        )
        self._key = key
        self._clock = SystemClock() if clock is None else clock
        self._ids = RandomIds() if ids is None else ids
        self._chance = chance
        self._patience = ServerRetry(chance)
        self._client: RemoteClient | None = None
        self._held: dict[asyncio.Task[str], HeldItem] = {}
        self._ask: tuple[str, int, int] | None = None
        self._refused = 0
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()

    # ── capabilities ──────────────────────────────────────────────────────────────────────────────

    def serves(self, capability: str) -> Callable[[F], F]:
        """Registers the decorated function for work of this capability. It gets a `Work` and returns the result as
        plain JSON. An exception fails the attempt, and the work is tried again; `Unrecoverable` ends the work."""
        check_name(capability, "capability")

        def serve(function: F) -> F:
            if capability in self._functions:
                msg = f"capability {capability!r} has a function already"
                raise InvalidSetting(msg, hint="One function serves one capability.")
            self._functions[capability] = function
            self._capabilities[capability] = None
            return function

        return serve

    @property
    def client(self) -> RemoteClient:
        """The client of the server, for other requests of the agent: submit work, read a job. Available inside `async
        with`, or while the agent serves."""
        if self._client is None:
            msg = "the agent is not connected"
            raise InvalidSetting(msg, hint="Use `async with agent:`, or wait until it serves.")
        return self._client

    # ── lifecycle ─────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Serves until SIGTERM or Ctrl-C has drained it; a second signal releases all work at once."""
        asyncio.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.drain)
        async with self:
            await self.serve()

    async def __aenter__(self) -> Self:
        self._client = RemoteClient(self.url, key=self._key, ids=self._ids)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def drain(self, *, at_once: bool = False) -> None:
        """Stops claiming; running work is finished or released. With `at_once`, or on the second call, it is released
        at once."""
        if at_once or self._draining.is_set():
            self._hurry.set()
        self._draining.set()

    async def serve(self) -> None:
        """Claims and does work until the agent is drained; afterwards it holds no work.

        Raises:
            HoldfastError: The server rejects this agent: its entry, its key. Its work is finished or released.
        """
        unserved = [name for name in self._capabilities if name not in self._functions]
        if unserved or not self._functions:
            msg = f"no function serves {unserved[0]!r}" if unserved else "no function serves any capability"
            raise InvalidSetting(msg, hint="Decorate one with @agent.serves(capability).")
        client = self.client
        beating: asyncio.Task[None] | None = None
        try:
            if await self._unless_draining(self._register()) is None:
                return
            log.info("%s serves %s at %s", self.handle, ", ".join(self._functions), self.url)
            beating = asyncio.create_task(self._beat_on(client), name="holdfast-beat")
            while not self._draining.is_set():
                await self._take(client)
        except asyncio.CancelledError:
            self.drain(at_once=True)
            raise
        finally:
            self._draining.set()
            await self._finish(client)
            if beating is not None:
                beating.cancel()
                await asyncio.wait([beating])
                await self._say_goodbye(client)

    async def _register(self) -> AgentEntryView:
        """Registers the agent with its current values."""

        async def ask() -> AgentEntryView:
            return await self.client.register_agent(
                self.handle, guid=self.guid, capabilities=tuple(self._capabilities), **self._entry
            )

        return await self._patience.answer("registration", ask, within_s=ANSWER_S)

    async def _beat_on(self, client: RemoteClient) -> None:
        """Sends heartbeats, so that others find the agent and see whether it has free slots."""
        while True:
            await sleep_on_loop(
                self._beat_s * (0.8 + 0.2 * self._chance())
            )  # a little early, and spread over the agents

            async def ask() -> AgentEntryView:
                full = len(self._held) >= self._room
                status = AgentStatus.BUSY if full else AgentStatus.ONLINE
                return await client.heartbeat_agent(
                    self.guid, status=status, current_task_count=len(self._held)
                )

            try:
                await self._patience.answer("heartbeat", ask, within_s=ANSWER_S)
            except NotFound:
                log.warning("the server no longer knows agent %s: registering again", self.handle)
                with contextlib.suppress(HoldfastError):
                    await self._register()
            except HoldfastError as error:
                log.warning("heartbeat rejected: %s (%s)", error, error.hint)

    async def _say_goodbye(self, client: RemoteClient) -> None:
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await client.heartbeat_agent(self.guid, status=AgentStatus.OFFLINE, current_task_count=0)

    # ── claiming ──────────────────────────────────────────────────────────────────────────────────

    async def _take(self, client: RemoteClient) -> None:
        """Claims up to the free slots, and starts each item."""
        free = self._room - len(self._held)
        if free <= 0:
            await self._unless_draining(asyncio.wait(self._held, return_when=asyncio.FIRST_COMPLETED))
            return
        if self._ask is None:
            # The same id until there is a response: after a lost response the server returns the same grants.
            self._ask = (self._ids.new("claim"), free, self._clock.tick_us())
        claim_id, limit, since_us = self._ask

        async def ask() -> tuple[ClaimedWork, ...]:
            return await self._claim(client, claim_id, limit, self._wait_s)

        begun_us = self._clock.tick_us()
        try:
            asking = self._patience.answer("claim", ask, within_s=self._wait_s + ANSWER_S)
            granted = await self._unless_draining(asking)
        except (NotFound, InvalidPayload) as error:
            await self._unless_draining(self._again(error))
            return
        if granted is None:
            return
        self._ask, self._refused = None, 0
        for item in granted:
            self._start(client, item, since_us)
        early_s = PACE_S - (self._clock.tick_us() - begun_us) / SECOND
        if not granted and early_s > 0:
            await self._unless_draining(sleep_on_loop(early_s))

    async def _again(self, error: NotFound | InvalidPayload) -> None:
        """Registers again: the server had lost the entry, or another client has changed its capabilities. From the
        second rejection on it pauses with a growing delay; a second InvalidPayload is raised."""
        self._refused += 1
        if self._refused > 1:
            if isinstance(error, InvalidPayload):
                raise error
            await self._patience.wait("claim", self._refused, error)
        log.warning("claim rejected, registering %s again: %s", self.handle, error)
        await self._register()

    async def _claim(
        self, client: RemoteClient, claim_id: str, limit: int, wait_s: int
    ) -> tuple[ClaimedWork, ...]:
        return await client.claim_work(
            self.guid,
            capabilities=tuple(self._functions),
            limit=limit,
            wait_seconds=wait_s,
            lease_seconds=self._lease_s,
            claim_id=claim_id,
        )

    def _start(self, client: RemoteClient, item: ClaimedWork, since_us: int) -> None:
        holding = HeldItem(
            item,
            self._functions[item.capability],
            client,
            patience=self._patience,
            clock=self._clock,
            lease_s=self._lease_s,
            since_us=since_us,
        )
        task = asyncio.create_task(holding.go(), name=f"holdfast-holding-{item.id}")
        self._held[task] = holding
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[str]) -> None:
        item = self._held.pop(task).work.item
        if not task.cancelled() and (error := task.exception()) is not None:
            # Its lease expires, and another agent tries.
            log.error("work %s: its end could not be reported", item.id, exc_info=error)

    async def _unless_draining(self, asking: Awaitable[T]) -> T | None:
        """The result; None, with the awaitable cancelled, if the agent is drained first."""
        answer = asyncio.ensure_future(asking)
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait([answer, draining], return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            for task in (answer, draining):
                task.cancel()
            await asyncio.wait([answer, draining])

    # ── ending ────────────────────────────────────────────────────────────────────────────────────

    async def _finish(self, client: RemoteClient) -> None:
        """Waits until every function has ended, by itself or cancelled, and its item is reported or released."""
        await self._give_back_unseen(client)
        if self._held:
            log.info("%s is stopping: %d in work", self.handle, len(self._held))
        hurried = asyncio.ensure_future(self._hurry.wait())
        ending = asyncio.ensure_future(self._all_over())
        try:
            await asyncio.wait([hurried, ending], timeout=self._grace_s, return_when=asyncio.FIRST_COMPLETED)
            for holding in self._held.values():
                holding.give_back()
            await asyncio.wait([ending], timeout=FAREWELL_S)
        finally:
            for task in [hurried, ending, *self._held]:
                task.cancel()
            await asyncio.wait([hurried, ending, *self._held])

    async def _all_over(self) -> None:
        while self._held:
            await asyncio.wait(self._held)

    async def _give_back_unseen(self, client: RemoteClient) -> None:
        """Releases the grants of a claim that was cut off before its response."""
        if self._ask is None:
            return
        claim_id, limit, _ = self._ask
        with contextlib.suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                for item in await self._claim(client, claim_id, limit, 0):
                    await client.release_work(
                        item.id, fence=item.fence, lease_token=item.lease_token, why="the agent is stopping"
                    )
