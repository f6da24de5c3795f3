"""Workers that say that they are there."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.page import Page
from holdfast.model.presence import Presence, SeenWorker


class Presences(Protocol):
    """Time is the store's. Presences belong to no namespace: a worker drives the jobs of all of them."""

    async def beat(self, presence: Presence) -> dict[str, str]:
        """The worker was there just now, and is as it says. The answer names everybody who is listed, with the identity
        of each.

        Another process of the same name takes its place, and starts anew. Who was silent for a day is forgotten.
        """
        ...

    async def list(self, *, limit: int = 100, cursor: str | None = None) -> Page[SeenWorker]:
        """Workers by name. The cursor of one page leads to the next."""
        ...

    async def remove(self, worker: str, identity: str) -> bool:
        """This process is not there any more; says whether it was. Another one of the same name stays."""
        ...
