"""The inbox: a session's durable input queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.model.inbox import BatchDraft, Boundary, Claim, InboxBatch
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft


class Inbox(Protocol):
    """Completion is not here: batches are completed by the turn commit that used them, in its transaction."""

    async def enqueue(self, draft: BatchDraft, *, namespace: str = DEFAULT_NAMESPACE) -> InboxBatch:
        """The batch is durable and has the next `enqueue_seq` of its session.

        A repeat under the same source key, or with the same batch id, returns the stored batch as it is, original
        payload and item ids included, whatever the repeat carries; after it was settled, its receipt (no items).
        """
        ...

    async def deliver(self, draft: BatchDraft, job: JobDraft) -> InboxBatch:
        """The batch is in the line and the job that will read it exists, in one transaction; both have the job's id.

        The job is of the batch's session. A repeat of the job's request finds the first one's batch, as it is.
        """
        ...

    async def find(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        """The batch, in whatever state; a settled one without its items."""
        ...

    async def list_pending(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        """Queued batches that are under no live claim: what a person may still edit."""
        ...

    async def cancel(
        self, session_id: str, batch_id: str, *, namespace: str = DEFAULT_NAMESPACE
    ) -> InboxBatch | None:
        """The batch, now cancelled and out of the queue; None when it is live-claimed, settled or unknown.

        The answer shows the batch as it was queued, items included, with state cancelled.
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
        """A hold on what `model.inbox.takeable` allows now; None when that is nothing.

        The claim's fence is one more than any fence the first batch had; every batch of the claim gets its own counter
        raised. `token` is the claimer's: the same token again finds the same live claim (a lost reply). A TTL of 0 can
        be taken over at once.

        With `fence`, the owner is a job, and unless it runs under this fence the claim is refused with `Fenced`:
        otherwise a worker that stood still would take what was sent after its job had ended.
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
        """A hold on exactly these batches, if an ordinary claim for as many would take exactly them; else None.

        A refused exact claim changes nothing: it burns no fence.
        """
        ...

    async def renew(self, claim: Claim, ttl_us: int, *, namespace: str = DEFAULT_NAMESPACE) -> Claim:
        """The same claim with a new expiry, also when it had run out but nobody had taken it; else ClaimLost."""
        ...

    async def abandon(self, claim: Claim, *, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Whatever of the claim is still ours is free again. Saying it twice is fine."""
        ...

    # Last in every inbox: inside the class its name hides the builtin from annotations below it.
    async def list(self, session_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[InboxBatch]:
        """Every queued batch in enqueue order, claimed or not."""
        ...
