"""When a word to a job can be done at once, by a short hold."""

from __future__ import annotations

from holdfast.api.job_snapshot import Loaded
from holdfast.api.needs import open_children
from holdfast.store.ports.journal import Decide, Ruling


def needs_its_worker(job: Loaded) -> bool:
    """Others hear of its end, a parent or children: whoever drives it knows how to tell them."""
    return job.created.parent_job_id is not None or bool(open_children(job))


def unless_moved(job: Loaded, ruling: Ruling) -> Decide:
    """The ruling, if the job is still the one it was made for."""
    seen = job.facts[-1].seq
    return lambda head: ruling if head.head_seq == seen else None
