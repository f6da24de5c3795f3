"""Leases: the right to drive a job until the lease expires.

There are two kinds. A worker has one lease for all the jobs that it drives; it renews it by beats, and other workers
declare it expired (`model.worker_lease`). External agents and the kit have a lease per job, with a TTL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from holdfast.model.ids import check_name
from holdfast.model.lease import LEASE_TTL_US, UNTIL_EXPIRED_US, Grant
from holdfast.model.time import SECOND
from holdfast.model.worker_lease import WorkerLease

AHEAD_US: Final = 2 * SECOND
WORKERS: Final = "workers"
"""Wake-up topic: a worker has started."""


class HeldLease(msgspec.Struct, frozen=True):
    """A lease, as its holder identifies it."""

    job_id: str
    fence: int
    lease_token: str


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's claim request. The worker chooses `token`: a repeat after a lost reply returns the same grants."""

    worker: str
    token: str
    queues: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    limit: int = 1
    ttl_us: int = LEASE_TTL_US
    by_age: bool = False
    namespace: str | None = None
    """Only jobs of this namespace. None, as for workers: jobs of all namespaces."""

    most: int | None = None
    """How many jobs the worker may hold in all, by leases that have not expired; limits what this claim grants."""

    incarnation: str | None = None
    """The incarnation of the worker's lease: it covers the jobs, and `ttl_us` does not count. Nothing is granted if the
    worker does not have that lease. None: each job has a lease of its own, for `ttl_us`."""

    roots: tuple[str, ...] | None = None
    """Restricted claim: only these jobs, their descendants, and the job that has the turn of a session in which one of
    them queues. The latter at once if its lease has expired, otherwise only if no claimer has taken it for `AHEAD_US`:
    until then it is left to its own driver."""

    suspect_at: int | None = None
    """The claim skips jobs that have lost this many holders without progress: another claimer runs them in isolation.
    Claims with `roots` or `handed` skip none."""

    handed: HeldLease | None = None
    """Hand-over: claims this job alone, from the holder that still has this lease. It does not count as a takeover."""

    @property
    def lease_us(self) -> int:
        """The duration of the lease of each granted job."""
        return self.ttl_us if self.incarnation is None else UNTIL_EXPIRED_US


def check_worker_lease(lease: WorkerLease) -> None:
    """Raise an error that says what to change, if the lease cannot be stored."""
    check_name(lease.worker, "worker")
    check_name(lease.incarnation, "incarnation of a worker lease")


def check_claim_request(request: ClaimRequest) -> ClaimRequest:
    """Return the request, or raise an error that says what to change."""
    check_name(request.worker, "worker")
    check_name(request.token, "lease token")
    return request


class BeatResult(msgspec.Struct, frozen=True):
    """The result of a beat: the row that now has the worker's name, if there is one, and the rows of all other
    workers."""

    mine: WorkerLease | None
    others: tuple[WorkerLease, ...] = ()


class Leases(Protocol):
    async def start(self, lease: WorkerLease) -> BeatResult:
        """Store the worker's lease, and send a wake-up for topic `workers`.

        Names are unique: a row of the same name and another incarnation belongs to a process that this one replaces.
        The jobs that it held are claimable at once, and its next beat returns the new row.
        """
        ...

    async def beat(self, lease: WorkerLease) -> BeatResult:
        """Write the beat, if the row still exists and has this incarnation."""
        ...

    async def claim(self, request: ClaimRequest) -> list[Grant]:
        """Claim up to `limit` jobs: each then runs under this worker's token, with a larger fence than ever before.

        Claimable are, in these queues and of these kinds (no kinds: any): pending jobs that are ready, waiting jobs
        whose `wake_at` is due (unless held for a person), and running jobs whose lease has expired. Larger priority
        first, then older `ready_at`, then id; with `by_age` priority does not count. Grants are in that order. With
        `roots` no other job is claimable. With `handed` only that job is, while the named lease is its current one.

        Each grant has `job_claimed` as its newest event. It is a takeover when the last lease was not released; then
        `takeovers` grows by one. No job is granted twice, whatever the number of claimers. The grant of a job that was
        never claimed before contains its journal.
        """
        ...

    async def renew(self, held: Sequence[HeldLease], ttl_us: int = LEASE_TTL_US) -> set[str]:
        """Renew these leases for `ttl_us` from now; returns the ids of the jobs that are still held.

        The lease of a job that is not among them is lost: stop driving it. A lease that has expired but was not taken
        over is renewed: the fence, not the clock, decides who may write.
        """
        ...

    async def expire(
        self, worker: str, incarnation: str | None = None, beat: int | None = None
    ) -> int | None:
        """Expire the worker's lease and those of its jobs, which are then claimable; returns how many jobs.

        With an incarnation, and with a beat, only if the worker's row still has them; otherwise nothing changes, and
        the result is None. Call it with neither only if the worker is proven dead; it may have no row.
        """
        ...

    async def workers(self) -> list[WorkerLease]:
        """The leases of all workers, by name."""
        ...

    async def count(self, worker: str) -> int:
        """The number of jobs that this worker holds, by leases that have not expired."""
        ...

    async def owners(self) -> list[str]:
        """The names of all holders of jobs, also those whose lease has expired, in order."""
        ...

    async def list_expired(self, limit: int = 1000) -> list[str]:
        """Running jobs whose lease has expired, longest expired first."""
        ...
