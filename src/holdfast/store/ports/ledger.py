"""Ledger: reads the rows of tool calls. Only appends write them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ledger import CallRow
from holdfast.model.side_effects import CallStatus


class Receipt(msgspec.Struct, frozen=True):
    """A call, and the event of its result (`result_seq`)."""

    call: CallRow
    result: SealedEvent | None


class Ledger(Protocol):
    """Rows change only through `Journal.append`, in the transaction that writes their event.

    An append may add a row, or move one along `CALL_MOVES`; anything else raises InvalidMove and rejects the whole
    append. A key that another step uses, or that is used again with other arguments, raises KeyReused.
    """

    async def find(self, job_id: str, step_key: str, generation: int = 0) -> CallRow | None: ...

    async def receipt(self, job_id: str, step_key: str) -> Receipt | None:
        """The latest generation of the call (counted from 0) and the event of its result, if there is one."""
        ...

    async def find_by_key(self, idempotency_key: str) -> CallRow | None: ...

    async def list(self, job_id: str, *, status: CallStatus | None = None) -> list[CallRow]:
        """The job's calls in the order of their intents."""
        ...

    async def counts(self, namespace: str) -> dict[tuple[str, str, str], int]:
        """The number of calls by (tool name, side-effect class, status)."""
        ...
