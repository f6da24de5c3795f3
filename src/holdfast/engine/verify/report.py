"""Report of a verification."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True):
    """A violation of an invariant: which one, where, and what is wrong there."""

    invariant: str
    subject: str
    detail: str


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    checks: int
    jobs: int
    events: int
    sessions: int
    blobs: int
    violations: tuple[Violation, ...]
    unread: int = 0
    """Payloads that are encrypted with keys that are not available: their digests were compared, not their content."""

    @property
    def clean(self) -> bool:
        return not self.violations
