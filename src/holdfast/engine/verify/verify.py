"""Verification of a whole store, in one read snapshot while it is in use."""

from __future__ import annotations

from typing import Final, Protocol

from holdfast.engine.verify import content_checks, journal_checks
from holdfast.engine.verify.audit_checks import check_audit_log
from holdfast.engine.verify.journal_checks import JournalLimits
from holdfast.engine.verify.report import VerifyReport, Violation
from holdfast.engine.verify.row_checks import BY_QUERY, check_rows
from holdfast.store.executor import Transaction
from holdfast.store.ports.inspection import Inspection

BY_READING = 26
"""The number of checks that are not one query: journals I1 to I3, I6, I7, I8 (head, ledger, timers, accounts), I10,
I12 to I16, I26 to I30; content I22, I23, I33 (bytes, states); the audit log I6; the engine's own files I36."""

UNLIMITED: Final = JournalLimits()


class Inspectable(Protocol):
    @property
    def inspection(self) -> Inspection: ...


async def verify(store: Inspectable, limits: JournalLimits = UNLIMITED) -> VerifyReport:
    """Checks every invariant on one snapshot of the store; changes nothing, and does not block writers."""
    of_journals, of_content = journal_checks.JournalCounts(), content_checks.ContentCounts()

    async def work(tx: Transaction) -> list[Violation]:
        return [
            *await check_rows(tx),
            *await journal_checks.check_journals(tx, of_journals, limits),
            *await content_checks.check_content(tx, of_content),
            *await check_audit_log(tx),
        ]

    violations = await store.inspection.inspect(work)
    damage = [Violation("I36", "engine", line) for line in await store.inspection.engine_integrity()]
    return VerifyReport(
        checks=len(BY_QUERY) + BY_READING,
        jobs=of_journals.jobs,
        events=of_journals.events,
        sessions=of_content.sessions,
        blobs=of_content.blobs,
        violations=tuple(violations + damage),
        unread=of_journals.unread + of_content.unread,
    )
