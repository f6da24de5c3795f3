"""Evidence in the form that kit users write; `holdfast.engine.evidence` verifies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine.evidence import Check as Check
from holdfast.engine.evidence import EvidenceChecker
from holdfast.errors import InvalidPayload
from holdfast.model import evidence as model
from holdfast.model.evidence import EvidenceVerdict, Result

_NOTED: Final = ("observed", "actual_exit_code", "actual", "exit_code", "returncode")
"""Keys under which users record the exit code that a command ended with."""


class EvidenceType(StrEnum):
    ARTIFACT_EXISTS = "artifact_exists"
    FILE_SHA256 = "file_sha256"
    COMMAND_EXIT = "command_exit"
    DB_ROW = "db_row"
    CUSTOM = "custom"


class VerificationStatus(StrEnum):
    VERIFIED = "verified"
    FAILED = "failed"
    PENDING = "pending"


_CLAIMS: Final[Mapping[str, type[model.Evidence]]] = {
    EvidenceType.ARTIFACT_EXISTS: model.ArtifactExists,
    EvidenceType.FILE_SHA256: model.FileSha256,
    EvidenceType.COMMAND_EXIT: model.CommandExit,
    EvidenceType.DB_ROW: model.DbRow,
    EvidenceType.CUSTOM: model.Custom,
}


@dataclass
class Evidence:
    """One piece of evidence. `expected` says what must hold; `metadata` holds further details."""

    evidence_type: EvidenceType | str
    description: str = ""
    expected: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    verification_status: VerificationStatus = VerificationStatus.PENDING
    verification_error: str | None = None

    def __post_init__(self) -> None:
        try:
            self.evidence_type = EvidenceType(self.evidence_type)
        except ValueError:
            msg = f"{self.evidence_type!r} is not a type of evidence"
            raise InvalidPayload(msg, hint=f"Use one of {', '.join(EvidenceType)}.") from None
        self.claim()  # invalid evidence is rejected where it is written, not at the next resume

    def claim(self) -> model.Evidence:
        """The evidence as the model defines it; raises InvalidPayload that names what is missing."""
        expected, metadata = self.expected or {}, self.metadata or {}
        fields: dict[str, Any] = {"evidence_type": str(self.evidence_type), "description": self.description}
        match self.evidence_type:
            case EvidenceType.ARTIFACT_EXISTS:
                fields |= {"path": expected.get("path"), "kind": expected.get("type", "any")}
            case EvidenceType.FILE_SHA256:
                fields |= {"path": expected.get("path"), "sha256": expected.get("sha256")}
            case EvidenceType.COMMAND_EXIT:
                noted = next((metadata[name] for name in _NOTED if name in metadata), None)
                fields |= {"exit_code": expected.get("exit_code", 0), "observed": noted}
                fields["command"] = str(metadata.get("command", ""))
            case EvidenceType.DB_ROW:
                fields |= {name: expected[name] for name in ("table", "where", "values") if name in expected}
                fields["db_path"] = metadata.get("db_path")
            case _:
                fields |= {"name": metadata.get("name") or expected.get("name"), "expected": expected}
        try:
            claim: model.Evidence = msgspec.convert(fields, _CLAIMS[self.evidence_type])
        except msgspec.ValidationError as error:
            msg = f"{self.evidence_type} evidence: {error}"
            raise InvalidPayload(msg, hint="See docs/kit.md for what each type expects.") from None
        return claim

    @property
    def is_verified(self) -> bool:
        return self.verification_status is VerificationStatus.VERIFIED

    def to_dict(self) -> dict[str, Any]:
        return {
            "evidence_type": str(self.evidence_type),
            "description": self.description,
            "expected": self.expected,
            "metadata": self.metadata,
            "verification_status": str(self.verification_status),
            "verification_error": self.verification_error,
        }


@dataclass
class EvidencePack:
    """The evidence of one checkpoint, and how much of it is required. A pack without evidence claims nothing, and
    holds."""

    evidence_list: list[Evidence] = field(default_factory=list)
    require_all: bool = True
    allow_partial: bool = False
    min_verified: int = 0

    def __post_init__(self) -> None:
        self.rules()

    def rules(self) -> model.EvidenceSet:
        claims = tuple(evidence.claim() for evidence in self.evidence_list)
        return model.EvidenceSet(claims, self.require_all, self.allow_partial, self.min_verified)

    def verdict(self) -> EvidenceVerdict:
        """The verdict on the findings."""
        found = [Result(evidence.verification_status.value) for evidence in self.evidence_list]
        return self.rules().judge(found)

    def is_verified(self) -> bool:
        return self.verdict().holds

    def get_verification_summary(self) -> dict[str, int]:
        return self.verdict().summary()

    summary = get_verification_summary

    def to_dict(self) -> dict[str, Any]:
        return {
            "evidence_list": [evidence.to_dict() for evidence in self.evidence_list],
            "require_all": self.require_all,
            "allow_partial": self.allow_partial,
            "min_verified": self.min_verified,
        }


def pack_from_dict(document: Mapping[str, Any]) -> EvidencePack:
    """The pack that `to_dict` wrote, with no piece verified yet."""
    pieces = [
        Evidence(piece["evidence_type"], piece["description"], piece["expected"], piece["metadata"])
        for piece in document.get("evidence_list", ())
    ]
    return EvidencePack(pieces, document["require_all"], document["allow_partial"], document["min_verified"])


class EvidenceVerifier:
    """Verifies evidence. Relative paths start at `base_path`; `own_file` is the store's SQLite file, if it has one."""

    def __init__(
        self,
        base_path: str | Path | None = None,
        *,
        checks: Mapping[str, Check] | None = None,
        own_file: Path | None = None,
    ) -> None:
        base = Path.cwd() if base_path is None else Path(base_path)
        self._checker = EvidenceChecker(base, checks=checks, own_file=own_file)

    @property
    def base_path(self) -> Path:
        return self._checker.base_path

    @property
    def checks(self) -> dict[str, Check]:
        return self._checker.checks

    def verify(self, evidence: Evidence) -> bool:
        """Whether the evidence holds; if not, the evidence itself records why."""
        self._check(evidence, evidence.claim())
        return evidence.is_verified

    verify_evidence = verify

    def verify_pack(self, pack: EvidencePack) -> EvidenceVerdict:
        """Verify every piece; returns the verdict."""
        rules = pack.rules()
        found = [
            self._check(evidence, claim)
            for evidence, claim in zip(pack.evidence_list, rules.evidence, strict=True)
        ]
        return rules.judge(found)

    def _check(self, evidence: Evidence, claim: model.Evidence) -> Result:
        result = self._checker.check(claim)
        evidence.verification_status = VerificationStatus(result.finding)
        evidence.verification_error = result.reason or None
        return result
