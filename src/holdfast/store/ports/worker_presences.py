"""Workers that say that they are there."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.audit import ActDraft
from holdfast.model.page import Page
from holdfast.model.worker_presence import HeartbeatReply, Presence, SeenWorker


class WorkerPresences(Protocol):
    """Time is the store's. Presences belong to no namespace: a worker drives the jobs of all of them."""

    async def beat(self, presence: Presence) -> HeartbeatReply:
        """The worker was there just now, and is as it says.

        Another process of the same name takes its place, and starts anew: what its predecessor was asked is not asked
        of it. Who was silent for a day is forgotten.
        """
        ...

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[SeenWorker]:
        """Workers by name. The cursor of one page leads to the next."""
        ...

    async def ask_to_drain(self, worker: str, act: ActDraft) -> SeenWorker:
        """The worker hears with its next beat that it shall drain, and the line of the audit log says who wants it, in
        the same transaction. Asked again, the first time stands, and there is no other line.

        Raises:
            NotFound: It is not listed.
            InvalidMove: It would not heed it.
        """
        ...

    async def remove(self, worker: str, identity: str) -> bool:
        """This process is not there any more; says whether it was. Another one of the same name stays."""
        ...
