"""Recovery: the sweep returns jobs of expired workers to their queues, and dead letters list their causes.

An expired lease is claimable as it is, so no job waits for a sweep. The sweep adds the bookkeeping: it records one
more takeover, and puts the job back into its queue at its old place. The death of a worker makes no job a dead letter
here (`model.crash_suspects`); only rules that set `takeovers_max` do. The sweep writes by short holds, all in one
transaction, and checks each lease inside it: a worker that renews in time keeps the job, and two concurrent sweeps
share the work.

A lease normally expires by itself. `prove_dead` shortens that for workers of this host whose process is gone.

A dead letter names every failed attempt and every death of a worker that led to it. The writer of the event may know
the head alone, and then writes the last cause. The earlier ones are in the journal: each loss of a holder and each
failure is its own event. A cause is

    {"why": …, "at": microseconds, "holder": worker, "error": {"type", "message", "traceback", …}}

`error` is there for a failure only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.engine.host_processes import Processes
from holdfast.engine.tracebacks import format_error
from holdfast.errors import Unavailable
from holdfast.model.append import Move
from holdfast.model.crash_suspects import DIED_ALONE, find_parent
from holdfast.model.events import Event, JobClaimed, JobDeadLettered, JobRequeued
from holdfast.model.jobs import JobHead
from holdfast.model.lease import FAILED_ATTEMPTS_MAX, TAKEOVERS_MAX, is_poison
from holdfast.model.states import Status, WaitReason
from holdfast.model.work import HOLDER
from holdfast.model.worker_identity import ProcessStatus, identity_in, is_dead, is_neighbour
from holdfast.store.clock import Clock
from holdfast.store.contract import Store
from holdfast.store.ports.journal import Ruling

AT_ONCE: Final = 1000
"""Jobs per transaction: enough to make it cheap, few enough that other writers do not wait long behind it."""

LAST_SWEEP: Final = "last_sweep"

LEASE_RAN_OUT: Final = "its lease ran out"
_DEAD_LETTER: Final = Move(status=Status.WAITING, reason=WaitReason.DEAD_LETTER, takeover=True)


class SweepStats(msgspec.Struct):
    """Statistics of a sweep. `recovered` jobs are back in their queues, `failed` ones are held as dead letters."""

    expired_found: int = 0
    recovered: int = 0
    failed: int = 0
    checkpoints_created: int = 0
    errors: int = 0
    scan_duration_ms: float = 0.0


class LastSweep(msgspec.Struct, frozen=True):
    """The last sweep that found something: when it ran, which worker ran it, what it did."""

    at: int
    by: str
    stats: SweepStats


class SweepResult(msgspec.Struct, frozen=True, gc=False):
    """A job that a sweep took from a worker, and whether it is now a dead letter."""

    head: JobHead
    dead: bool


class RecoveryRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a job has used up its attempts, and the name under which the sweep writes. `takeovers_max` is for holders
    of one item at a time; without it no loss of a holder makes a job a dead letter."""

    takeovers_max: int | None = None
    failed_attempts_max: int = FAILED_ATTEMPTS_MAX
    by: str | None = None


DEFAULT: Final = RecoveryRules()


async def sweep(store: Store, clock: Clock, rules: RecoveryRules = DEFAULT) -> SweepStats:
    """Returns every running job with an expired lease to its queue, or holds it as a dead letter. Returns
    the counts."""
    stats, _ = await sweep_jobs(store, clock, rules)
    return stats


async def sweep_jobs(
    store: Store, clock: Clock, rules: RecoveryRules = DEFAULT
) -> tuple[SweepStats, list[SweepResult]]:
    """The same, and which jobs they were. An unavailable store counts as an error; the next sweep continues."""
    began = clock.tick_us()
    stats, swept = SweepStats(), list[SweepResult]()
    decide = functools.partial(decide_ruling, rules)
    while True:
        try:
            held = await store.journal.hold_expired(decide, limit=AT_ONCE)
        except Unavailable:
            stats.errors += 1
            break
        swept += [SweepResult(head, written.move.status is Status.WAITING) for head, written in held]
        if len(held) < AT_ONCE:
            break
    stats.expired_found = len(swept)
    stats.failed = sum(result.dead for result in swept)
    stats.recovered = stats.expired_found - stats.failed
    stats.scan_duration_ms = (clock.tick_us() - began) / 1000
    return stats, swept


async def remember_sweep(store: Store, last: LastSweep) -> None:
    """Stores this sweep as the last one that found something."""
    await store.metadata.put(LAST_SWEEP, msgspec.to_builtins(last))


async def find_last_sweep(store: Store) -> LastSweep | None:
    """The last sweep of any process that found something; None, if none ever did."""
    entry = await store.metadata.get(LAST_SWEEP)
    return None if entry is None else msgspec.convert(entry.value, LastSweep)


def decide_ruling(rules: RecoveryRules, head: JobHead) -> Ruling:
    """Decides about a job whose lease has expired: back to its place in the queue, or a dead letter.

    A job that ever got mail does not become a dead letter here: its holder may have died before it read a resume.
    """
    takeovers = head.takeovers + 1
    # Mail may restart the job. A worker reads it first, and then decides by the same rule.
    if not head.mail_seq and is_poison(
        takeovers=takeovers,
        failed_attempts=head.attempts,
        # An external agent does not hold many jobs in one process: it lost this item by itself.
        takeovers_max=TAKEOVERS_MAX if head.lease_owner.startswith(HOLDER) else rules.takeovers_max,
        failed_attempts_max=rules.failed_attempts_max,
    ):
        return Ruling(_make_dead_letter(head.lease_owner, takeovers, head.attempts), _DEAD_LETTER)
    events = _make_requeue(rules.by, head.lease_owner)
    return Ruling(events, Move(status=Status.PENDING, ready_at=head.ready_at, takeover=True))


@functools.lru_cache(maxsize=128)
def _make_requeue(by: str | None, holder: str) -> tuple[JobRequeued]:
    """One event for all jobs of one worker: the store then encodes it once."""
    return (JobRequeued(LEASE_RAN_OUT, by, takeover=True, holder=holder),)


@functools.lru_cache(maxsize=128)
def _make_dead_letter(holder: str, takeovers: int, attempts: int) -> tuple[JobDeadLettered]:
    cause = {"why": LEASE_RAN_OUT, "holder": holder, "takeovers": takeovers, "attempts": attempts}
    return (JobDeadLettered((cause,)),)


async def prove_dead(store: Store, processes: Processes) -> list[str]:
    """Expires the leases of workers whose process is gone from this host; returns their names."""
    here = processes.here()
    if here is None:
        return []
    dead = []
    for name in await store.leases.owners():
        identity = identity_in(name)
        if (
            identity is None
            or not is_neighbour(identity, here)
            or not is_dead(identity, here, processes.look_up(identity.pid))
        ):
            continue
        parent = find_parent(name)
        if parent is not None and processes.look_up(parent) is not ProcessStatus.GONE:
            continue  # its parent saw how it died, and records that
        if await store.leases.expire(name):
            dead.append(name)
    return dead


_LOST: Final = "its holder was not heard of again"
FAILED: Final = "failed"
_SUMMARY_MAX: Final = 300


def causes_of(events: Iterable[tuple[int, Event]]) -> list[Any]:
    """All causes since the job was last restarted, oldest first. `events` are the journal's events with their times."""
    causes: list[Any] = []
    holder = ""
    for at, event in events:
        match event:
            case JobClaimed(worker=worker, takeover=takeover):
                if takeover:
                    causes.append({"why": _LOST, "at": at, "holder": holder})
                holder = worker
            case JobRequeued(takeover=True, holder=lost, why=why):
                was_isolated = why.startswith(DIED_ALONE)
                causes.append({"why": why if was_isolated else _LOST, "at": at, "holder": lost})
            case JobRequeued(error=error) if error is not None:
                causes.append({"why": FAILED, "at": at, "holder": holder, "error": error})
            case JobRequeued():
                causes.clear()  # a person has restarted the job
            case JobDeadLettered(causes=reported):
                causes = _merge_causes(causes, reported, at, holder)
            case _:
                pass
    return causes


def _merge_causes(causes: list[Any], reported: Iterable[Any], at: int, holder: str) -> list[Any]:
    """The causes in the journal, and those that the dead letter adds."""
    added = [cause for cause in reported if isinstance(cause, dict)]
    if causes and [_drop_time(cause) for cause in added[: len(causes)]] == [
        _drop_time(cause) for cause in causes
    ]:
        added = added[len(causes) :]  # the writer of the dead letter had read the journal
    for cause in added:
        is_verdict = cause.get("error") is None and "holder" not in cause
        if is_verdict and causes:
            continue  # "too many causes" is not itself a cause
        fields = {key: value for key, value in cause.items() if key not in {"attempts", "takeovers"}}
        error = fields.get("error")
        if error is None:
            fields.pop("error", None)
        elif isinstance(error, dict) and fields.get("why") == error.get("message"):
            fields["why"] = FAILED
        causes.append({"at": at, "holder": holder} | fields)
    return causes


def _drop_time(cause: Any) -> Any:
    return {key: value for key, value in cause.items() if key != "at"} if isinstance(cause, dict) else cause


def summarize_causes(causes: Iterable[Any]) -> str:
    """Why a job is a dead letter, in one line: `Failed after 3 attempts: KeyError: 'nope'`."""
    causes = [cause for cause in causes if isinstance(cause, dict)]
    errors = [cause["error"] for cause in causes if cause.get("error") is not None]
    deaths = len(causes) - len(errors)
    if not errors:
        why = str(causes[-1].get("why", "")) if causes else ""
        return f"Lost its worker {_count(deaths, 'time')}: {why}" if causes else "Failed too often"
    died = f" and {_count(deaths, 'lost worker')}" if deaths else ""
    error = " ".join(format_error(errors[-1]).split())
    error = error if len(error) <= _SUMMARY_MAX else error[: _SUMMARY_MAX - 1] + "…"
    why = str(causes[-1].get("why", ""))
    if causes[-1].get("error") is not None and why not in {"", FAILED}:
        return f"{why[0].upper()}{why[1:]}: {error}"
    return f"Failed after {_count(len(errors), 'attempt')}{died}: {error}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
