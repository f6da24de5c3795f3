"""The ledger: rows are written by appends only; here they are read."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.model.hash_chain import SealedEvent
from holdfast.model.ledger import CallRow
from holdfast.model.side_effects import CallStatus


class Receipt(msgspec.Struct, frozen=True):
    """A call, and the event that `result_seq` names."""

    call: CallRow
    result: SealedEvent | None


class Ledger(Protocol):
    """Rows change only through `Journal.append`, in the transaction that writes their event.

    A row may be added, or moved along `CALL_MOVES`; anything else raises InvalidMove and refuses the whole append. A
    key that another step uses, or that comes back with other arguments, raises KeyReused.
    """

    async def find(self, job_id: str, step_key: str, generation: int = 0) -> CallRow | None: ...

    async def receipt(self, job_id: str, step_key: str) -> Receipt | None:
        """The call's latest generation (they count from 0) and the event with its result, if it has one."""
        ...

    async def find_by_key(self, idempotency_key: str) -> CallRow | None: ...

    async def list(self, job_id: str, *, status: CallStatus | None = None) -> list[CallRow]:
        """The job's calls in the order of their intents."""
        ...

    async def counts(self, namespace: str) -> dict[tuple[str, str, str], int]:
        """How many calls there are per (tool name, side-effect class, status)."""
        ...
