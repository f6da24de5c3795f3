"""Schedules over SQL."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.errors import KeyReused, NotFound
from holdfast.model import budget as money
from holdfast.model import canonical
from holdfast.model.ids import IdSource
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobDraft, SubmittedJob, check_draft
from holdfast.model.page import Page, decode_cursor, encode_cursor
from holdfast.model.schedule import CatchUp, Schedule, check_schedule
from holdfast.store.executor import Executor, Row, Transaction, Value
from holdfast.store.tables.jobs import submit_in
from holdfast.store.tables.payloads import need_namespace, read_json, to_enum


class SqlSchedules:
    def __init__(self, executor: Executor, ids: IdSource) -> None:
        self._executor = executor
        self._ids = ids

    async def put(self, schedule: Schedule) -> Schedule:
        check_schedule(schedule)
        values = _to_values(schedule)

        async def work(tx: Transaction) -> Schedule:
            await need_namespace(tx, schedule.namespace)
            await tx.run("put_schedule", **values)
            return await _get(tx, schedule.schedule_id, schedule.namespace)

        return await self._executor.write(work)

    async def get(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        async def work(tx: Transaction) -> Schedule:
            return await _get(tx, schedule_id, namespace)

        return await self._executor.read(work, brief=True)

    async def list(
        self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 100, cursor: str | None = None
    ) -> Page[Schedule]:
        after = "" if cursor is None else str(decode_cursor("schedules", cursor, keys=1)[0])

        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_schedules", namespace=namespace, after=after, limit=limit + 1)

        found = [_to_schedule(row) for row in await self._executor.read(work)]
        more = encode_cursor("schedules", found[limit - 1].schedule_id) if len(found) > limit > 0 else None
        return Page(tuple(found[:limit]), more)

    async def due(self, *, limit: int = 100) -> tuple[Schedule, ...]:
        async def work(tx: Transaction) -> Sequence[Row]:
            return await tx.rows("list_due_schedules", limit=limit)

        return tuple([_to_schedule(row) for row in await self._executor.read(work, brief=True)])

    async def fire(self, schedule: Schedule, job: JobDraft | None, next_at: int) -> SubmittedJob | None:
        draft = None if job is None else self._assign_id(job)
        place = {"namespace": schedule.namespace, "schedule_id": schedule.schedule_id}
        tried: list[SubmittedJob | None] = []

        async def work(tx: Transaction) -> SubmittedJob | None:
            row = await tx.row("lock_schedule", **place)
            if row is None or schedule.paused or _to_schedule(row) != schedule:
                return await _find_lost_try(tx, tried)
            await tx.run("set_schedule_next_at", next_at=next_at, **place)
            tried.append(None if draft is None else await _submit(tx, draft))
            return tried[-1]

        return await self._executor.write(work)

    def _assign_id(self, job: JobDraft) -> JobDraft:
        """The checked draft with an id, so that running the work twice makes one job."""
        check_draft(job)
        return job if job.job_id is not None else msgspec.structs.replace(job, job_id=self._ids.new("job"))

    async def pause(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        async def work(tx: Transaction) -> Schedule:
            await tx.run("pause_schedule", namespace=namespace, schedule_id=schedule_id)
            return await _get(tx, schedule_id, namespace)

        return await self._executor.write(work)

    async def resume(self, schedule_id: str, next_at: int, *, namespace: str = DEFAULT_NAMESPACE) -> Schedule:
        async def work(tx: Transaction) -> Schedule:
            await tx.run("resume_schedule", namespace=namespace, schedule_id=schedule_id, next_at=next_at)
            return await _get(tx, schedule_id, namespace)

        return await self._executor.write(work)

    async def remove(self, schedule_id: str, *, namespace: str = DEFAULT_NAMESPACE) -> bool:
        removed: list[bool] = []

        async def work(tx: Transaction) -> bool:
            row = await tx.row("remove_schedule", namespace=namespace, schedule_id=schedule_id)
            removed.append(row is not None)
            return any(removed)  # by this try, or by one whose reply was lost

        return await self._executor.write(work)


async def _submit(tx: Transaction, job: JobDraft) -> SubmittedJob:
    """Submit the job of this due time. A job that a schedule of the same id submitted before it was changed is left as
    it is."""
    try:
        return await submit_in(tx, job, admitting=True)
    except KeyReused:
        row = await tx.row("find_job_by_request", namespace=job.namespace, request_key=job.request_key)
        assert row is not None, "the key was found a moment ago"
        return SubmittedJob(row[0], created=False)


async def _find_lost_try(tx: Transaction, tried: Sequence[SubmittedJob | None]) -> SubmittedJob | None:
    """The result of an earlier try of this call whose reply was lost, if its job exists: no other call has that job
    id."""
    last = tried[-1] if tried else None
    if last is None or not last.created:
        return None
    return None if await tx.row("find_job_by_id", job_id=last.job_id) is None else last


async def _get(tx: Transaction, schedule_id: str, namespace: str) -> Schedule:
    row = await tx.row("get_schedule", namespace=namespace, schedule_id=schedule_id)
    if row is None:
        msg = f"there is no schedule {schedule_id!r}"
        raise NotFound(msg, hint="`holdfast schedule list` lists them.")
    return _to_schedule(row)


def _to_values(schedule: Schedule) -> dict[str, Value]:
    budget = None if schedule.budget is None else money.to_json(schedule.budget)
    return {
        "namespace": schedule.namespace,
        "schedule_id": schedule.schedule_id,
        "kind": schedule.kind,
        "queue": schedule.queue,
        "priority": schedule.priority,
        "request": canonical.encode(
            {"input": schedule.input, "budget": budget, "python": schedule.python_version}
        ),
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "catch_up": schedule.catch_up,
        "paused": int(schedule.paused),
        "next_at": schedule.next_at,
    }


def _to_schedule(row: Row) -> Schedule:
    (
        schedule_id,
        kind,
        cron,
        next_at,
        time_zone,
        catch_up,
        request,
        namespace,
        queue,
        priority,
        paused,
        created_at,
    ) = row
    content = read_json(request, f"schedule {schedule_id}")
    return Schedule(
        schedule_id=schedule_id,
        kind=kind,
        cron=cron,
        next_at=next_at,
        time_zone=time_zone,
        catch_up=to_enum(CatchUp, catch_up),
        input=content["input"],
        namespace=namespace,
        queue=queue,
        priority=priority,
        budget=None if content["budget"] is None else money.read(content["budget"]),
        python_version=content["python"],
        paused=bool(paused),
        created_at=created_at,
    )
