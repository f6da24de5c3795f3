"""The audit log of a namespace, read and checked from its first line."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.audit import SealedAct, find_breaks
from holdfast.model.hash_chain import EMPTY, Head
from holdfast.store.contract import Store

_PAGE: Final = 500


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """How many lines there are, the last of them, where the log says that it ends, and what is wrong with it."""

    count: int
    last: tuple[SealedAct, ...]
    head: Head
    faults: tuple[str, ...]


async def verify_audit_log(store: Store, namespace: str, *, last: int) -> Audited:
    """The log up to where it ended when this began; lines that come meanwhile are left for the next look."""
    end = await store.audit.head(namespace=namespace)
    head, kept, faults = EMPTY, (), []  # type: Head, tuple[SealedAct, ...], list[str]
    while head.seq < end.seq:
        page = await store.audit.read(
            namespace=namespace, after=head.seq, limit=min(_PAGE, end.seq - head.seq)
        )
        if not page:
            break
        faults += find_breaks(namespace, head, page)
        head = Head(page[-1].seq, page[-1].hash)
        kept = (*kept, *page)[-last:]
    if head != end:
        faults.append(f"the log ends with line {head.seq}, and should with line {end.seq}")
    return Audited(count=head.seq, last=kept, head=end, faults=tuple(faults))
