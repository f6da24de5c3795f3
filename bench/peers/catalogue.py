"""Which peer takes part in which work, under which name; and who does not, and why.

`mark_best` marks the peers that `make bench` enters: those that were the fastest when all of them ran. All of them are
entered by `make bench-peers`.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from bench.contest import Contestant
from bench.peers import Killed, Peer
from bench.peers.npm import VERSION, Restate
from bench.peers.versions import versions
from bench.places import Place

ROUNDS_AT_MOST: Final = 3


class Entry(msgspec.Struct, frozen=True):
    adapter: str
    package: str
    title: str
    stores: tuple[str, ...]
    tuned: bool = True
    served: bool = False
    """Whether a server of its own keeps the history, so that only the worker has to be a new one."""
    steps_at_most: int | None = None
    best: tuple[str, ...] = ()
    """The stores on which it is the one to beat."""

    def name(self) -> str:
        return self.title.format(versions()[self.package])


BOTH: Final = ("sqlite", "postgres")
DBOS: Final = Entry("dbos", "dbos", "DBOS {}, as shipped", BOTH, tuned=False)
DBOS_TUNED: Final = Entry("dbos", "dbos", "DBOS {}, WAL, queue polled each 10 ms", ("sqlite",))
DBOS_TUNED_POSTGRES: Final = Entry("dbos", "dbos", "DBOS {}, queue polled each 10 ms", ("postgres",))
LANGGRAPH: Final = Entry("langgraph", "langgraph", "LangGraph {}, durability sync", BOTH)
ABSURD: Final = Entry("absurd", "absurd-sdk", "Absurd {}, as shipped", ("postgres",), tuned=False)
ABSURD_TUNED: Final = Entry("absurd", "absurd-sdk", "Absurd {}, polled each 10 ms", ("postgres",))
HUEY: Final = Entry("huey", "huey", "Huey {}, fsync, steps as chained jobs", ("sqlite",))
PROCRASTINATE: Final = Entry(
    "procrastinate", "procrastinate", "Procrastinate {}, steps as chained jobs", ("postgres",)
)
PGQUEUER: Final = Entry("pgqueuer", "pgqueuer", "PgQueuer {}, steps as chained jobs", ("postgres",))


TEMPORAL: Final = Entry(
    "temporal",
    "temporalio",
    "Temporal, SDK {}, dev server",
    ("sqlite",),
    served=True,
    steps_at_most=5_000,
)


RESTATE: Final = Entry(
    "restate", "restate-sdk", f"Restate {VERSION}, SDK {{}}, its own log", ("sqlite",), served=True
)


def mark_best(entry: Entry, *stores: str) -> Entry:
    return msgspec.structs.replace(entry, best=stores or entry.stores)


def set_title(entry: Entry, title: str) -> Entry:
    return msgspec.structs.replace(entry, title=title)


NO_STEPS: Final = "Huey, Procrastinate and PgQueuer have no steps."
NO_QUEUE: Final = "LangGraph has no queue."

ENTRIES: Final[dict[str, tuple[Entry, ...]]] = {
    "serial": (
        mark_best(LANGGRAPH, "sqlite"),
        mark_best(set_title(ABSURD, "Absurd {}"), "postgres"),
        set_title(DBOS, "DBOS {}, as shipped"),
        set_title(DBOS_TUNED, "DBOS {}, WAL"),
        TEMPORAL,
        RESTATE,
    ),
    "queue": (
        mark_best(HUEY),
        mark_best(PGQUEUER),
        mark_best(ABSURD),
        ABSURD_TUNED,
        PROCRASTINATE,
        DBOS,
        DBOS_TUNED,
        DBOS_TUNED_POSTGRES,
        TEMPORAL,
        RESTATE,
    ),
    "pickup": (
        mark_best(DBOS_TUNED),
        mark_best(set_title(PROCRASTINATE, "Procrastinate {}")),
        set_title(HUEY, "Huey {}, fsync"),
        set_title(PGQUEUER, "PgQueuer {}"),
        ABSURD,
        ABSURD_TUNED,
        DBOS,
        DBOS_TUNED_POSTGRES,
        TEMPORAL,
        RESTATE,
    ),
    "resume": (
        mark_best(set_title(LANGGRAPH, "LangGraph {}, state only"), "sqlite"),
        mark_best(set_title(ABSURD, "Absurd {}")),
        set_title(DBOS, "DBOS {}, as shipped"),
        set_title(DBOS_TUNED, "DBOS {}, WAL"),
        TEMPORAL,
        RESTATE,
    ),
    "chat": (mark_best(LANGGRAPH, "sqlite"),),
    "writers": (
        mark_best(set_title(LANGGRAPH, "LangGraph {}, checkpoints"), "sqlite"),
        set_title(HUEY, "Huey {}, fsync, enqueued"),
        set_title(DBOS, "DBOS {}, enqueued, as shipped"),
        set_title(DBOS_TUNED, "DBOS {}, enqueued, WAL"),
    ),
    "sweep": (
        mark_best(set_title(DBOS_TUNED, "DBOS {}, WAL")),
        mark_best(set_title(PGQUEUER, "PgQueuer {}, dequeued again")),
        set_title(ABSURD, "Absurd {}, claimed again"),
        set_title(PROCRASTINATE, "Procrastinate {}, retried one by one"),
        set_title(DBOS, "DBOS {}, as shipped"),
    ),
}

LEFT_OUT: Final[dict[str, str]] = {
    "serial": NO_STEPS,
    "queue": f"{NO_QUEUE} Huey, Procrastinate and PgQueuer have no steps: each step is a job that enqueues the next.",
    "pickup": NO_QUEUE,
    "resume": f"{NO_STEPS} A history of Temporal's ends at 51,200 events, which 10,000 activities exceed.",
    "chat": "Only LangGraph and we keep conversations.",
    "writers": "Absurd, Procrastinate and PgQueuer have no SQLite.",
    "sweep": "LangGraph has no leases; Huey deletes a job when it is claimed, so there is nothing left to recover.",
}


def find_entries(work: str, store: str, which: str, steps: int = 1) -> list[Entry]:
    """Who takes part: nobody, the best, or all who can do so many steps."""
    if which == "none":
        return []
    return [
        entry
        for entry in ENTRIES[work]
        if store in entry.stores
        and (which == "all" or store in entry.best)
        and (entry.steps_at_most is None or steps <= entry.steps_at_most)
    ]


def make_entrants(work: str, store: str, which: str, operations: int | None = None, **told: Any) -> list[Any]:
    """Makers of contestants, for `Arena.enter`. `operations` is how many of a lap they take part in."""
    return [
        functools.partial(
            _make_contestant, entry, work, operations, {"store": store, "tuned": entry.tuned, **told}
        )
        for entry in find_entries(work, store, which, told.get("steps", 1))
    ]


def _make_contestant(
    entry: Entry, work: str, operations: int | None, told: dict[str, Any], place: Place
) -> Contestant:
    kind = Restate if entry is RESTATE else Killed if work == "resume" and not entry.served else Peer
    workers = ", 2 worker processes" if told.get("workers") == 2 else ""
    made = kind(place, entry.name() + workers, entry.adapter, work, told)
    made.rounds_at_most, made.operations_at_most = ROUNDS_AT_MOST, operations
    made.rests = work == "queue"
    return made
