"""Leases: which worker may claim a job, which may write, and when a holder must stop.

The clock decides which worker may *claim*; the fence decides which one may *write*. No rule below lets a clock decide a
write.

A fence is one integer whose upper bits are the store's epoch. Restoring a backup starts a new epoch, so every fence
issued before it is smaller than every fence after it, and the store keeps rejecting a worker that slept through the
restore.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.model.hash_chain import SealedEvent
from holdfast.model.states import Status
from holdfast.model.time import DAY, SECOND

FENCES_PER_EPOCH: Final = 2**32
"""Leaves 2**21 epochs below 2**53, so that JavaScript represents a fence exactly."""

LEASE_TTL_US: Final = 30 * SECOND
RENEW_EVERY_US: Final = 5 * SECOND
UNTIL_EXPIRED_US: Final = 100 * 365 * DAY
"""Lease time of a job that its worker's lease covers: it ends when the worker's lease is declared expired, not by a
clock."""

STOP_AHEAD_US: Final = 5 * SECOND
"""A holder starts no effect in the last seconds of its lease, measured on its own monotonic clock from before the
request that granted it."""

TAKEOVERS_MAX: Final = 3
"""Holders that a work item or a job of the kit may lose: each of them holds one item at a time."""
FAILED_ATTEMPTS_MAX: Final = 3
AGE_TURN_EVERY: Final = 8
"""Every eighth claim takes the oldest job: the lowest priority waits long, but not for ever."""


class Grant(msgspec.Struct, frozen=True):
    """A claimed job: the credentials for its writes, and the end of its history."""

    job_id: str
    namespace: str
    kind: str
    queue: str
    session_id: str | None
    fence: int
    lease_token: str
    head_seq: int
    head_hash: bytes
    mail_seq: int
    attempts: int
    takeovers: int
    takeover: bool
    lease_expires_at: int
    journal: tuple[SealedEvent, ...] = ()
    """The journal of a job that was claimed for the first time: its creation and this claim. Any other journal has to
    be read."""


def floor(epoch: int) -> int:
    """The smallest fence of an epoch."""
    return epoch * FENCES_PER_EPOCH


def epoch_of(fence: int) -> int:
    return fence // FENCES_PER_EPOCH


def is_live(status: Status, expires_at: int, boot: str, *, tick: int, this_boot: str) -> bool:
    """Whether a worker may still be running the job.

    `tick` is the lease clock: the database server's, or, for a file on one host, the time since that host booted. A
    lease from another boot has ended whatever its numbers say: its process cannot have survived.
    """
    return status is Status.RUNNING and boot == this_boot and expires_at > tick


def may_fire(*, asked_at: int, now: int, ttl_us: int, stop_ahead_us: int = STOP_AHEAD_US) -> bool:
    """Whether a holder may still start an effect, by its own monotonic clock."""
    return now < asked_at + ttl_us - stop_ahead_us


def is_poison(
    *,
    failed_attempts: int,
    failed_attempts_max: int = FAILED_ATTEMPTS_MAX,
    takeovers: int = 0,
    takeovers_max: int | None = None,
) -> bool:
    """Whether the job has used up its attempts. Lost holders count only if `takeovers_max` is set, for work that one
    holder at a time takes; `suspicion` judges jobs of a worker that died with many."""
    died = takeovers_max is not None and takeovers >= takeovers_max
    return died or failed_attempts >= failed_attempts_max


def takes_oldest(nth_claim: int) -> bool:
    """Whether this claim takes the oldest job instead of the one with the highest priority."""
    return nth_claim % AGE_TURN_EVERY == AGE_TURN_EVERY - 1
