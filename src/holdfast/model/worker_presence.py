"""Worker presence: each worker sends a heartbeat every few seconds, and is listed with the state it last reported.

    here        it was heard within three beats
    draining    it was, and claims nothing new
    lost        three beats were missed; other workers claim its jobs as soon as their leases end
    (forgotten) a day of silence, a clean end, or the proof that its process is gone

A presence decides nothing about jobs. Leases and fences do. A request that a worker drain is stored with its presence,
and the worker reads it with its next beat: only this process, not the next one of its name.
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
    """Code that runs the turns of sessions, and the queue and priority of its jobs."""

    name: str
    queue: str = DEFAULT_QUEUE
    priority: int = PRIORITY_DEFAULT


class WorkerOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker offers: the kinds it has code for, the queues it claims from, its concurrency, and whether it
    drains on request: an application that works in its own process does not, and neither do old workers."""

    kinds: tuple[str, ...] = ()
    sessions: tuple[SessionKind, ...] = ()
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    capabilities: tuple[str, ...] = ()
    concurrency: int = 1
    drains: bool = False


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker reports about itself. `identity` names its process for ever; `worker` is its name in leases and
    journals."""

    worker: str
    identity: str
    host: str = ""
    pid: int = 0
    offer: WorkerOffer = WorkerOffer()
    draining: bool = False


class SeenWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A presence as the store has it: start time, last heartbeat, jobs held, and when a drain was requested."""

    presence: Presence
    state: WorkerState
    started_at: int
    seen_at: int
    holds: int
    drain_asked_at: int | None = None


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    """Reply to a heartbeat: all listed workers with the identity of each, and whether this worker shall drain."""

    listed: dict[str, str]
    drain: bool = False


def state_of(*, draining: bool, seen_at: int, now: int) -> WorkerState:
    """The state of a worker with this last heartbeat."""
    if now - seen_at >= LOST_US:
        return WorkerState.LOST
    return WorkerState.DRAINING if draining else WorkerState.HERE


def check_drains(presence: Presence) -> None:
    """Raise InvalidMove unless the worker drains on request."""
    if not presence.offer.drains:
        msg = f"worker {presence.worker!r} cannot be drained by request"
        raise InvalidMove(
            msg, hint="It runs inside an application, or is an older version: stop its process."
        )


def check_presence(presence: Presence) -> Presence:
    """Return the presence, or raise an error that says what to change."""
    check_name(presence.worker, "worker name")
    check_name(presence.identity, "process identity")
    check_integer(presence.pid, "pid")
    offer = presence.offer
    for label, names in (("queue", offer.queues), ("capability", offer.capabilities)):
        for name in names:
            check_name(name, label)
        if len(set(names)) < len(names):
            msg = f"a {label} is named twice"
            raise InvalidPayload(msg, hint=f"Name each {label} once.")
    if check_integer(offer.concurrency, "concurrency") < 1:
        msg = f"a concurrency of {offer.concurrency} is too small"
        raise InvalidPayload(msg, hint="Use --concurrency 1 or more.")
    return presence
