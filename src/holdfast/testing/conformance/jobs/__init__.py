"""Jobs and everything around them: accepting, driving, writing, waking, settling, keeping."""

from __future__ import annotations

from typing import Final

from holdfast.testing.conformance.bench import Check, checks_in
from holdfast.testing.conformance.jobs import (
    access,
    budgets,
    caches,
    claims,
    extras,
    holds,
    hosted,
    journal,
    leases,
    ledger,
    lines,
    mail,
    moves,
    needs,
    payloads,
    presences,
    queues,
    refusals,
    schedules,
    shelves,
    streams,
    submit,
    sweeps,
    together,
    vitals,
    work,
)

JOBS: Final[tuple[Check, ...]] = checks_in(
    submit,
    lines,
    claims,
    leases,
    journal,
    moves,
    extras,
    holds,
    sweeps,
    mail,
    ledger,
    needs,
    payloads,
    refusals,
    shelves,
    caches,
    budgets,
    streams,
    together,
    hosted,
    schedules,
    queues,
    access,
    vitals,
    presences,
    work,
)
