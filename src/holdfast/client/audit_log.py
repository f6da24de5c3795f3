"""Audit log: reads and verifies the log of a namespace from its first entry."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.audit import SealedAct, find_breaks
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.store.contract import Store

_PAGE: Final = 500


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """The number of entries, the last ones, the recorded head of the log, and the faults found."""

    count: int
    last: tuple[SealedAct, ...]
    head: Head
    faults: tuple[str, ...]


async def verify_audit_log(store: Store, namespace: str, *, last: int) -> Audited:
    """Verifies the log up to its head at the start of this call; entries added meanwhile are left to the next call."""
    end = await store.audit.head(namespace=namespace)
    head, tail, faults = EMPTY, (), []  # type: Head, tuple[SealedAct, ...], list[str]
    while head.seq < end.seq:
        page = await store.audit.read(
            namespace=namespace, after=head.seq, limit=min(_PAGE, end.seq - head.seq)
        )
        if not page:
            break
        faults += find_breaks(namespace, head, page)
        head = Head(page[-1].seq, page[-1].hash)
        tail = (*tail, *page)[-last:]
    if head != end:
        faults.append(f"the log ends with line {head.seq}, and should with line {end.seq}")
    return Audited(count=head.seq, last=tail, head=end, faults=tuple(faults))
