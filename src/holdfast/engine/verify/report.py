"""What a verification found."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True):
    """One broken promise: which, where, and what is wrong there."""

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
    """Payloads that are encrypted with keys that are not here: their digests were compared, not what they say."""

    @property
    def clean(self) -> bool:
        return not self.violations
