"""Job feed: one event for each job whose head has moved, at most once a second.

    id: 1763301600000000         the newest instant that was sent: send it back as `Last-Event-ID`
    event: job
    data: {"job_id": "job_01…", "status": "running", "head_seq": 7, …}

It covers jobs that have not ended, the newest ones, and those that have just ended; the job list of the API has all
of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from holdfast.errors import NotFound
from holdfast.model.jobs import JobFilter, JobRecord
from holdfast.model.states import Status
from holdfast.server.responses import encode_json
from holdfast.server.work_feed import LISTENING
from holdfast.store.contract import Store

LOOK_S: Final = 1.0
OPEN_MAX: Final = 1_000
NEWEST: Final = 100
_OPEN: Final = (Status.PENDING, Status.RUNNING, Status.WAITING)


async def job_feed(store: Store, namespace: str, after: int | None) -> AsyncGenerator[bytes, None]:
    """Jobs whose head has moved from now on, or since an instant, until the client disconnects."""
    previous: dict[str, JobRecord] | None = None
    latest = after or 0
    while True:
        now = await _look(store, namespace, previous or {})
        if previous is None and after is None:
            news = []
        elif previous is None:
            news = [record for record in now.values() if record.changed_at > latest]
        else:
            news = [
                record for name, record in now.items() if name not in previous or previous[name] != record
            ]
        if previous is None:
            yield LISTENING
        for record in sorted(news, key=lambda changed: (changed.changed_at, changed.job_id)):
            latest = max(latest, record.changed_at)
            yield f"id: {latest}\nevent: job\ndata: ".encode() + encode_json(record) + b"\n\n"
        previous = now
        await asyncio.sleep(LOOK_S)


async def _look(store: Store, namespace: str, before: dict[str, JobRecord]) -> dict[str, JobRecord]:
    """The jobs that the feed covers, and a new look at those of the last round that are no longer among them."""
    records: dict[str, JobRecord] = {}
    for job_filter, limit in ((JobFilter(statuses=_OPEN), OPEN_MAX), (JobFilter(), NEWEST)):
        mine = JobFilter(namespace=namespace, statuses=job_filter.statuses)
        records |= {record.job_id: record for record in await store.jobs.list(mine, limit=limit)}
    for job_id, record in before.items():
        if job_id not in records and record.status in _OPEN:
            try:
                records[job_id] = await store.jobs.get(job_id)
            except NotFound:
                continue  # it was removed
    return records
