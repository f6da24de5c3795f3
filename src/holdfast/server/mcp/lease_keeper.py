"""What a session has claimed stays its own while the process lives.

A model thinks for minutes between two calls, and renews nothing meanwhile. So this process does: every claimed item is
renewed at a third of its lease, and every agent that registered here beats, until the work is over, fenced, or the
process ends, which gives back what is left. Work that no tool has named for an hour is let go: a model that has
forgotten it would hold it for ever.
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
    """One claimed item, and when a tool last named it."""

    item: ClaimedWork
    lease_s: int
    named_at: int

    def right(self) -> dict[str, Any]:
        return {"fence": self.item.fence, "lease_token": self.item.lease_token}


class Keeping:
    def __init__(self, client: Client, clock: Clock, chance: Callable[[], float]) -> None:
        self.agent: AgentEntryView | None = None
        """Who this session is: the agent that registered last."""
        self._client = client
        self._clock = clock
        self._patience = ServerRetry(chance)
        self._kept: dict[str, Kept] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    # ── agents ────────────────────────────────────────────────────────────────────────────────────

    def track_agent(self, agent: AgentEntryView, register: Callable[[], Awaitable[AgentEntryView]]) -> None:
        """From now on this agent beats; where nobody knows it any more, it registers again."""
        self.agent = agent
        self._start(f"beat {agent.guid}", self._beat_on(agent, register))

    def guid(self, named: str | None) -> str:
        """The agent that is meant: the one that is named, or the one that this session is."""
        if named is not None:
            return named
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
        """From now on these are renewed."""
        for item in items:
            self._kept[item.id] = Kept(item, lease_s, self._clock.tick_us())
            self._start(f"lease {item.id}", self._renew_on(item.id))

    def right(self, work_id: str, fence: int | None, lease_token: str | None) -> dict[str, Any]:
        """What a word about this work must carry: as given, or as this session has claimed it."""
        kept = self._kept.get(work_id)
        if kept is not None:
            kept.named_at = self._clock.tick_us()
        if fence is not None and lease_token is not None:
            return {"fence": fence, "lease_token": lease_token}
        if kept is None:
            msg = f"work {work_id} is not claimed by this session"
            raise InvalidMove(
                msg, hint="Claim work with claim_work, or give the fence and lease_token of its claim."
            )
        return kept.right()

    def lease_s(self, work_id: str) -> int | None:
        kept = self._kept.get(work_id)
        return None if kept is None else kept.lease_s

    def over(self, work_id: str) -> None:
        """Nobody here renews it any more."""
        self._kept.pop(work_id, None)
        task = self._tasks.pop(f"lease {work_id}", None)
        if task is not None:
            task.cancel()

    async def _renew_on(self, work_id: str) -> None:
        kept = self._kept[work_id]

        async def renew() -> None:
            if self._clock.tick_us() - kept.named_at > FORGOTTEN_US:
                raise NotFound("no tool has mentioned it for an hour: its lease is no longer renewed")
            await self._client.renew_work(work_id, **kept.right(), lease_seconds=kept.lease_s)

        async def wait_until_due() -> None:
            await sleep_on_loop(kept.lease_s / 3)

        lost = await renew_lease(work_id, renew, wait_until_due, retry=self._patience, within_s=ANSWER_S)
        log.warning("this session lost the lease of work %s: %s", work_id, lost)
        self._kept.pop(work_id, None)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    async def close(self) -> None:
        """What is still claimed is given back, and the agent says that it is gone."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                for work_id, kept in self._kept.items():
                    with contextlib.suppress(HoldfastError):
                        await self._client.release_work(
                            work_id, **kept.right(), why="the MCP session is over"
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
