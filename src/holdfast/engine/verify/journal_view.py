"""A journal as the rules read it: each event in its place, opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.model.events import Event
from holdfast.model.hash_chain import SealedEvent, unseal


class PlacedEvent(msgspec.Struct, frozen=True):
    """An event, and where it lies."""

    seq: int
    fence: int
    at: int
    event: Event


class InvariantViolation(msgspec.Struct, frozen=True):
    """What a rule has against a journal: which promise it is about, and at which event it is broken."""

    invariant: str
    seq: int
    detail: str


Facts = Sequence[PlacedEvent]
Findings = Iterator[InvariantViolation]


def facts_of(events: Sequence[SealedEvent]) -> list[PlacedEvent]:
    """The journal opened; raises what `unseal` raises."""
    return [PlacedEvent(sealed.seq, sealed.fence, sealed.at, unseal(sealed)) for sealed in events]


def is_erased(events: Sequence[SealedEvent]) -> bool:
    """Whether retention has taken bodies out: what they said can no longer be judged."""
    return any(sealed.body is None for sealed in events)
