"""Evidence: conditions in the outside world that must hold for a checkpoint to count, stored as data.

A checkpoint says "I got this far"; evidence lets another process verify that after a crash. This module defines the
kinds of evidence and how single findings add up to a verdict. The verifiers, which read files and tables, are
elsewhere, because that is I/O.

    pack     require_all      every piece must be verified (the default, and stronger than the other settings)
             allow_partial    without require_all: pieces that failed do not matter
             min_verified     without require_all: at least so many must be verified, and never fewer than one

Without require_all and without allow_partial no piece may have failed, but some may still be pending. A pack without
evidence holds: it claims nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.errors import InvalidPayload, InvalidSetting, Misuse
from holdfast.model import canonical
from holdfast.model.ids import check_name
from holdfast.model.limits import EVIDENCE_PER_PACK_MAX

Finding: TypeAlias = Literal["verified", "failed", "pending"]

_SHA256: Final = re.compile("[0-9a-fA-F]{64}")


class _Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="evidence_type"):
    """Base of every kind of evidence."""


class ArtifactExists(_Claim, frozen=True, tag="artifact_exists"):
    """A file or directory exists. A relative path starts at the verifier's base path."""

    path: str
    kind: Literal["file", "directory", "any"] = "any"
    description: str = ""

    def __post_init__(self) -> None:
        _check_path(self.path)


class FileSha256(_Claim, frozen=True, tag="file_sha256"):
    """A file exists and its bytes have this SHA-256, in hexadecimal."""

    path: str
    sha256: str
    description: str = ""

    def __post_init__(self) -> None:
        _check_path(self.path)
        if _SHA256.fullmatch(self.sha256) is None:
            raise InvalidPayload(
                "sha256 is not 64 hexadecimal digits", hint="Pass hashlib.sha256(data).hexdigest()."
            )


class CommandExit(_Claim, frozen=True, tag="command_exit"):
    """A command ended with this exit code.

    Verification does not run the command again. `observed` is the code that it ended with, recorded when it ran; while
    it is None there is nothing to compare and the finding stays pending.
    """

    exit_code: int = 0
    observed: int | None = None
    command: str = ""
    description: str = ""


class DbRow(_Claim, frozen=True, tag="db_row"):
    """A row with these columns exists and has these values.

    Without `db_path` the verifier looks in its own database.
    """

    table: str
    where: dict[str, Any]
    values: dict[str, Any] = {}
    db_path: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        check_name(self.table, "table")
        if not self.where:
            raise InvalidPayload(
                "db_row needs a condition", hint="Name the columns that identify the row in `where`."
            )
        canonical.encode([self.where, self.values])


class Custom(_Claim, frozen=True, tag="custom"):
    """A condition that only a verifier registered under `name` can check."""

    name: str
    expected: Any = None
    description: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "evidence name")
        canonical.encode(self.expected)


Evidence: TypeAlias = ArtifactExists | FileSha256 | CommandExit | DbRow | Custom


class Result(msgspec.Struct, frozen=True):
    """The finding of a verifier on one piece of evidence, and the reason if it is not verified."""

    finding: Finding
    reason: str = ""


class EvidenceVerdict(msgspec.Struct, frozen=True):
    """Whether a pack holds, and the figures behind it."""

    holds: bool
    total: int
    verified: int
    failed: int
    pending: int

    def summary(self) -> dict[str, int]:
        return {
            "total": self.total,
            "verified": self.verified,
            "failed": self.failed,
            "pending": self.pending,
        }


class EvidenceSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The evidence of one checkpoint and how much of it is required."""

    evidence: tuple[Evidence, ...] = ()
    require_all: bool = True
    allow_partial: bool = False
    min_verified: int = 0

    def __post_init__(self) -> None:
        if len(self.evidence) > EVIDENCE_PER_PACK_MAX:
            raise InvalidSetting(
                f"{len(self.evidence)} pieces of evidence, more than {EVIDENCE_PER_PACK_MAX}",
                hint="Checkpoint more often, or prove a manifest of files instead of each file.",
            )
        if not 0 <= self.min_verified <= len(self.evidence):
            raise InvalidSetting(
                f"min_verified is {self.min_verified} for {len(self.evidence)} pieces of evidence",
                hint="Ask for no more than there is.",
            )

    def judge(self, results: Sequence[Result]) -> EvidenceVerdict:
        """Return the verdict on findings in the order of the evidence, one for each."""
        if len(results) != len(self.evidence):
            raise Misuse(f"{len(results)} results for {len(self.evidence)} pieces of evidence")
        verified, failed, pending = (_count(results, status) for status in ("verified", "failed", "pending"))
        return EvidenceVerdict(self._holds(verified, failed), len(results), verified, failed, pending)

    def _holds(self, verified: int, failed: int) -> bool:
        if self.require_all or not self.evidence:
            return verified == len(self.evidence)
        enough = verified >= max(1, self.min_verified)
        return enough and (self.allow_partial or failed == 0)


Inspector: TypeAlias = Callable[[EvidenceSet], Awaitable[Sequence[Result]]]
"""Verifies evidence in the outside world: one finding for each piece of evidence, in order."""


def pack_to_json(pack: EvidenceSet) -> dict[str, Any]:
    """Return the pack as plain JSON."""
    plain: dict[str, Any] = canonical.decode(canonical.encode(msgspec.to_builtins(pack)))
    return plain


def pack_from_json(value: object) -> EvidenceSet:
    """Return the pack that `pack_to_json` wrote; unknown types and fields are rejected."""
    try:
        return msgspec.convert(value, EvidenceSet)
    except msgspec.ValidationError as error:
        raise InvalidPayload(f"not an evidence pack: {error}") from None


def _count(results: Iterable[Result], finding: str) -> int:
    return sum(result.finding == finding for result in results)


def _check_path(path: str) -> None:
    if not path or "\0" in path:
        raise InvalidPayload("a path is empty or has a NUL", hint="Name the file that the step has written.")
