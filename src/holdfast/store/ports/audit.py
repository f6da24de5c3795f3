"""The audit log: privileged acts, one chain for each namespace."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.audit import Act, ActDraft, SealedAct
from holdfast.model.hash_chain import Head
from holdfast.model.jobs import DEFAULT_NAMESPACE


class Audit(Protocol):
    async def write(self, act: ActDraft) -> Act:
        """The line is durable behind all others of its namespace. An act that has its line already is answered with
        it."""
        ...

    async def read(
        self, *, namespace: str = DEFAULT_NAMESPACE, after: int = 0, limit: int = 100
    ) -> tuple[SealedAct, ...]:
        """Lines in order, behind this one."""
        ...

    async def head(self, *, namespace: str = DEFAULT_NAMESPACE) -> Head:
        """The last line's number and hash; of a log without lines, zero and the empty hash."""
        ...
