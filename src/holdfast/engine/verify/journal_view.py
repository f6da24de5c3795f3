"""Journal view: the decoded events of a journal with their places, as the rules read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.model.events import Event
from holdfast.model.hash_chain import SealedEvent, unseal


class PlacedEvent(msgspec.Struct, frozen=True):
    """An event, and its place in the journal."""

    seq: int
    fence: int
    at: int
    event: Event


class InvariantViolation(msgspec.Struct, frozen=True):
    """A broken rule in a journal: the invariant, and the event at which it is broken."""

    invariant: str
    seq: int
    detail: str


Facts = Sequence[PlacedEvent]
Findings = Iterator[InvariantViolation]


def facts_of(events: Sequence[SealedEvent]) -> list[PlacedEvent]:
    """The decoded journal; raises what `unseal` raises."""
    return [PlacedEvent(sealed.seq, sealed.fence, sealed.at, unseal(sealed)) for sealed in events]


def is_erased(events: Sequence[SealedEvent]) -> bool:
    """Whether retention has erased bodies: their content can no longer be checked."""
    return any(sealed.body is None for sealed in events)
