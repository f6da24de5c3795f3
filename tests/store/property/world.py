"""What every machine shares: the stores, what happened so far, time, and looking at everything.

A rule asks the trio one question; the trio compares the answers. After each rule the machine looks at what the rule
touched, and at the end at everything.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.model.jobs import DEFAULT_NAMESPACE, JobFilter
from holdfast.model.limits import INSTANT_US_MAX, PAYLOAD_INLINE_BYTES
from holdfast.model.time import MINUTE, SECOND
from holdfast.store.clock import VirtualClock
from holdfast.store.contract import Store
from holdfast.store.ports.sessions import ACTIVE_PATH
from tests.store.property.three_stores import Question, Refused, Trio

T = TypeVar("T")


def weighted(*choices: tuple[int, st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """One of them, as often as its number says. (`a | a | b` means `a | b` to Hypothesis.)"""
    places = [place for place, (times, _) in enumerate(choices) for _ in range(times)]
    return st.sampled_from(places).flatmap(lambda place: choices[place][1])


def newest(things: Sequence[T]) -> st.SearchStrategy[T]:
    """One of them; the simplest choice is the newest."""
    return st.sampled_from(things[::-1])


START: Final = VirtualClock().wall_us()
OTHER: Final = "other"
NOWHERE: Final = "nowhere"

NAMESPACES: Final = st.sampled_from([DEFAULT_NAMESPACE] * 12 + [OTHER] * 3 + [NOWHERE])
SESSIONS: Final = ("s1", "s2")
HANDLES: Final = ("h1", "h2")
INSTANTS: Final = st.sampled_from([0] * 4 + [START - SECOND, START, START + 20 * SECOND, START + 5 * MINUTE])
"""When something is ready, due or available: at once, or after some moves of the clock."""

LARGE: Final = "large" * (PAYLOAD_INLINE_BYTES // 5 + 1)
BODIES: Final = st.sampled_from([None, 1, "text", {"b": [True, None], "a": "\x00\ud800"}, "large"]).map(
    lambda body: LARGE if body == "large" else body  # Hypothesis shall not have to print it
)

INPUTS: Final = weighted((19, BODIES), (1, st.sampled_from([math.nan, {"set": {1}}])))
"""What people send; the last are nothing that is stored."""
ODD_NAME: Final = "odd\x00"


class World(RuleBasedStateMachine):
    trio: ClassVar[Trio]

    def __init__(self) -> None:
        super().__init__()
        self.trio.reset()
        self.trio.ask("namespaces.create", OTHER)
        self.jobs: list[str] = []
        self.touched_jobs: set[str] = set()
        self.touched_sessions: set[tuple[str, str]] = set()
        self.touched_queues: set[tuple[str, str]] = set()
        self.reopened = False
        self._names = 0
        self._agree = True

    def fresh(self, word: str) -> str:
        """A name that nothing has yet."""
        self._names += 1
        return f"{word}{self._names}"

    @property
    def now(self) -> int:
        return self.trio.clock.wall_us()

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def ask(self, name: str, /, *args: Any, **options: Any) -> Any:
        """The answer, or the refusal, that the stores agree on."""
        self._agree = False
        answer = self.trio.ask(name, *args, **options)
        self._agree = True
        return answer

    def told(self, name: str, /, *args: Any, **options: Any) -> Any:
        """The answer; None for a refusal."""
        answer = self.ask(name, *args, **options)
        return None if isinstance(answer, Refused) else answer

    def know(self, job_id: str) -> None:
        if job_id not in self.jobs:
            self.jobs.append(job_id)
        self.touched_jobs.add(job_id)

    # ── looking ───────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def what_was_touched_looks_the_same(self) -> None:
        jobs, self.touched_jobs = sorted(self.touched_jobs), set()
        sessions, self.touched_sessions = sorted(self.touched_sessions), set()
        queues, self.touched_queues = sorted(self.touched_queues), set()

        async def picture(store: Store) -> dict[str, Any]:
            shown: dict[str, Any] = {}
            for job_id in jobs:
                shown[f"head {job_id}"] = await store.jobs.head(job_id)
            for namespace, session in sessions:
                shown[f"session {namespace} {session}"] = await store.sessions.load(
                    session, namespace=namespace
                )
            for namespace, session in queues:
                shown[f"queue {namespace} {session}"] = await store.inbox.list(session, namespace=namespace)
            return shown

        if jobs or sessions or queues:
            self._compare(self.trio.compare, picture)

    def teardown(self) -> None:
        if self._agree:
            self._compare(self.trio.compare_all, functools.partial(everything, jobs=self.jobs))

    def _compare(self, compare: Callable[[Question], None], picture: Question) -> None:
        self._agree = False
        compare(picture)
        self._agree = True

    # ── time ──────────────────────────────────────────────────────────────────────────────────────

    @rule(us=st.sampled_from([1, SECOND, 10 * SECOND, 31 * SECOND, 10 * MINUTE]))
    def time_passes(self, us: int) -> None:
        self.trio.clock.hands.advance(us)

    @rule(us=st.sampled_from([None, -10 * MINUTE, -SECOND, 10 * MINUTE]))
    def clock_misbehaves(self, us: int | None) -> None:
        """The wall clock jumps, or the machine boots and all ticks start again."""
        if us is None:
            self.trio.reboot(self.fresh("boot"))
        else:
            self.trio.clock.hands.jump_wall(us)

    @precondition(lambda self: not self.reopened)  # once: it costs as much as ten other rules
    @rule()
    def stores_are_reopened(self) -> None:
        self.reopened = True
        self.trio.reopen()


async def everything(store: Store, jobs: Sequence[str]) -> dict[str, Any]:
    """All that can be seen through the ports."""
    shown: dict[str, Any] = {
        "jobs": await store.jobs.list(JobFilter(), limit=1000),
        "expired": await store.leases.list_expired(),
        "namespaces": await store.namespaces.list(),
    }
    for job_id in jobs:
        shown[f"head {job_id}"] = await store.jobs.head(job_id)
        shown[f"journal {job_id}"] = await store.journal.read(job_id)
        shown[f"calls {job_id}"] = await store.ledger.list(job_id)
        shown[f"mail {job_id}"] = await store.post.read(job_id)
        shown[f"timers {job_id}"] = await store.post.timers(job_id)
    for namespace in (DEFAULT_NAMESPACE, OTHER):
        intents = await store.attachments.list_uncommitted(INSTANT_US_MAX, namespace=namespace)
        shown[f"attachments {namespace}"] = intents
        shown[f"ledger counts {namespace}"] = await store.ledger.counts(namespace)
        for handle in HANDLES:
            shown[f"handle {namespace} {handle}"] = await store.sessions.find_bound_session(
                handle, namespace=namespace
            )
        for session in SESSIONS:
            place = f"{namespace} {session}"
            shown[f"session {place}"] = await store.sessions.load(session, namespace=namespace)
            shown[f"path {place}"] = await store.sessions.load(session, ACTIVE_PATH, namespace=namespace)
            shown[f"meta {place}"] = await store.sessions.meta(session, namespace=namespace)
            shown[f"queue {place}"] = await store.inbox.list(session, namespace=namespace)
            shown[f"pending {place}"] = await store.inbox.list_pending(session, namespace=namespace)
    return shown
