"""Remote chat: a conversation through a server, with the interface of a local one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from holdfast.client.client import Client
from holdfast.errors import InvalidMove, JobCancelled
from holdfast.model.states import Status
from holdfast.model.streams import AttemptSuperseded, Chunk


class RemoteQuestion(Protocol):
    """A posted message, and its answer."""

    id: str

    async def result(self) -> str: ...

    async def cancel(self, why: str = "") -> None: ...

    def stream(
        self, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]: ...


class Posts(Protocol):
    """A conversation that takes messages."""

    async def post(self, content: Any) -> RemoteQuestion: ...


class FarSession:
    def __init__(self, client: Client, agent: str, session_id: str) -> None:
        self._client = client
        self._agent = agent
        self._session_id = session_id

    async def post(self, content: Any) -> RemoteQuestion:
        posted = await self._client.message(self._agent, content, session_id=self._session_id)
        return FarJob(self._client, posted.job_id)


class FarJob:
    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self.id = job_id

    async def result(self) -> str:
        """Waits until the turn is committed, and returns the answer."""
        try:
            return (await self._client.reply(self.id)).text
        except InvalidMove:
            if (await self._client.get(self.id)).status is Status.CANCELLED:
                raise JobCancelled(f"job {self.id} was cancelled", job_id=self.id) from None
            raise

    async def cancel(self, why: str = "") -> None:
        await self._client.cancel(self.id, why=why)

    def stream(
        self, *, after: str | None = None, stream: str | None = None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        return self._client.stream(self.id, after=after, stream=stream)
