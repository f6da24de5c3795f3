"""A store in which a full scan would hurt: several thousand rows, the same on both databases.

Planners look at sizes and at how values are spread, so the crowd looks like a busy day: most jobs are over, many are
ready, some run, some wait, and one session is long.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final, TypeAlias

Row: TypeAlias = tuple[object, ...]

JOBS: Final = 6_000
EVENTS_EACH: Final = 3
PASSAGES_EACH: Final = 3
SESSIONS: Final = 200
NODES_OF_THE_LONG: Final = 2_000
NODES_EACH: Final = 50
BATCHES_EACH: Final = 20
CALLS: Final = 3_000
BLOBS: Final = 500
API_KEYS: Final = 2_000
ACTS: Final = 3_000

NOW: Final = 1_700_000_000_000_000
TICK: Final = 1_000_000
BOOT: Final = "virtual"
NAMESPACE: Final = "default"
QUEUES: Final = tuple(f"queue-{number}" for number in range(8))

_STATES: Final = ("completed",) * 10 + ("pending",) * 6 + ("running",) * 2 + ("waiting",) * 2


def job_id(number: int) -> str:
    return f"job-{number:06}"


def session_id(number: int) -> str:
    return f"session-{number:03}"


def token(number: int) -> str:
    """The claim that a running job is held under: ten jobs share one."""
    return f"token-{number // 100}"


def rows() -> Iterator[tuple[str, list[Row]]]:
    """Every table's rows, parents before children, each with all columns in the schema's order."""
    yield "store_state", [(1, "store-1", 1, 1, NOW)]
    yield "namespaces", [(NAMESPACE, NOW)]
    yield "blobs", [(NAMESPACE, _digest("blob", n), b"x" * 64, NOW) for n in range(BLOBS)]
    yield "jobs", [_job(n) for n in range(JOBS)]
    yield "job_heads", [_head(n) for n in range(JOBS)]
    yield "events", [_event(n, seq) for n in range(JOBS) for seq in range(1, EVENTS_EACH + 1)]
    yield "timers", [(job_id(n), "1/sleep#1", NOW + n) for n in range(JOBS) if _status(n) == "waiting"]
    yield "stream_passages", [_passage(n, last) for n in range(JOBS) for last in range(1, PASSAGES_EACH + 1)]
    yield "tool_calls", [_call(n) for n in range(CALLS)]
    yield "budgets", [(job_id(n), NAMESPACE, 0, NOW, b"{}", 0, 0, 0) for n in range(JOBS)]
    yield "sessions", [_session(n) for n in range(SESSIONS)]
    yield "session_nodes", [_node(n, seq) for n in range(SESSIONS) for seq in range(_nodes_of(n))]
    yield "api_keys", [_api_key(n) for n in range(API_KEYS)]
    yield "audit_acts", [(NAMESPACE, n, f"act-{n}", NOW, "job.cancel", b"{}", b"") for n in range(1, ACTS)]
    yield "inbox_batches", [_batch(n, seq) for n in range(SESSIONS) for seq in range(1, BATCHES_EACH + 1)]


def _digest(*words: object) -> bytes:
    return hashlib.sha256(repr(words).encode()).digest()


def _api_key(n: int) -> Row:
    return (f"key-{n:05}", NAMESPACE, "ci", "viewer", _digest("key", n), None, None, NOW, None, NOW)


def _job(n: int) -> Row:
    parent = job_id(n - 1) if n % 50 == 1 else None
    return (
        job_id(n),
        NAMESPACE,
        "work",
        QUEUES[n % 8],
        1 + n % 10,
        f"key-{n}",
        _digest(n),
        parent,
        None,
        None,
        NOW + n,
    )


def _status(n: int) -> str:
    return _STATES[n * 7 % len(_STATES)]


def running() -> list[int]:
    return [n for n in range(JOBS) if _status(n) == "running"]


def _head(n: int) -> Row:
    status = _status(n)
    running, waiting = status == "running", status == "waiting"
    return (
        job_id(n),
        NAMESPACE,
        QUEUES[n % 8],
        "work",
        1 + n % 10,
        status,
        "timer" if waiting else None,
        NOW + (n - JOBS // 2) * 1_000_000 if waiting else None,
        NOW - n,
        None,
        None,
        EVENTS_EACH,
        _digest(n, EVENTS_EACH),
        2**32 + 1,
        token(n) if running else "",
        "worker" if running else "",
        BOOT if running else "",
        TICK + (1 if n % 20 else -1) if running else 0,
        0,
        0,
        0,
    )


def _event(n: int, seq: int) -> Row:
    kind = "question_asked" if seq == 2 and n % 30 == 0 else "step_finished"
    return (job_id(n), seq, kind, 1, 2**32 + 1, NOW, b"{}", _digest("{}"), _digest(n, seq))


def _passage(n: int, last: int) -> Row:
    return (job_id(n), 2**32 + 1, last, 1, '[["1/say#1",1]]', NOW, b"[]")


def _call(n: int) -> Row:
    status = {0: "prepared", 25: "uncertain"}.get(n % 50, "succeeded")
    told = (
        "send",
        "send",
        "idempotent",
        status,
        f"idempotency-{n}",
        "digest",
        1,
        2**32 + 1,
        1,
        None,
        None,
        None,
        None,
    )
    return (f"call-{n}", job_id(n), "1/send#1", 0, *told, NOW, None)


def _session(n: int) -> Row:
    leaf = f"node-{_nodes_of(n) - 1:05}"
    place = (NAMESPACE, session_id(n), 1, leaf, None)
    return (*place, b"{}", _digest("{}"), None, _nodes_of(n), BATCHES_EACH, None, NOW)


def _nodes_of(session: int) -> int:
    return NODES_OF_THE_LONG if session == 0 else NODES_EACH


def _node(n: int, seq: int) -> Row:
    parent = f"node-{seq - 1:05}" if seq else None
    place = (NAMESPACE, session_id(n), f"node-{seq:05}", seq, parent, None, None)
    return (*place, NOW, b"{}", _digest("{}"), 0)


def _batch(n: int, seq: int) -> Row:
    state = "queued" if seq > BATCHES_EACH - 5 else "completed"
    settled = None if state == "queued" else NOW
    place = (NAMESPACE, session_id(n), f"batch-{seq}", seq, f"source-{seq}")
    shape = ("earliest_safe_boundary", "join", "", NOW, NOW, state, None)
    return (*place, *shape, None, None, None, None, None, None, 0, None, settled)
