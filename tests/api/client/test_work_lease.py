"""The lease of a claimed work item is renewed for as long as it is held, whatever the server answers meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from holdfast.api.work_records import ClaimedWork
from holdfast.client.client import Client
from holdfast.client.server_retry import ServerRetry
from holdfast.client.work_lease import renew_lease
from holdfast.errors import Broken, Fenced, Forbidden, HoldfastError, NotFound, Unavailable
from holdfast.model.work import WorkStatus
from holdfast.server.mcp.lease_keeper import Keeping
from holdfast.store.clock import VirtualClock


class Server:
    """Answers each renewal as it is told; the last answer ends the lease."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.renewals = 0
        self.ended = asyncio.Event()

    async def renew_work(self, _work_id: str, **_right: Any) -> None:
        self.renewals += 1
        answer = self.answers.pop(0)
        if not self.answers:
            self.ended.set()
        if answer is not None:
            raise answer


async def at_once() -> None:
    """The next renewal is always due."""


def patience() -> ServerRetry:
    return ServerRetry(lambda: 0.0)


@pytest.mark.parametrize("last", [Fenced("another agent has it"), NotFound("there is no such work")])
async def test_a_lease_is_renewed_until_it_is_lost(last: HoldfastError) -> None:
    """Goal: only the end of the claim ends the renewal. Method: a server that is away, does not answer and refuses."""
    reported: list[HoldfastError | None] = []
    refusal = Forbidden("this key may not")
    server = Server(None, Unavailable("away"), TimeoutError(), None, refusal, None, last)
    lost = await renew_lease(
        "work-1",
        lambda: server.renew_work("work-1"),
        at_once,
        retry=patience(),
        within_s=30.0,
        report=reported.append,
    )
    assert lost is last
    assert server.renewals == 7
    assert reported == [None, None, refusal]


async def test_a_refused_renewal_of_a_session_is_tried_again() -> None:
    """Goal: the work of an MCP session is not lost because the server failed once. Method: a server that fails, renews,
    and gives the work to another."""
    server = Server(Broken("the server failed"), None, Fenced("another session has it"))
    keeping = Keeping(cast("Client", server), VirtualClock(), lambda: 0.0)
    item = ClaimedWork(
        id="work-1",
        work_item_id="work-1",
        description="",
        capability="sum",
        status=WorkStatus.IN_PROGRESS,
        created_at="",
        fence=1,
        lease_token="token",
        lease_expires_at="",
        attempt=1,
    )
    keeping.track_work([item], lease_s=0)
    async with asyncio.timeout(60):
        await server.ended.wait()
    await keeping.close()
    assert server.renewals == 3
