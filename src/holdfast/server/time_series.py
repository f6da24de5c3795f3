"""Time series of jobs, calls, tokens and cost, computed from journals: there are no counters beside them.

A journal is append-only. So the counts of a job up to an event are cached, and the next look reads only the events
after it; the journal of an ended job is never read again. One look reads a bounded number of journals and reports
when there is more to read: the next look continues.

The counts cover the newest jobs, and those that have not ended: a job that is older than two thousand others and
ended just now is missed, and `complete` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import events as e
from holdfast.model.hash_chain import SealedEvent, unseal
from holdfast.model.jobs import JobFilter, JobRecord
from holdfast.model.limits import EVENTS_PER_PAGE_MAX
from holdfast.model.states import Status
from holdfast.model.time import MINUTE
from holdfast.store.contract import Store

NEWEST: Final = 2_000
PAGE: Final = 1_000
READ_MAX: Final = 500
"""Journals read in one look."""
KNOWN_MAX: Final = 10_000
_OPEN: Final = (Status.PENDING, Status.RUNNING, Status.WAITING)

_COUNTED: Final = {
    e.JobCreated.type: "submitted",
    e.JobCompleted.type: "completed",
    e.JobFailure.type: "failed",
    e.JobCancellation.type: "cancelled",
    e.JobDeadLettered.type: "dead",
    e.ToolCalled.type: "tool_calls",
    e.ToolUncertain.type: "uncertain",
}
"""Events that are counted by their type alone."""

_READ: Final = frozenset({e.JobClaimed.type, e.LlmRequested.type, e.LlmResponded.type})

SERIES: Final = (*_COUNTED.values(), "takeovers", "tokens_in", "tokens_out", "usd_micros")


class ModelNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one model. `usd_micros` None: its price is not known."""

    model: str
    calls: int
    tokens_in: int
    tokens_out: int
    usd_micros: int | None


class AgentNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Activity of the jobs of one kind in the period."""

    kind: str
    jobs: int
    failed: int
    tokens: int
    usd_micros: int | None


class NumbersView(msgspec.Struct, frozen=True, kw_only=True):
    """Time series: one value for each interval, oldest first; `at` is when each interval begins.

    `today` is counted from the requested instant. `pickup_us` are the 50th, 95th and 99th percentile of the time from
    the submission of a job to its first claim. `complete` False: not all journals were read; ask again.
    """

    step_us: int
    at: tuple[int, ...]
    submitted: tuple[int, ...]
    completed: tuple[int, ...]
    failed: tuple[int, ...]
    cancelled: tuple[int, ...]
    dead: tuple[int, ...]
    tool_calls: tuple[int, ...]
    uncertain: tuple[int, ...]
    takeovers: tuple[int, ...]
    tokens_in: tuple[int, ...]
    tokens_out: tuple[int, ...]
    usd_micros: tuple[int, ...]
    today: dict[str, int]
    by_model: tuple[ModelNumbers, ...]
    by_agent: tuple[AgentNumbers, ...]
    pickup_us: tuple[int, ...]
    complete: bool


class _Job:
    """The counts of one journal so far, by minute."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.seq = 0
        self.minutes: dict[int, Counter[str]] = {}
        self.models: dict[tuple[int, str], Counter[str]] = {}
        self.picked_up: tuple[int, int] | None = None
        self._made_at = 0
        self._asked: dict[tuple[str, int], str] = {}

    def take(self, sealed: SealedEvent) -> None:
        self.seq = sealed.seq
        minute = sealed.at // MINUTE
        if sealed.type in _COUNTED:
            self._count(minute, _COUNTED[sealed.type])
            if sealed.type == e.JobCreated.type:
                self._made_at = sealed.at
        elif sealed.type in _READ:
            self._read(minute, sealed)

    def _read(self, minute: int, sealed: SealedEvent) -> None:
        try:
            event = unseal(sealed)
        except HoldfastError:
            return  # erased, or of another version: nothing to count
        match event:
            case e.JobClaimed():
                if event.takeover:
                    self._count(minute, "takeovers")
                if self.picked_up is None:
                    self.picked_up = (sealed.at, max(sealed.at - self._made_at, 0))
            case e.LlmRequested():
                self._asked[event.step_key, event.generation] = event.model
            case e.LlmResponded():
                self._answered(minute, event)
            case _:
                pass

    def _answered(self, minute: int, event: e.LlmResponded) -> None:
        model = self._asked.pop((event.step_key, event.generation), "")
        used: dict[str, Any] = event.usage if isinstance(event.usage, dict) else {}
        counts = self.models.setdefault((minute, model), Counter())
        counts["calls"] += 1
        for name, key in (("tokens_in", "input"), ("tokens_out", "output"), ("usd_micros", "usd_micros")):
            amount = used.get(key)
            if type(amount) is int and amount >= 0:
                counts[name] += amount
                counts["priced"] += name == "usd_micros"
                self._count(minute, name, amount)

    def _count(self, minute: int, name: str, amount: int = 1) -> None:
        self.minutes.setdefault(minute, Counter())[name] += amount


class Numbers:
    """One per server. Its cache can be rebuilt from the journals."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Job] = {}

    async def look(self, namespace: str, *, now: int, minutes: int, today_since: int | None) -> NumbersView:
        """The time series of the last `minutes`, including the current one."""
        last = now // MINUTE
        first = last - minutes + 1
        since = min(first, (now if today_since is None else max(today_since, 0)) // MINUTE)
        records, complete = await self._recent(namespace, since * MINUTE)
        read_all = await self._read(records)
        jobs = [cached for record in records if (cached := self._known.get(record.job_id)) is not None]
        by_minute: dict[int, Counter[str]] = {}
        for job in jobs:
            for minute, counts in job.minutes.items():
                by_minute.setdefault(minute, Counter()).update(counts)
        span = range(first, last + 1)
        series = {
            name: tuple(by_minute.get(nth_minute, _NONE)[name] for nth_minute in span) for name in SERIES
        }
        today = range((now if today_since is None else today_since) // MINUTE, last + 1)
        return NumbersView(
            step_us=MINUTE,
            at=tuple(nth_minute * MINUTE for nth_minute in span),
            **series,
            today={
                name: sum(counts[name] for nth_minute, counts in by_minute.items() if nth_minute in today)
                for name in SERIES
            },
            by_model=_by_model(jobs, span),
            by_agent=_by_agent(jobs, span),
            pickup_us=_percentiles(
                took for job in jobs if job.picked_up for at, took in [job.picked_up] if at // MINUTE in span
            ),
            complete=complete and read_all,
        )

    async def _recent(self, namespace: str, since: int) -> tuple[list[JobRecord], bool]:
        """Jobs that changed since then, among the newest and the open ones; and whether that is all of them."""
        records: dict[str, JobRecord] = {}
        cursor: str | None = None
        while len(records) < NEWEST:
            page = await self._store.jobs.list(JobFilter(namespace=namespace), limit=PAGE, cursor=cursor)
            records |= {record.job_id: record for record in page}
            cursor = page.next
            if cursor is None:
                break
        still = await self._store.jobs.list(JobFilter(namespace=namespace, statuses=_OPEN), limit=PAGE)
        oldest = min((record.created_at for record in records.values()), default=0)
        records |= {record.job_id: record for record in still}
        recent = [record for record in records.values() if record.changed_at >= since]
        return recent, cursor is None or oldest < since

    async def _read(self, records: Iterable[JobRecord]) -> bool:
        """Counts the new events of these journals; returns whether all were read."""
        journals_read = 0
        for record in records:
            job = self._known.pop(record.job_id, None) or _Job(record.kind)
            self._known[record.job_id] = job  # least recently used jobs are at the front
            if job.seq >= record.head_seq:
                continue
            if journals_read == READ_MAX:
                return False
            journals_read += 1
            await self._read_one(record, job)
        while len(self._known) > KNOWN_MAX:
            self._known.pop(next(iter(self._known)))
        return True

    async def _read_one(self, record: JobRecord, job: _Job) -> None:
        while job.seq < record.head_seq:
            page = await self._store.journal.read(record.job_id, after=job.seq, limit=EVENTS_PER_PAGE_MAX)
            if not page:
                return  # the job was removed meanwhile
            for sealed in page:
                job.take(sealed)


_NONE: Final[Counter[str]] = Counter()


def _by_model(jobs: Iterable[_Job], span: range) -> tuple[ModelNumbers, ...]:
    by_model: dict[str, Counter[str]] = {}
    for job in jobs:
        for (minute, model), counts in job.models.items():
            if minute in span:
                by_model.setdefault(model, Counter()).update(counts)
    return tuple(
        ModelNumbers(
            model=model,
            calls=counts["calls"],
            tokens_in=counts["tokens_in"],
            tokens_out=counts["tokens_out"],
            usd_micros=counts["usd_micros"] if counts["priced"] else None,
        )
        for model, counts in sorted(by_model.items())
    )


def _by_agent(jobs: Iterable[_Job], span: range) -> tuple[AgentNumbers, ...]:
    by_kind: dict[str, Counter[str]] = {}
    for job in jobs:
        lately = [counts for minute, counts in job.minutes.items() if minute in span]
        if lately:
            mine = by_kind.setdefault(job.kind, Counter())
            mine["jobs"] += 1
            for counts in lately:
                mine.update(counts)
            mine["priced"] += any("usd_micros" in counts for counts in lately)
    return tuple(
        AgentNumbers(
            kind=kind,
            jobs=counts["jobs"],
            failed=counts["failed"] + counts["dead"],
            tokens=counts["tokens_in"] + counts["tokens_out"],
            usd_micros=counts["usd_micros"] if counts["priced"] else None,
        )
        for kind, counts in sorted(by_kind.items())
    )


def _percentiles(values: Iterable[int]) -> tuple[int, ...]:
    """The 50th, 95th and 99th percentile; empty without values."""
    ordered = sorted(values)
    return tuple(
        ordered[min(len(ordered) * part // 100, len(ordered) - 1)] for part in (50, 95, 99) if ordered
    )
