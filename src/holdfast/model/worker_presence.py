"""Who drives jobs now: each worker says so every few seconds, and is shown as it last said.

    here        it was heard within three beats
    draining    it was, and takes nothing new
    lost        three beats were missed; its jobs are others' as soon as their leases end
    (forgotten) a day of silence, a clean end, or the proof that its process is gone

A presence decides nothing about jobs. Leases and fences do. A word to a worker, that it shall drain, is kept with its
presence, and heard with its next beat: by this process alone, not by the next one of its name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from holdfast.errors import InvalidMove, InvalidPayload
from holdfast.model.ids import check_integer, check_name
from holdfast.model.jobs import DEFAULT_QUEUE
from holdfast.model.limits import PRIORITY_DEFAULT
from holdfast.model.time import DAY, SECOND

BEAT_US: Final = 10 * SECOND
LOST_US: Final = 3 * BEAT_US
FORGOTTEN_US: Final = DAY


class WorkerState(StrEnum):
    HERE = "here"
    DRAINING = "draining"
    LOST = "lost"


class SessionKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Code that takes the turns of sessions, and where its jobs go."""

    name: str
    queue: str = DEFAULT_QUEUE
    priority: int = PRIORITY_DEFAULT


class WorkerOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker can do: the kinds it has code for, the queues it takes from, how many jobs at a time, and whether
    it drains when somebody asks: an application that works in its own process does not, and neither do old workers."""

    kinds: tuple[str, ...] = ()
    sessions: tuple[SessionKind, ...] = ()
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    capabilities: tuple[str, ...] = ()
    concurrency: int = 1
    drains: bool = False


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself. `identity` names its process, and no other, ever; `worker` is what its leases and
    journals call it."""

    worker: str
    identity: str
    host: str = ""
    pid: int = 0
    offer: WorkerOffer = WorkerOffer()
    draining: bool = False


class SeenWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A presence as the store has it: since when, when it was last heard, how many jobs are in its name, and since when
    somebody wants it to drain."""

    presence: Presence
    state: WorkerState
    started_at: int
    seen_at: int
    holds: int
    drain_asked_at: int | None = None


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """What a beat is answered: everybody who is listed, with the identity of each, and whether this worker shall
    drain."""

    listed: dict[str, str]
    drain: bool = False


def state_of(*, draining: bool, seen_at: int, now: int) -> WorkerState:
    """What to make of a worker that was last heard then."""
    if now - seen_at >= LOST_US:
        return WorkerState.LOST
    return WorkerState.DRAINING if draining else WorkerState.HERE


def check_drains(presence: Presence) -> None:
    """The worker would hear it; or InvalidMove."""
    if not presence.offer.drains:
        msg = f"worker {presence.worker!r} cannot be drained by request"
        raise InvalidMove(
            msg, hint="It runs inside an application, or is an older version: stop its process."
        )


def check_presence(presence: Presence) -> Presence:
    """The presence, or an error that says what to change."""
    check_name(presence.worker, "worker name")
    check_name(presence.identity, "process identity")
    check_integer(presence.pid, "pid")
    offer = presence.offer
    for what, names in (("queue", offer.queues), ("capability", offer.capabilities)):
        for name in names:
            check_name(name, what)
        if len(set(names)) < len(names):
            msg = f"a {what} is named twice"
            raise InvalidPayload(msg, hint=f"Name each {what} once.")
    if check_integer(offer.concurrency, "concurrency") < 1:
        msg = f"a concurrency of {offer.concurrency} is too small"
        raise InvalidPayload(msg, hint="Use --concurrency 1 or more.")
    return presence
