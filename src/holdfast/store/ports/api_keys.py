"""API keys: who may use a server, and with which roles."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.access import ApiKey
from holdfast.model.audit import ActDraft
from holdfast.model.page import Page


class ApiKeys(Protocol):
    """Every change of a key writes a line to the audit log of its namespace, in the same transaction."""

    async def create(self, key: ApiKey, act: ActDraft) -> ApiKey:
        """Store the key and its audit line. Creating the same key again returns the stored one, and writes no second
        line; another key under the same id raises Conflict.

        The namespace must exist; the line goes to its log.
        """
        ...

    async def find(self, key_id: str) -> ApiKey | None:
        """The key of this id, also if it is revoked or expired."""
        ...

    async def list(
        self, *, namespace: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page[ApiKey]:
        """Keys by id, revoked ones included; without a namespace, those of all namespaces."""
        ...

    async def revoke(self, key_id: str, act: ActDraft, *, namespace: str | None = None) -> ApiKey:
        """Revoke the key; the audit line says who did. A key that is already revoked is left unchanged.

        With a namespace, a key of another one raises NotFound. The line goes to the log of the key's namespace,
        whatever the draft names.
        """
        ...

    async def record_use(self, key_id: str, *, every_us: int) -> None:
        """Record now as the last use of the key, unless the recorded one is more recent than `every_us` ago."""
        ...

    async def exist(self) -> bool:
        """Whether any key was ever created: a store whose last key was revoked still demands one."""
        ...
