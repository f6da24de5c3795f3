"""Worker presences: the heartbeats of worker processes."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.audit import ActDraft
from holdfast.model.page import Page
from holdfast.model.worker_presence import HeartbeatReply, Presence, SeenWorker


class WorkerPresences(Protocol):
    """Times are store time. Presences belong to no namespace: a worker drives jobs of all namespaces."""

    async def beat(self, presence: Presence) -> HeartbeatReply:
        """Record a heartbeat of the worker, with its presence.

        Another process of the same name replaces it, without the requests that its predecessor got. A worker that was
        silent for a day is removed.
        """
        ...

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[SeenWorker]:
        """Workers by name, a page at a time; pass the cursor of a page to get the next."""
        ...

    async def ask_to_drain(self, worker: str, act: ActDraft) -> SeenWorker:
        """Request that the worker drains: it gets the request with its next beat. The audit log gets a line that says
        who requested it, in the same transaction. A second request changes nothing and writes no line.

        Raises:
            NotFound: No such worker is listed.
            InvalidMove: The worker does not support draining.
        """
        ...

    async def remove(self, worker: str, identity: str) -> bool:
        """Remove the presence of this process; returns whether it existed. Another process of the same name stays."""
        ...
