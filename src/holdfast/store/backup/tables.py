"""The tables of a backup: every table, parents before children."""

from __future__ import annotations

from typing import Final

TABLES: Final = (
    "store_state",
    "namespaces",
    "blobs",
    "jobs",
    "job_heads",
    "events",
    "mail",
    "timers",
    "tool_calls",
    "sessions",
    "session_handles",
    "session_nodes",
    "session_frames",
    "session_usage",
    "turns",
    "inbox_batches",
    "inbox_items",
    "attachments",
    "cache_entries",
    "metadata",
    "tombstones",
    "stream_passages",
    "budgets",
    "agents",
    "schedules",
    "queue_limits",
    "api_keys",
    "audit_heads",
    "audit_acts",
    "worker_presences",
    "worker_leases",
    "work_items",
    "agent_entries",
)
"""A test keeps this equal to the schema."""

ROWS_AT_ONCE: Final = 500
