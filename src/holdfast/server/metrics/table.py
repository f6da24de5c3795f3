"""The table of all metrics. docs/operating/metrics.md lists the same; a test compares them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class Metric(msgspec.Struct, frozen=True):
    """`name` is the name in a rule, without the suffixes that Prometheus adds to a histogram."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = QUICK


# ── activity of this process ──────────────────────────────────────────────────────────────────────

COMMITS: Final = Metric("counter", "holdfast_commits_total", "Commits, by outcome.", ("outcome",))
COMMIT_SECONDS: Final = Metric("histogram", "holdfast_commit_seconds", "Duration of a commit.")
APPENDS: Final = Metric(
    "counter", "holdfast_appends_total", "Appends to journals; many share a commit (group commit)."
)
EVENTS: Final = Metric(
    "counter",
    "holdfast_events_total",
    "Journal events written, by type.",
    ("type",),
)
REFUSED: Final = Metric(
    "counter",
    "holdfast_store_refused_total",
    "Operations that the store rejected, by code: fenced is a lost lease, store_busy a write lock not free in time.",
    ("code",),
)
UNPROVEN: Final = Metric("counter", "holdfast_unproven_total", "Checkpoints whose evidence did not verify.")
CLAIMS: Final = Metric(
    "counter", "holdfast_claims_total", "Claim requests, by whether they got a job.", ("outcome",)
)
ACQUIRED: Final = Metric(
    "counter",
    "holdfast_leases_acquired_total",
    "Leases acquired: of ready jobs, or by takeover.",
    ("how",),
)
EXPIRED: Final = Metric(
    "counter",
    "holdfast_leases_expired_total",
    "Leases that expired, as claims and sweeps found them.",
)
LEASE_SECONDS: Final = Metric(
    "histogram", "holdfast_lease_seconds", "Time that a lease was held.", buckets=SLOW
)
ATTEMPTS: Final = Metric(
    "counter",
    "holdfast_attempts_total",
    "Runs of jobs, by the status they ended in; lost: another worker had taken the job over.",
    ("outcome",),
)
JOBS_STALLED: Final = Metric(
    "counter",
    "holdfast_jobs_stalled_total",
    "Jobs held because their code made no progress for ten minutes.",
)
SUSPECTS: Final = Metric(
    "counter",
    "holdfast_suspects_total",
    "Jobs isolated in a child process because their workers had died: started, cleared or convicted.",
    ("outcome",),
)
SWEEPS: Final = Metric("counter", "holdfast_sweeps_total", "Recovery sweeps by this process.")
SWEEP_SECONDS: Final = Metric(
    "histogram", "holdfast_sweep_seconds", "Duration of a recovery sweep.", buckets=SLOW
)
SWEEP_ERRORS: Final = Metric("counter", "holdfast_sweep_errors_total", "Recovery sweeps that failed.")
RECOVERED: Final = Metric("counter", "holdfast_sweep_recovered_total", "Jobs that sweeps requeued.")
BURIED: Final = Metric(
    "counter", "holdfast_sweep_dead_letters_total", "Jobs that sweeps moved to the dead-letter queue."
)
LAST_SWEEP: Final = Metric(
    "gauge",
    "holdfast_last_sweep_timestamp_seconds",
    "Time of the last recovery sweep of this process; 0 if none.",
)
REPLAYED: Final = Metric(
    "counter", "holdfast_replayed_total", "Recorded calls that were replayed instead of made."
)
CALLS: Final = Metric(
    "counter",
    "holdfast_calls_total",
    "Calls of tools and steps that were made.",
    ("tool", "effect", "outcome"),
)
CALL_SECONDS: Final = Metric(
    "histogram", "holdfast_call_seconds", "Duration of a call.", ("effect",), buckets=SLOW
)
MODEL_CALLS: Final = Metric(
    "counter",
    "holdfast_model_calls_total",
    "Requests to models, by outcome: answered, refused, retried, given up, or from the response cache.",
    ("model", "outcome"),
)
MODEL_SECONDS: Final = Metric(
    "histogram", "holdfast_model_seconds", "Response time of a model.", ("model",), buckets=SLOW
)
MODEL_TOKENS: Final = Metric(
    "counter", "holdfast_model_tokens_total", "Input and output tokens of models.", ("model", "direction")
)
MODEL_USD: Final = Metric(
    "counter",
    "holdfast_model_usd_total",
    "Cost of models in dollars, where the price is known.",
    ("model",),
)
CACHE: Final = Metric(
    "counter",
    "holdfast_cache_requests_total",
    "Lookups in the response cache: hit or miss.",
    ("outcome",),
)
HTTP: Final = Metric(
    "counter",
    "holdfast_http_requests_total",
    "HTTP requests, by route and status.",
    ("method", "route", "status"),
)
HTTP_SECONDS: Final = Metric(
    "histogram", "holdfast_http_seconds", "Time until the HTTP response began.", ("route",)
)
HTTP_REFUSED: Final = Metric(
    "counter",
    "holdfast_http_refused_total",
    "HTTP requests answered with a problem, by its code.",
    ("code",),
)
ADMISSION: Final = Metric(
    "counter",
    "holdfast_admission_refused_total",
    "Requests rejected by admission control or rate limits (429), by code.",
    ("code",),
)
LOOP_DELAY: Final = Metric(
    "histogram",
    "holdfast_event_loop_delay_seconds",
    "Delay of the event loop beyond the requested time.",
)

# ── state of the store ────────────────────────────────────────────────────────────────────────────

INFO: Final = Metric(
    "gauge", "holdfast_info", "Always 1; labels: version, durability tier.", ("version", "tier")
)
STORE_UP: Final = Metric(
    "gauge", "holdfast_store_up", "1 if the store answered the last health check, else 0."
)
NATS_UP: Final = Metric(
    "gauge",
    "holdfast_nats_up",
    "1 if NATS is connected and its registry is current, else 0. Only on servers with NATS.",
)
JOBS: Final = Metric(
    "gauge",
    "holdfast_jobs",
    "Jobs that have not ended, by queue, status and wait reason.",
    ("queue", "status", "reason"),
)
OLDEST: Final = Metric(
    "gauge",
    "holdfast_oldest_ready_seconds",
    "Time that the oldest ready job has waited for a worker.",
)
DEAD: Final = Metric("gauge", "holdfast_dead_letters", "Jobs in the dead-letter queue.")
STALLED: Final = Metric(
    "gauge",
    "holdfast_stalled_jobs",
    "Jobs held for a person because their code made no progress.",
)
UNCERTAIN: Final = Metric(
    "gauge",
    "holdfast_uncertain_calls",
    "Calls of unknown outcome, which wait for a person.",
)
OVER: Final = Metric("gauge", "holdfast_expired_leases", "Running jobs whose lease has expired.")
TAKEOVERS: Final = Metric(
    "gauge",
    "holdfast_job_takeovers_max",
    "Most takeovers without progress of any open job.",
)
CACHED: Final = Metric("gauge", "holdfast_cache_entries", "Entries of the response cache.", ("state",))
DATABASE: Final = Metric("gauge", "holdfast_database_bytes", "Size of the database.")
WAL: Final = Metric("gauge", "holdfast_wal_bytes", "Size of SQLite's write-ahead log.")
DISK: Final = Metric(
    "gauge", "holdfast_disk_free_ratio", "Free part of the disk that holds a SQLite file, from 0 to 1."
)
CLOCK: Final = Metric("gauge", "holdfast_clock_offset_seconds", "Store time minus this host's clock.")
BACKUP: Final = Metric("gauge", "holdfast_backup_age_seconds", "Age of the last recorded backup.")
LOOK_SECONDS: Final = Metric(
    "gauge", "holdfast_vitals_seconds", "Duration of the last health check of the store."
)

METRICS: Final = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
