"""In-process transport: the handlers of operations over an open store, without a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TypeVar

import msgspec

from holdfast.api.context import ApiContext
from holdfast.api.operation import Operation
from holdfast.client.client import Client
from holdfast.model.ids import IdSource
from holdfast.model.jobs import DEFAULT_NAMESPACE
from holdfast.model.streams import AttemptSuperseded, Chunk
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R")


class InProcessTransport:
    """Performs operations with this context."""

    def __init__(self, api: ApiContext) -> None:
        self.api = api
        self.ids = api.ids

    async def call(self, operation: Operation[Q, R], request: Q) -> R:
        return await operation(self.api, request)

    async def stream(
        self, job_id: str, *, after: str | None, stream: str | None
    ) -> AsyncGenerator[Chunk | AttemptSuperseded, None]:
        from holdfast.engine.streams import watch

        await self.api.head(job_id)
        async for chunk in watch(self.api.store, job_id, after=after, stream=stream):
            yield chunk

    async def close(self) -> None:
        """Does nothing: the caller closes the store."""


class EmbeddedClient(Client):
    """A client over an open store, which the caller closes."""

    def __init__(
        self, store: Store, clock: Clock, ids: IdSource, *, namespace: str = DEFAULT_NAMESPACE
    ) -> None:
        self.api = ApiContext(store=store, clock=clock, ids=ids, namespace=namespace)
        super().__init__(InProcessTransport(self.api))
