"""Snapshot: what outlives the workers of a play at one instant, to go on from there or to compare.

A dead worker leaves behind the store, the requests that it sent, and the clock; its memory is lost. So a play whose
first worker is killed goes on from a snapshot that the undisturbed play took at that point, and a play whose first
worker is gone in any way need not go on if another play of the program went on from the same snapshot.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.store.memory.state import Tables
from tests.kill.programs.loops import Thread
from tests.kill.programs.receivers import Request

if TYPE_CHECKING:
    from tests.kill.programs.stage import Claim, Point, Stage


@dataclass(frozen=True)
class Snapshot:
    """What outlives the workers. What does not compare is luck: numbers of new ids, hashes of new tasks."""

    now: float
    ticks: int
    events: int
    job_id: str
    beside_id: str
    requests: tuple[Request, ...]
    signals: Mapping[str, float]
    messages: Mapping[str, tuple[float, Any]]
    person: tuple[Mapping[str, int], frozenset[str], frozenset[tuple[str, str]]]
    claims: tuple[Claim, ...]
    waits: tuple[tuple[int, str, str], ...]
    threads: tuple[Thread, ...]
    crunched: Counter[str]
    blocked: frozenset[str]
    deaths: tuple[tuple[str, str], ...]
    hints: frozenset[str]
    tables: Tables
    writes: int = field(compare=False)
    spun_s: float = field(compare=False)
    chance: int = field(compare=False)
    ids: tuple[Any, Any] = field(compare=False)
    passed: tuple[Point, ...] = field(compare=False)

    @property
    def bucket(self) -> tuple[object, ...]:
        """Equal for equal snapshots, and quickly told."""
        heads = tuple(row.head.head_hash for row in self.tables.jobs.values())
        return self.now, self.ticks, self.events, heads


def take_snapshot(stage: Stage, passed: tuple[Point, ...]) -> Snapshot:
    """What outlives the workers of this play, now. Rows of the memory store never change: its tables are shared."""
    receivers, person, state = stage.receivers, stage.person, stage.memory
    store_ids: Any = state.ids
    wakeups: Any = stage.store.wakeups
    hints = {*wakeups._kept, *(topic for waiter in wakeups._waiters for topic in waiter.found)}
    return Snapshot(
        now=stage.loop.clock_time(),
        ticks=receivers.ticks,
        events=receivers.events,
        job_id=stage.job_id,
        beside_id=stage.beside_id,
        requests=tuple(copy.copy(one) for one in receivers.requests),
        signals=dict(stage.signals),
        messages=dict(stage.messages),
        person=person.memory,
        claims=tuple(stage.claims),
        waits=tuple(stage.waits),
        threads=tuple(copy.copy(one) for one in stage.loop.threads),
        crunched=receivers.crunched.copy(),
        blocked=frozenset(receivers.blocked),
        deaths=tuple(receivers.deaths),
        hints=frozenset(hints),
        tables=state.tables,
        writes=stage.writes,
        spun_s=stage.loop.selector.spun_s,
        chance=stage.loop.chance,
        ids=(copy.copy(store_ids._count), copy.copy(stage.ids._count)),
        passed=passed,
    )


def restore_snapshot(stage: Stage, snapshot: Snapshot) -> None:
    """The play stands where the snapshot was taken. What is under way is not started."""
    receivers, state = stage.receivers, stage.memory
    store_ids: Any = state.ids
    stage.loop.selector.now, stage.loop.selector.spun_s = snapshot.now, snapshot.spun_s
    stage.loop.chance, stage.loop.threads = snapshot.chance, [copy.copy(one) for one in snapshot.threads]
    receivers.ticks, receivers.events = snapshot.ticks, snapshot.events
    receivers.requests = [copy.copy(one) for one in snapshot.requests]
    receivers.crunched, receivers.blocked = snapshot.crunched.copy(), set(snapshot.blocked)
    receivers.deaths = list(snapshot.deaths)
    stage.job_id, stage.beside_id, stage.writes = snapshot.job_id, snapshot.beside_id, snapshot.writes
    stage.signals, stage.messages = dict(snapshot.signals), dict(snapshot.messages)
    stage.claims, stage.waits = list(snapshot.claims), list(snapshot.waits)
    stage.person.memory = snapshot.person
    state.tables = snapshot.tables
    store_ids._count, stage.ids._count = map(copy.copy, snapshot.ids)
    wakeups: Any = stage.store.wakeups
    wakeups._kept = dict.fromkeys(sorted(snapshot.hints))
