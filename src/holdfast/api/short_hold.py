"""Short hold: when a command to a job can be applied at once, without a worker."""

from __future__ import annotations

from holdfast.api.job_snapshot import Loaded
from holdfast.api.needs import open_children
from holdfast.store.ports.journal import Decide, Ruling


def needs_its_worker(job: Loaded) -> bool:
    """Whether the job's end must reach a parent or children: only the worker that executes it notifies them."""
    return job.created.parent_job_id is not None or bool(open_children(job))


def unless_moved(job: Loaded, ruling: Ruling) -> Decide:
    """Applies the ruling only if the job has not moved since it was loaded."""
    loaded_seq = job.facts[-1].seq
    return lambda head: ruling if head.head_seq == loaded_seq else None
