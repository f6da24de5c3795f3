"""Lease keeper: renews the leases of a session's claimed work while the process lives.

A model thinks for minutes between two calls, and renews nothing meanwhile. So this process does: it renews every
claimed item at a third of its lease, and sends the heartbeats of every agent that registered here, until the work has
ended or is fenced, or the process ends, which releases the remaining work. Work that no tool call has named for an
hour is no longer renewed: a model that has forgotten it would hold it for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from holdfast.api.work_records import AgentEntryView, ClaimedWork
from holdfast.client.client import Client
from holdfast.client.server_retry import ServerRetry
from holdfast.client.work_lease import renew_lease
from holdfast.engine.loop_sleep import sleep_on_loop
from holdfast.errors import HoldfastError, InvalidMove, NotFound
from holdfast.model.agent_registry import AgentStatus
from holdfast.model.time import HOUR
from holdfast.store.clock import Clock

FORGOTTEN_US: Final = HOUR
ANSWER_S: Final = 15.0
FAREWELL_S: Final = 5.0
log = logging.getLogger("holdfast.mcp")


class Kept(msgspec.Struct):
    """One claimed item, and the time of the last tool call that named it."""

    item: ClaimedWork
    lease_s: int
    named_at: int

    def right(self) -> dict[str, Any]:
        return {"fence": self.item.fence, "lease_token": self.item.lease_token}


class Keeping:
    def __init__(self, client: Client, clock: Clock, chance: Callable[[], float]) -> None:
        self.agent: AgentEntryView | None = None
        """The agent of this session: the one that registered last."""
        self._client = client
        self._clock = clock
        self._patience = ServerRetry(chance)
        self._kept: dict[str, Kept] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # ── agents ────────────────────────────────────────────────────────────────────────────────────

    def track_agent(self, agent: AgentEntryView, register: Callable[[], Awaitable[AgentEntryView]]) -> None:
        """Starts the heartbeats of this agent; if the registry has lost it, it registers again."""
        self.agent = agent
        self._start(f"beat {agent.guid}", self._beat_on(agent, register))

    def guid(self, guid: str | None) -> str:
        """The guid argument, or that of this session's agent."""
        if guid is not None:
            return guid
        if self.agent is None:
            raise InvalidMove(
                "this session is not registered as an agent",
                hint="Call register_agent first, or give a guid.",
            )
        return self.agent.guid

    async def _beat_on(
        self, agent: AgentEntryView, register: Callable[[], Awaitable[AgentEntryView]]
    ) -> None:
        async def beat() -> AgentEntryView:
            try:
                return await self._client.heartbeat_agent(agent.guid)
            except NotFound:
                return await register()

        while True:
            await sleep_on_loop(agent.heartbeat_interval_ms / 1000 * 0.8)
            try:
                await self._patience.answer("heartbeat", beat, within_s=ANSWER_S)
            except HoldfastError as error:
                log.warning("heartbeat of agent %s rejected: %s (%s)", agent.handle, error, error.hint)

    # ── work ──────────────────────────────────────────────────────────────────────────────────────

    def track_work(self, items: Iterable[ClaimedWork], lease_s: int) -> None:
        """Starts the renewal of these items."""
        for item in items:
            self._kept[item.id] = Kept(item, lease_s, self._clock.tick_us())
            self._start(f"lease {item.id}", self._renew_on(item.id))

    def right(self, work_id: str, fence: int | None, lease_token: str | None) -> dict[str, Any]:
        """The fence and token for a command on this work: the arguments, or those of this session's claim."""
        claim = self._kept.get(work_id)
        if claim is not None:
            claim.named_at = self._clock.tick_us()
        if fence is not None and lease_token is not None:
            return {"fence": fence, "lease_token": lease_token}
        if claim is None:
            msg = f"work {work_id} is not claimed by this session"
            raise InvalidMove(
                msg, hint="Claim work with claim_work, or give the fence and lease_token of its claim."
            )
        return claim.right()

    def lease_s(self, work_id: str) -> int | None:
        claim = self._kept.get(work_id)
        return None if claim is None else claim.lease_s

    def over(self, work_id: str) -> None:
        """Stops renewing this work."""
        self._kept.pop(work_id, None)
        task = self._tasks.pop(f"lease {work_id}", None)
        if task is not None:
            task.cancel()

    async def _renew_on(self, work_id: str) -> None:
        claim = self._kept[work_id]

        async def renew() -> None:
            if self._clock.tick_us() - claim.named_at > FORGOTTEN_US:
                raise NotFound("no tool has mentioned it for an hour: its lease is no longer renewed")
            await self._client.renew_work(work_id, **claim.right(), lease_seconds=claim.lease_s)

        async def wait_until_due() -> None:
            await sleep_on_loop(claim.lease_s / 3)

        lost = await renew_lease(work_id, renew, wait_until_due, retry=self._patience, within_s=ANSWER_S)
        log.warning("this session lost the lease of work %s: %s", work_id, lost)
        self._kept.pop(work_id, None)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """Releases the work that is still claimed, and reports the agent as offline."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                for work_id, claim in self._kept.items():
                    with contextlib.suppress(HoldfastError):
                        await self._client.release_work(
                            work_id, **claim.right(), why="the MCP session is over"
                        )
                if self.agent is not None:
                    with contextlib.suppress(HoldfastError):
                        await self._client.heartbeat_agent(
                            self.agent.guid, status=AgentStatus.OFFLINE, current_task_count=0
                        )

    def _start(self, name: str, doing: Any) -> None:
        before = self._tasks.pop(name, None)
        if before is not None:
            before.cancel()
        self._tasks[name] = asyncio.create_task(doing, name=f"holdfast-mcp-{name}")
