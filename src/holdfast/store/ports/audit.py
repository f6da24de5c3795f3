"""Audit log: privileged actions, one hash chain for each namespace."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.audit import Act, ActDraft, SealedAct
from holdfast.model.hash_chain import Head
from holdfast.model.jobs import DEFAULT_NAMESPACE


class Audit(Protocol):
    async def write(self, act: ActDraft) -> Act:
        """Append a line to the log of its namespace. An action that already has a line gets that one back."""
        ...

    async def read(
        self, *, namespace: str = DEFAULT_NAMESPACE, after: int = 0, limit: int = 100
    ) -> tuple[SealedAct, ...]:
        """Lines in order, after the one with number `after`."""
        ...

    async def head(self, *, namespace: str = DEFAULT_NAMESPACE) -> Head:
        """The number and hash of the last line; zero and the empty hash for an empty log."""
        ...
