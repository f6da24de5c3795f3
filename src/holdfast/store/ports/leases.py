"""Leases: the right to drive a job until it is declared over.

Two kinds. A worker has one lease for all the jobs that it drives, kept by beats and judged by the other workers
(`model.worker_lease`). External agents and the kit have a lease per job, which lasts a time that they were told.
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
"""The topic of hints that a worker has started."""


class Held(msgspec.Struct, frozen=True):
    """A lease as its holder names it."""

    job_id: str
    fence: int
    lease_token: str


class ClaimAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for. `token` is the worker's own: a repeat after a lost reply finds the same grants."""

    worker: str
    token: str
    queues: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    limit: int = 1
    ttl_us: int = LEASE_TTL_US
    by_age: bool = False
    namespace: str | None = None
    """Only jobs of this one. Workers drive those of all."""

    most: int | None = None
    """What the worker may hold in all, by leases that are not over: it is granted no more than that leaves."""

    incarnation: str | None = None
    """Of the worker's own lease: the jobs are covered by it, and `ttl_us` does not count. Without that lease nothing is
    granted. None: each job has a lease of its own, for `ttl_us`."""

    roots: tuple[str, ...] | None = None
    """Restricted claim: only these jobs, their descendants, and the job with the turn of a session in which one of them
    stands behind. The latter at once if its lease is over, otherwise only once nobody has claimed it for `AHEAD_US`:
    until then it is left to its own driver."""

    suspect_at: int | None = None
    """Jobs that have lost so many holders without progress are passed over: another claimer runs them alone. Claims
    with `roots` or `handed` pass over none."""

    handed: Held | None = None
    """Hand-over: this job and no other, from the holder that still has this lease. It is no takeover."""

    @property
    def lease_us(self) -> int:
        """How long the lease of each granted job lasts by itself."""
        return self.ttl_us if self.incarnation is None else UNTIL_EXPIRED_US


def check_worker_lease(lease: WorkerLease) -> None:
    """Raise an error that says what to change, if the lease cannot be stored."""
    check_name(lease.worker, "worker")
    check_name(lease.incarnation, "incarnation of a worker lease")


def check_ask(ask: ClaimAsk) -> ClaimAsk:
    """The question, or an error that says what to change."""
    check_name(ask.worker, "worker")
    check_name(ask.token, "lease token")
    return ask


class Beat(msgspec.Struct, frozen=True):
    """The answer to a beat: the row that now has the worker's name, if there is one, and the rows of all others."""

    mine: WorkerLease | None
    others: tuple[WorkerLease, ...] = ()


class Leases(Protocol):
    async def start(self, lease: WorkerLease) -> Beat:
        """The worker has this lease now. Workers that wait for topic `workers` are hinted at.

        Names are unique: a row of the same name and another incarnation is of a process that this one replaces. What
        it held is claimable at once, and its next beat finds the other row.
        """
        ...

    async def beat(self, lease: WorkerLease) -> Beat:
        """The row has this beat, if it is still there and of this incarnation."""
        ...

    async def claim(self, ask: ClaimAsk) -> list[Grant]:
        """Up to `limit` jobs are now running under this worker's token, each with a larger fence than ever before.

        Claimable are, in these queues and of these kinds (no kinds: any): pending jobs that are ready, waiting jobs
        whose `wake_at` is due (unless held for a person), and running jobs whose lease is over. Larger priority first,
        then older `ready_at`, then id; with `by_age` priority does not count. Grants are in that order. With `roots`
        nothing else is claimable. With `handed` only that job is, while the lease named is its current one.

        Each grant has `job_claimed` as its newest event. It is a takeover when the last lease was not given back; then
        `takeovers` is one more than before. No job is granted twice, whatever the number of claimers. A job whose
        first claim this is comes with its journal.
        """
        ...

    async def renew(self, held: Sequence[Held], ttl_us: int = LEASE_TTL_US) -> set[str]:
        """The ids of the jobs that are still held; they now are for `ttl_us` from now.

        A job that is missing from the answer is lost: stop driving it. A lease that ran out but was not taken is
        renewed: the fence, not the clock, says who may write.
        """
        ...

    async def expire(
        self, worker: str, incarnation: str | None = None, beat: int | None = None
    ) -> int | None:
        """The worker's lease and those of its jobs are over; says how many jobs. They are claimable at once.

        With an incarnation, and with a beat, only if the worker's row still has them; otherwise nothing changes, and
        the answer is None. With neither the worker is proven dead, and may have had no row.
        """
        ...

    async def workers(self) -> list[WorkerLease]:
        """The leases of all workers, by name."""
        ...

    async def count(self, worker: str) -> int:
        """How many jobs this worker holds, by leases that are not over."""
        ...

    async def owners(self) -> list[str]:
        """Everybody who holds a job, whether or not the lease is over, by name."""
        ...

    async def list_expired(self, limit: int = 1000) -> list[str]:
        """Running jobs whose lease is over, longest first."""
        ...
