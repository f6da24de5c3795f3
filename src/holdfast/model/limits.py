"""Limits: every bound of Holdfast in one place, so that nothing grows without a declared bound.

A limit is a promise in two directions: below it things work, above it the caller gets a typed error before anything is
written. Units come last in each name. Raising a limit is easy; lowering one breaks stored data, so each starts low.
"""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# ── payloads ──────────────────────────────────────────────────────────────────────────────────────

# A larger payload is stored once as a blob and referred to by digest. Small enough that a row of the
# journal stays within a few database pages, large enough that an ordinary tool result never pays for a second
# row.
PAYLOAD_INLINE_BYTES: Final = 8 * KIB

# One canonical JSON document: an argument list, a result, a state. The same as the largest request body, so
# whatever the API lets in can be stored. Anything larger is a file, and files are attachments.
JSON_BYTES_MAX: Final = 1 * MIB
LETTER_BYTES_MAX: Final = JSON_BYTES_MAX - 8 * KIB
"""A message to a job becomes an event of that job, which is JSON as well and has a few more fields."""

RESULT_BYTES_MAX: Final = LETTER_BYTES_MAX - 8 * KIB
"""Arguments and results are part of an event; the result of a child is also part of a message to its parent."""

# One blob or attachment. It must fit in memory several times over on a small machine: sent, hashed, stored.
BLOB_BYTES_MAX: Final = 64 * MIB

# Nesting. Far below the recursion limit of every parser that will ever read our exports.
JSON_DEPTH_MAX: Final = 64
LETTER_DEPTH_MAX: Final = JSON_DEPTH_MAX - 1
RESULT_DEPTH_MAX: Final = LETTER_DEPTH_MAX - 1

# Snapshot in a checkpoint of the journal before it. It is written again with every checkpoint.
CARRIED_BYTES_MAX: Final = 8 * KIB

# Integers. What a 64-bit column, a Go agent and a Rust tool can all hold; symmetric, so that negating stays
# inside.
INTEGER_MAX: Final = 2**63 - 1

# ── names ─────────────────────────────────────────────────────────────────────────────────────────

# Ids and keys people choose, in characters. Several of them together still fit in one index entry.
NAME_LENGTH_MAX: Final = 200

# A page cursor in characters. Holds three names of the longest kind and stays far below the header limit.
CURSOR_LENGTH_MAX: Final = 4096

# ── one job ───────────────────────────────────────────────────────────────────────────────────────

# Steps of one job between commits of its state. Replay walks all of them, so this bounds the time to resume.
JOB_STEPS_MAX: Final = 10_000

# Bytes of one job's journal, blobs not counted. Beyond it the job continues in a linked job.
JOURNAL_BYTES_MAX: Final = 50 * MIB

# Events in one append, and their bytes. An append is one transaction; a longer one would hold the writer's
# lock while hundreds of other jobs wait for theirs.
EVENTS_PER_APPEND_MAX: Final = 512
APPEND_BYTES_MAX: Final = 4 * MIB

# Nodes of one plan. A planner that writes more than this is looping.
PLAN_NODES_MAX: Final = 1_000

# Pieces of evidence on one checkpoint; each is verified on every resume.
EVIDENCE_PER_PACK_MAX: Final = 100

# Priorities, larger first. Ten steps: enough to rank, too few to encode a schedule in.
PRIORITY_MIN: Final = 1
PRIORITY_MAX: Final = 10
PRIORITY_DEFAULT: Final = 5

# Total attempts of a job or a call unless its author declares a number, and the most that may be declared.
ATTEMPTS_DEFAULT: Final = 3
ATTEMPTS_MAX: Final = 1_000

# ── time ──────────────────────────────────────────────────────────────────────────────────────────

# 9999-12-31T23:59:59.999999Z, the last instant that ISO 8601 can write with four digits for the year.
INSTANT_US_MAX: Final = 253_402_300_799_999_999

# A century. A longer sleep or timeout is a mistake in a unit.
DURATION_US_MAX: Final = 36_525 * 86_400 * 1_000_000

# The longest Retry-After that is honoured. A server that says "in ten years" must not park a job for ten
# years.
RETRY_AFTER_US_MAX: Final = 86_400 * 1_000_000

# ── the wire ──────────────────────────────────────────────────────────────────────────────────────

BODY_BYTES_MAX: Final = JSON_BYTES_MAX
HEADER_BYTES_MAX: Final = 16 * KIB

# Rows in one answer. A reader that wants more asks for the next page.
EVENTS_PER_PAGE_MAX: Final = 1_000
ROWS_PER_PAGE_MAX: Final = 1_000
ROWS_PER_PAGE_DEFAULT: Final = 100

# One chunk of a stream, and the part of a stream that is written in one row. A chunk is for people who watch;
# what is larger than this is a result.
CHUNK_BYTES_MAX: Final = 256 * KIB
PASSAGE_BYTES_MAX: Final = 8 * MIB

# Stream output that is not stored yet. Beyond the first limit code that emits has to wait; beyond the second the
# oldest output is dropped, and readers are told how much.
UNSAID_BYTES_FULL: Final = 1 * MIB
UNSAID_BYTES_MAX: Final = 4 * MIB

# Open event streams per API key. Each holds a connection and a cursor.
STREAMS_PER_KEY_MAX: Final = 100
