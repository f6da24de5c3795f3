"""The statements that run all the time, each as it is really called, and how it has to find its rows.

A way of finding rows is written as `index(columns that are looked up in it)`. A primary key or unique constraint goes
by the name of its table: each database calls its index something else. No columns means a walk along the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tests.store.query_plans import crowd

HELD: Final = crowd.running()[:20]
"""Some of the jobs that run: what one call renews or writes."""

TIMES: Final = {"now": crowd.NOW, "tick": crowd.TICK, "boot": crowd.BOOT, "step": 0}

_HASH: Final = bytes(32)
_JOB: Final = crowd.job_id(HELD[0])
_SESSION: Final = {"namespace": crowd.NAMESPACE, "session_id": crowd.session_id(0)}
_APPEND: Final = {
    "job_id": _JOB,
    "fence": 2**32 + 1,
    "lease_token": crowd.token(HELD[0]),
    "seen_seq": 3,
    "seen_hash": _HASH,
    "head_seq": 4,
    "head_hash": _HASH,
    "mail_seen": 0,
    "progress": 1,
}
_CLAIM: Final[dict[str, Any]] = {
    "queues": list(crowd.QUEUES[:2]),
    "kinds": [],
    "any_kind": 1,
    "namespace": None,
    "limit": 10,
    "worker": "worker",
    "incarnation": "lease",
    "suspect_at": 2,
}
_FILTERS: Final[dict[str, Any]] = dict.fromkeys(
    ["namespace", "wait_reason", "kind", "queue", "session_id", "parent_job_id", "since", "until", "text"]
) | {"any_status": 1, "statuses": []}
_HOLDS: Final = {
    "job_ids": [crowd.job_id(n) for n in HELD],
    "fences": [2**32 + 1 for _ in HELD],
    "lease_tokens": [crowd.token(n) for n in HELD],
}


def _each(value: object) -> list[object]:
    return [value for _ in HELD]


def _ones(value: int | None) -> str:
    """A column of integers, or of nothing, as its literal."""
    return "{" + ",".join("NULL" if value is None else str(value) for _ in HELD) + "}"


_EVENT: Final = {
    "job_id": _JOB,
    "seq": 4,
    "type": "step_finished",
    "version": 1,
    "fence": 2**32 + 1,
    "at": crowd.NOW,
    "body": b"{}",
    "body_digest": _HASH,
    "hash": _HASH,
}
_STAYS: Final = {
    "status": None,
    "wait_reason": None,
    "wake_at": None,
    "ready_at": None,
    "failed": 0,
    "anew": 0,
    "taken_over": 0,
    "over": 0,
}
_INTEGERS: Final = ("fence", "seen_seq", "mail_seen", "progress", "version", "at")
_NAMES: Final = {
    "each_job_id": _HOLDS["job_ids"],
    "each_lease_token": _HOLDS["lease_tokens"],
    "each_type": _each("step_finished"),
}
_STEPS: Final = (
    _NAMES
    | {f"each_{name}": _ones(1) for name in _INTEGERS}
    | {"each_body": _each(b"{}"), "hashes": _HASH * 3 * len(HELD)}
)
_BATCH: Final = (
    _STEPS
    | {f"each_{name}": _ones(value) for name, value in ({"head_seq": 4} | _STAYS).items()}
    | {f"event_{name}": _ones(1) for name in ("whose", "seq", "version", "at")}
    | {"event_type": _NAMES["each_type"], "event_body": _each(b"{}")}
    | {"hashes": _HASH * 2 * len(HELD), "event_hashes": _HASH * 2 * len(HELD)}
)
_SWEPT: Final = {
    "hashes": _HASH * len(HELD),
    "failed": 0,
    "anew": 0,
    "taken_over": 1,
    "status": "pending",
    "wait_reason": None,
    "wake_at": None,
    "requeues": 0,
    "ready_at": None,
}


@dataclass(frozen=True, slots=True)
class Call:
    """`may`: ways that a plan can do without. `sorts`: which parts may sort what they found; everything else must come
    in the order of its index."""

    values: dict[str, Any]
    finds: set[str]
    sorts: frozenset[str] = frozenset()
    may: frozenset[str] = frozenset()


_OWN_LEASE: Final = frozenset({"worker_leases(worker)", "every row of worker_leases"})
"""One row per worker: few enough to be read whole."""


def _claim(ready: str) -> Call:
    # What is due or lost is little and is sorted; so is the choice among the three. What is ready may be everything.
    ways = {ready, "heads_due(wake_at)", "heads_leased()"}
    return Call(_CLAIM, ways, frozenset({"due", "lost", ""}), may=_OWN_LEASE)


def _claim_at_once(ready: str) -> Call:
    mine = {
        "token": "new",
        "worker": "worker",
        "most": 5,
        "ttl_us": 30_000_000,
        "lost_body": b"{}",
        "lost_digest": _HASH,
    }
    ways = {
        ready,
        "heads_due(wake_at)",
        "heads_leased()",
        "heads_leased(lease_owner)",
        "heads_leased(lease_owner, lease_token)",
        "job_heads(job_id)",
        "events(job_id, seq)",
        "blobs(namespace, digest)",
    }
    return Call(_CLAIM | _EVENT | mine, ways, frozenset({"due", "lost", "chosen"}), may=_OWN_LEASE)


_UNCLAIMED: Final = {"unclaimed_us": 60_000_000}


def _needing_person(calls: str, asking: str) -> Call:
    """The list of what needs a person: the jobs that are over are never walked along, nor what they once asked."""
    return Call(
        {"namespace": crowd.NAMESPACE, "reasons": ["approval", "drift"], "after": "", "limit": 1_000}
        | _UNCLAIMED,
        {
            "heads_held(wait_reason, job_id)",
            calls,
            "job_heads(job_id)",
            "heads_leased()",
            asking,
            "heads_suspect()",
            "events(job_id, seq)",
        },
        frozenset({""}),
    )


HOT: Final = {
    "advance_head": Call(_APPEND, {"job_heads(job_id)"}),
    "release_head": Call(
        _APPEND
        | {
            "failed": 0,
            "anew": 0,
            "taken_over": 0,
            "status": "completed",
            "wait_reason": None,
            "wake_at": None,
            "requeues": 0,
        }
        | {"ready_at": None, "in_no_line": 0},
        {"job_heads(job_id)"},
    ),
    "renew_lease": Call(_APPEND | {"ttl_us": 30_000_000}, {"job_heads(job_id)"}),
    "lock_expired_heads": Call({"limit": 1000}, {"heads_leased()"}, frozenset({""})),
    "move_heads_alike": Call(_SWEPT | {"job_ids": _HOLDS["job_ids"]}, {"job_heads(job_id)"}),
    "insert_equal_events": Call(_EVENT | {"job_ids": _HOLDS["job_ids"]}, {"job_heads(job_id)"}),
    "list_heads_by_token": Call(
        {"token": crowd.token(7), "worker": "worker"}, {"heads_leased(lease_owner, lease_token)"}
    ),
    "count_held_jobs": Call({"worker": "worker"}, {"heads_leased(lease_owner)"}),
    "select_jobs_by_priority": _claim("heads_by_priority()"),
    "select_jobs_by_age": _claim("heads_by_age(ready_at)"),
    "select_own_jobs": Call(
        _CLAIM | {"roots": _HOLDS["job_ids"], "ahead_us": 2_000_000},
        {
            "jobs(job_id)",
            "jobs_by_parent(parent_job_id)",
            "job_heads(job_id)",
            "heads_session_live(namespace, session_id)",
        },
        frozenset({""}),
        may=frozenset({"own()", "ahead()", "heads_session_behind(job_id)"}) | _OWN_LEASE,
    ),
    "load_journal": Call(
        {"job_id": _JOB, "after": 1, "limit": 100},
        {"events(job_id, seq)", "job_heads(job_id)", "blobs(namespace, digest)"},
    ),
    "load_journal_ends": Call(
        {"job_id": _JOB, "last": 16},
        {"events(job_id, seq)", "job_heads(job_id)", "blobs(namespace, digest)"},
    ),
    "get_head_with_events": Call(
        {"job_id": _JOB, "events": 16},
        {"events(job_id, seq)", "job_heads(job_id)", "blobs(namespace, digest)"},
    ),
    "find_last_commit": Call({"job_id": _JOB}, {"events(job_id)"}),
    "append_passage": Call(
        {name: _APPEND[name] for name in ("job_id", "fence", "lease_token")}
        | {"last": 1, "chunks": 1, "voices": "[]", "body": b"[]"},
        {"job_heads(job_id)"},
        may=frozenset({"holder()"}),
    ),
    "list_passages": Call(
        {"job_id": _JOB, "fence": 2**32 + 1, "last": 7, "limit": 100},
        {"stream_passages(job_id, fence, last)"},
    ),
    "list_claimable_batches": Call(_SESSION, {"batches_queued(namespace, session_id)"}),
    "load_path": Call(
        _SESSION | {"leaf_node_id": "node-01999"},
        {"session_nodes(namespace, session_id, node_id)", "blobs(namespace, digest)"},
    ),
    "find_api_key": Call({"key_id": "key-00007"}, {"api_keys(key_id)"}),
    "has_api_key": Call({}, {"api_keys()"}),
    "find_act": Call({"namespace": crowd.NAMESPACE, "act_id": "act-7"}, {"audit_acts(namespace, act_id)"}),
    "list_acts": Call(
        {"namespace": crowd.NAMESPACE, "after": 2_900, "limit": 50}, {"audit_acts(namespace, seq)"}
    ),
    "find_call_by_key": Call({"idempotency_key": "idempotency-7"}, {"tool_calls(idempotency_key)"}),
    "find_budgets": Call(
        {"budget_ids": [crowd.job_id(n) for n in range(3)]}, {"budgets(budget_id)"}, frozenset({""})
    ),
    "charge_budget": Call(
        {"budget_id": _JOB, "usd_micros": 1, "tokens": 1, "tool_calls": 1}, {"budgets(budget_id)"}
    ),
    "list_jobs": Call(
        _FILTERS
        | {"since": 0, "before_at": crowd.NOW + 3_000, "before_id": crowd.job_id(3_000), "limit": 101},
        {"jobs_by_age(created_at)", "job_heads(job_id)", "events(job_id, seq)"},
    ),
    "list_jobs_among": Call(
        _FILTERS
        | {
            "job_ids": [crowd.job_id(n) for n in HELD],
            "since": 0,
            "before_at": 2**63 - 1,
            "before_id": "",
            "limit": 101,
        },
        {"jobs(job_id)", "job_heads(job_id)", "events(job_id, seq)"},
        frozenset({""}),
    ),
    "list_unfinished_job_ids": Call(
        {"pending": 1, "running": 1, "reasons": ["timer", "approval"], "limit": 2_001},
        {"heads_by_age()", "heads_leased()", "heads_held(wait_reason)"},
    ),
    "list_jobs_needing_person": _needing_person("calls_open(status, job_id)", "events_asking(job_id, type)"),
    "list_session_job_ids": Call(_SESSION | {"limit": 2_001}, {"jobs_by_session(namespace, session_id)"}),
    "list_child_job_ids": Call({"parent_job_id": _JOB, "limit": 2_001}, {"jobs_by_parent(parent_job_id)"}),
    "count_unfinished_jobs": Call({}, {"heads_by_age()", "heads_leased()", "heads_held()"}, frozenset({""})),
    "read_store_stats": Call(
        _UNCLAIMED,
        {
            "heads_by_age(ready_at)",
            "heads_leased()",
            "calls_open(status)",
            "cache_by_expiry(expires_at)",
            "heads_suspect()",
            "events(job_id, seq)",
        },
    ),
}

HOT_ON_POSTGRES: Final = HOT | {
    # A walk that leaves out what is not ready yet, which SQLite reads and drops.
    "select_jobs_by_priority": _claim("heads_by_priority(ready_at)"),
    # Most of the crowd is pending, and nobody has kept an answer: reading all of that is right.
    "count_unfinished_jobs": Call(
        {}, {"heads_leased()", "heads_held()"}, frozenset({""}), may=frozenset({"every row of job_heads"})
    ),
    "list_unfinished_job_ids": Call(
        HOT["list_unfinished_job_ids"].values,
        {"heads_leased()", "heads_held(wait_reason)"},
        may=frozenset({"every row of job_heads", "heads_by_age()", "heads_by_priority()"}),
    ),
    # What is rare is looked up by its first column, and the few rows are filtered.
    "list_jobs_needing_person": _needing_person("calls_open(status)", "events_asking(job_id)"),
    "read_store_stats": Call(
        _UNCLAIMED,
        {
            "heads_by_age(ready_at)",
            "heads_leased()",
            "calls_open(status)",
            "heads_suspect()",
            "events(job_id, seq)",
        },
        may=frozenset({"every row of cache_entries", "cache_by_expiry(expires_at)"}),
    ),
    "claim_jobs_by_priority": _claim_at_once("heads_by_priority(ready_at)"),
    "claim_jobs_by_age": _claim_at_once("heads_by_age(ready_at)"),
    "append_event": Call(_APPEND | _EVENT, {"job_heads(job_id)"}),
    "append_events": Call(_STEPS, {"job_heads(job_id)"}, frozenset({"locked"})),
    "append_events_and_moves": Call(_BATCH, {"job_heads(job_id)", "timers(job_id)"}, frozenset({"locked"})),
    "write_equal_rulings": Call(
        {name: [value] for name, value in (_SWEPT | _EVENT).items()}
        | {"each_job_id": _HOLDS["job_ids"], "each_outcome": _each(1), "each_fact": _each(1)}
        | {"hashes": _HASH * len(HELD), "at": crowd.NOW},
        {"job_heads(job_id)"},
    ),
    "renew_leases": Call(_HOLDS | {"ttl_us": 30_000_000}, {"job_heads(job_id)"}, frozenset({"locked"})),
}

POINTS: Final = (
    "advance_head",
    "release_head",
    "append_event",
    "append_events",
    "append_events_and_moves",
    "renew_lease",
    "renew_leases",
    "list_heads_by_token",
    "load_journal",
    "load_journal_ends",
    "get_head_with_events",
    "find_call_by_key",
    "find_budgets",
    "charge_budget",
)
"""Those that must be right from the first row on. A claim sorts until Postgres knows that there is much to sort."""
