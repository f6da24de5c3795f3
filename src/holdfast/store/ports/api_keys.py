"""API keys: who may come in."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.access import ApiKey
from holdfast.model.audit import ActDraft
from holdfast.model.page import Page


class ApiKeys(Protocol):
    """Every change of a key is a line of its namespace's audit log, in the same transaction."""

    async def create(self, key: ApiKey, act: ActDraft) -> ApiKey:
        """The key exists, and so does the line. The same key again is this one, and has its line; another
        under its id is a Conflict.

        Its namespace must exist, and be the line's.
        """
        ...

    async def find(self, key_id: str) -> ApiKey | None:
        """The key of this id, whatever became of it."""
        ...

    async def list(
        self, *, namespace: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ApiKey]:
        """Keys by id, revoked ones included; without a namespace everybody's."""
        ...

    async def revoke(self, key_id: str, act: ActDraft, *, namespace: str | None = None) -> ApiKey:
        """The key opens nothing any more, and the line says who took it back. One that was revoked stays as it was.

        With a namespace, a key of another one is NotFound. The line is of the key's namespace, whatever it said.
        """
        ...

    async def record_use(self, key_id: str, *, every_us: int) -> None:
        """The key's last use is now, or less than so long ago."""
        ...

    async def exist(self) -> bool:
        """Whether there ever was a key: a store whose last key was revoked is not open again."""
        ...
