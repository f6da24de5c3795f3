"""Every metric there is. docs/operating/metrics.md says the same; a test compares them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Metric(msgspec.Struct, frozen=True):
    """`name` is as it is written in a rule, without what Prometheus adds to a histogram."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = QUICK


# ── what this process did ─────────────────────────────────────────────────────────────────────────

COMMITS: Final = Metric(
    "counter", "holdfast_commits_total", "Trips to the disk, by how they ended.", ("outcome",)
)
COMMIT_SECONDS: Final = Metric("histogram", "holdfast_commit_seconds", "How long a trip to the disk took.")
APPENDS: Final = Metric("counter", "holdfast_appends_total", "Appends of jobs; many share a commit.")
EVENTS: Final = Metric(
    "counter",
    "holdfast_events_total",
    "Facts that were written, by type: ends, checkpoints, calls.",
    ("type",),
)
REFUSED: Final = Metric(
    "counter",
    "holdfast_store_refused_total",
    "What the store said no to: fenced is a lost lease, store_busy a lock that was not free in time.",
    ("code",),
)
UNPROVEN: Final = Metric(
    "counter", "holdfast_unproven_total", "Checkpoints whose evidence did not hold when it was looked at."
)
CLAIMS: Final = Metric(
    "counter", "holdfast_claims_total", "Claims that were granted something, or not.", ("outcome",)
)
ACQUIRED: Final = Metric(
    "counter",
    "holdfast_leases_acquired_total",
    "Leases that were had: of jobs given back, or taken over.",
    ("how",),
)
EXPIRED: Final = Metric(
    "counter",
    "holdfast_leases_expired_total",
    "Leases that ran out unreturned, as claims and sweeps found them.",
)
LEASE_SECONDS: Final = Metric(
    "histogram", "holdfast_lease_seconds", "How long a lease was held.", buckets=SLOW
)
ATTEMPTS: Final = Metric(
    "counter",
    "holdfast_attempts_total",
    "Runs of jobs, by the status they ended in; lost means that somebody else had the job.",
    ("outcome",),
)
JOBS_STALLED: Final = Metric(
    "counter",
    "holdfast_jobs_stalled_total",
    "Jobs that were held because their code made no progress for ten minutes.",
)
SUSPECTS: Final = Metric(
    "counter",
    "holdfast_suspects_total",
    "Jobs that ran alone in a child process because their workers had died: started, cleared or convicted.",
    ("outcome",),
)
SWEEPS: Final = Metric("counter", "holdfast_sweeps_total", "Sweeps that this process made.")
SWEEP_SECONDS: Final = Metric("histogram", "holdfast_sweep_seconds", "How long a sweep took.", buckets=SLOW)
SWEEP_ERRORS: Final = Metric(
    "counter", "holdfast_sweep_errors_total", "Sweeps that the store did not let finish."
)
RECOVERED: Final = Metric(
    "counter", "holdfast_sweep_recovered_total", "Jobs that sweeps put back into their queues."
)
BURIED: Final = Metric(
    "counter", "holdfast_sweep_dead_letters_total", "Jobs that sweeps held as dead letters."
)
LAST_SWEEP: Final = Metric(
    "gauge", "holdfast_last_sweep_timestamp_seconds", "When this process swept last; 0 if never."
)
REPLAYED: Final = Metric(
    "counter", "holdfast_replayed_total", "Recorded calls that were handed back, not made."
)
CALLS: Final = Metric(
    "counter", "holdfast_calls_total", "Calls that were really made, by tool.", ("tool", "effect", "outcome")
)
CALL_SECONDS: Final = Metric(
    "histogram", "holdfast_call_seconds", "How long a call took.", ("effect",), buckets=SLOW
)
MODEL_CALLS: Final = Metric(
    "counter",
    "holdfast_model_calls_total",
    "Requests to models: answered, refused, asked again, given up, or answered from the cache.",
    ("model", "outcome"),
)
MODEL_SECONDS: Final = Metric(
    "histogram", "holdfast_model_seconds", "How long a model took to answer.", ("model",), buckets=SLOW
)
MODEL_TOKENS: Final = Metric(
    "counter", "holdfast_model_tokens_total", "Tokens that models read and wrote.", ("model", "direction")
)
MODEL_USD: Final = Metric(
    "counter",
    "holdfast_model_usd_total",
    "What models cost, in dollars, where the price is known.",
    ("model",),
)
CACHE: Final = Metric(
    "counter",
    "holdfast_cache_requests_total",
    "The cache of answers was asked, and had it or not.",
    ("outcome",),
)
HTTP: Final = Metric(
    "counter", "holdfast_http_requests_total", "Requests, by route and status.", ("method", "route", "status")
)
HTTP_SECONDS: Final = Metric(
    "histogram", "holdfast_http_seconds", "How long it took until the answer began.", ("route",)
)
HTTP_REFUSED: Final = Metric(
    "counter",
    "holdfast_http_refused_total",
    "Requests that were answered with a problem, by its code.",
    ("code",),
)
ADMISSION: Final = Metric(
    "counter",
    "holdfast_admission_refused_total",
    "Requests that were told to come later (429), by code.",
    ("code",),
)
LOOP_DELAY: Final = Metric(
    "histogram",
    "holdfast_event_loop_delay_seconds",
    "How much later than asked for the event loop came back.",
)

# ── how the store is ──────────────────────────────────────────────────────────────────────────────

INFO: Final = Metric("gauge", "holdfast_info", "Always 1: which version, on which tier.", ("version", "tier"))
STORE_UP: Final = Metric("gauge", "holdfast_store_up", "1 if the store answered the last look, else 0.")
NATS_UP: Final = Metric(
    "gauge",
    "holdfast_nats_up",
    "1 if NATS is connected and its agents are listed as they are, else 0. Of servers that have one.",
)
JOBS: Final = Metric(
    "gauge", "holdfast_jobs", "Jobs that are not over, by where they stand.", ("queue", "status", "reason")
)
OLDEST: Final = Metric(
    "gauge",
    "holdfast_oldest_ready_seconds",
    "How long the oldest job that could run has waited for a worker.",
)
DEAD: Final = Metric("gauge", "holdfast_dead_letters", "Jobs that are held as dead letters.")
STALLED: Final = Metric(
    "gauge",
    "holdfast_stalled_jobs",
    "Jobs that are held because their code made no progress: a person decides.",
)
UNCERTAIN: Final = Metric(
    "gauge",
    "holdfast_uncertain_calls",
    "Calls of which nobody knows whether they happened: a person is asked.",
)
OVER: Final = Metric("gauge", "holdfast_expired_leases", "Running jobs whose lease is over right now.")
TAKEOVERS: Final = Metric(
    "gauge",
    "holdfast_job_takeovers_max",
    "The most takeovers without progress that any open job has behind it.",
)
CACHED: Final = Metric("gauge", "holdfast_cache_entries", "Answers that are kept.", ("state",))
DATABASE: Final = Metric("gauge", "holdfast_database_bytes", "The size of the database.")
WAL: Final = Metric("gauge", "holdfast_wal_bytes", "The size of SQLite's log beside its file.")
DISK: Final = Metric(
    "gauge", "holdfast_disk_free_ratio", "The free part of the disk under a SQLite file, from 0 to 1."
)
CLOCK: Final = Metric(
    "gauge", "holdfast_clock_offset_seconds", "How far store time is ahead of this host's clock."
)
BACKUP: Final = Metric(
    "gauge", "holdfast_backup_age_seconds", "How old the last backup is that this store knows of."
)
LOOK_SECONDS: Final = Metric("gauge", "holdfast_vitals_seconds", "How long the last look at the store took.")

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
