"""Waiting for what a job comes to."""

from __future__ import annotations

from holdfast.runtime.process import Process


async def waits_for(process: Process, job_id: str, reason: str) -> None:
    """The job has gone to sleep for this reason; or it has ended, and that is a failure."""
    head = await process.store.jobs.head(job_id)
    while head.wait_reason != reason:
        assert head.status in {"pending", "running", "waiting"}, head.status
        await process.store.wakeups.wait(frozenset({f"job:{job_id}"}), 0.05)
        head = await process.store.jobs.head(job_id)
