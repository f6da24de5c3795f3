"""Evidence, as people with a loop of their own write it; the looking is `holdfast.engine.evidence`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.engine.evidence import Check as Check
from holdfast.engine.evidence import Looker
from holdfast.errors import InvalidPayload
from holdfast.model import evidence as model
from holdfast.model.evidence import EvidenceVerdict, Result

_NOTED: Final = ("observed", "actual_exit_code", "actual", "exit_code", "returncode")
"""Where people note the code that a command really ended with."""


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
    """One claim. `expected` says what must be so; `metadata` what is known about it."""

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
        self.claim()  # what cannot be checked is refused where it is written, not at the next resume

    def claim(self) -> model.Evidence:
        """The claim as the model has it; InvalidPayload names what is missing."""
        expected, metadata = self.expected or {}, self.metadata or {}
        given: dict[str, Any] = {"evidence_type": str(self.evidence_type), "description": self.description}
        match self.evidence_type:
            case EvidenceType.ARTIFACT_EXISTS:
                given |= {"path": expected.get("path"), "kind": expected.get("type", "any")}
            case EvidenceType.FILE_SHA256:
                given |= {"path": expected.get("path"), "sha256": expected.get("sha256")}
            case EvidenceType.COMMAND_EXIT:
                noted = next((metadata[name] for name in _NOTED if name in metadata), None)
                given |= {"exit_code": expected.get("exit_code", 0), "observed": noted}
                given["command"] = str(metadata.get("command", ""))
            case EvidenceType.DB_ROW:
                given |= {name: expected[name] for name in ("table", "where", "values") if name in expected}
                given["db_path"] = metadata.get("db_path")
            case _:
                given |= {"name": metadata.get("name") or expected.get("name"), "expected": expected}
        try:
            claim: model.Evidence = msgspec.convert(given, _CLAIMS[self.evidence_type])
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
    """The evidence of one checkpoint, and how much of it is needed. One without evidence claims nothing, and holds."""

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
        """What the findings add up to."""
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


def pack_from_dict(told: Mapping[str, Any]) -> EvidencePack:
    """The pack that `to_dict` wrote, nothing verified yet."""
    pieces = [
        Evidence(one["evidence_type"], one["description"], one["expected"], one["metadata"])
        for one in told.get("evidence_list", ())
    ]
    return EvidencePack(pieces, told["require_all"], told["allow_partial"], told["min_verified"])


class EvidenceVerifier:
    """Looks at the world. Relative paths start at `base_path`; `own_file` is the store's SQLite file, if it has one."""

    def __init__(
        self,
        base_path: str | Path | None = None,
        *,
        checks: Mapping[str, Check] | None = None,
        own_file: Path | None = None,
    ) -> None:
        base = Path.cwd() if base_path is None else Path(base_path)
        self._looker = Looker(base, checks=checks, own_file=own_file)

    @property
    def base_path(self) -> Path:
        return self._looker.base_path

    @property
    def checks(self) -> dict[str, Check]:
        return self._looker.checks

    def verify(self, evidence: Evidence) -> bool:
        """Whether it is so; the evidence itself says why, if it is not."""
        self._look(evidence, evidence.claim())
        return evidence.is_verified

    verify_evidence = verify

    def verify_pack(self, pack: EvidencePack) -> EvidenceVerdict:
        """Every piece is looked at; what they add up to."""
        rules = pack.rules()
        found = [
            self._look(evidence, claim)
            for evidence, claim in zip(pack.evidence_list, rules.evidence, strict=True)
        ]
        return rules.judge(found)

    def _look(self, evidence: Evidence, claim: model.Evidence) -> Result:
        result = self._looker.look(claim)
        evidence.verification_status = VerificationStatus(result.finding)
        evidence.verification_error = result.reason or None
        return result
