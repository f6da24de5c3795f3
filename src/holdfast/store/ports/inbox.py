"""Inbox: the durable input queue of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.inbox import BatchDraft, Boundary, Claim, InboxBatch
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft


class Inbox(Protocol):
    """The turn commit that used a batch completes it, in its own transaction: see `Sessions.commit`."""

    async def enqueue(self, draft: BatchDraft, *, namespace: str = DEFAULT_NAMESPACE) -> InboxBatch:
        """Append the batch to the queue, with the next `enqueue_seq` of its session.

        A repeat under the same source key, or with the same batch id, returns the stored batch as it is, with its
        original payload and item ids, whatever the repeat contains; once the batch is settled, its receipt (no items).
        """
        ...

    async def deliver(self, draft: BatchDraft, job: JobDraft) -> InboxBatch:
        """Enqueue the batch and submit the job that will read it, in one transaction; both have the job's id.

        The job belongs to the batch's session. A repeat of the job's request returns the batch of the first one.
        """
        ...

    async def find(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        """The batch, in whatever state; a settled batch has no items."""
        ...

    async def list_pending(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        """Queued batches without a live claim: those that a person may still edit."""
        ...

    async def cancel(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        """Cancel the batch and remove it from the queue; None if it has a live claim, is settled or unknown.

        The returned batch has its items, and the state cancelled.
        """
        ...

    async def claim(
        self,
        session_id: str,
        owner: str,
        boundary: Boundary,
        *,
        ttl_us: int,
        max_batches: int,
        token: str,
        fence: int | None = None,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Claim | None:
        """Claim the batches that `model.inbox.select_candidates` allows now; None if there are none.

        The claim's fence is one more than any fence the first batch had; every batch of the claim gets its own counter
        raised. The claimer chooses `token`: the same token again returns the same live claim (after a lost reply).
        Another claimer may take over a claim with a TTL of 0 at once.

        With `fence`, the owner is a job, and the claim raises `Fenced` unless the job runs under this fence: otherwise
        a worker that was suspended would take input that was sent after its job had ended.
        """
        ...

    async def claim_exact(
        self,
        session_id: str,
        owner: str,
        boundary: Boundary,
        batch_ids: Sequence[str],
        *,
        ttl_us: int,
        token: str,
        namespace: str = DEFAULT_NAMESPACE,
    ) -> Claim | None:
        """Claim exactly these batches, if an ordinary claim for as many would take exactly them; else None.

        An exact claim that returns None changes nothing, and raises no fence.
        """
        ...

    async def renew(self, claim: Claim, ttl_us: int, *, namespace: str = DEFAULT_NAMESPACE) -> Claim:
        """Renew the claim; also when it has expired but no other claimer has taken a batch of it. Raises ClaimLost
        otherwise."""
        ...

    async def abandon(self, claim: Claim, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Release the batches that the claim still holds. A second call does nothing."""
        ...

    # Last in every inbox: inside the class its name hides the builtin from annotations below it.
    async def list(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        """Every queued batch in enqueue order, claimed or not."""
        ...
