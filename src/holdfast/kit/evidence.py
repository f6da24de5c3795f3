"""Evidence, and looking whether it is true.

What can be claimed, and how findings add up, is `holdfast.model.evidence`; here are the classes that people write with,
and the looking: files are opened and read, hashes computed, exit codes compared, rows fetched. A finding is one of

    verified    looked, and it is so
    failed      looked, and it is not so
    pending     there is nothing to look at yet: an exit code that nobody noted, a check that is not registered
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from holdfast.errors import HoldfastError, InvalidPayload
from holdfast.model import evidence as model
from holdfast.model.evidence import Result, Verdict
from holdfast.store.sqlite.connection import connect

CHUNK_BYTES: Final = 1 << 20
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_NOTED: Final = ("observed", "actual_exit_code", "actual", "exit_code", "returncode")
"""Where people note the code that a command really ended with."""

Check = Callable[[Any], bool]
"""A check of one's own: gets what was expected, says whether it is so."""


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
            claim: model.Evidence = msgspec.convert(given, model.Evidence)
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

    def rules(self) -> model.EvidencePack:
        claims = tuple(evidence.claim() for evidence in self.evidence_list)
        return model.EvidencePack(claims, self.require_all, self.allow_partial, self.min_verified)

    def verdict(self) -> Verdict:
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
        self.base_path = Path.cwd() if base_path is None else Path(base_path)
        self.checks: dict[str, Check] = dict(checks or {})
        self._own_file = own_file

    def verify(self, evidence: Evidence) -> bool:
        """Whether it is so; the evidence itself says why, if it is not."""
        result = self._look(evidence.claim())
        evidence.verification_status = VerificationStatus(result.finding)
        evidence.verification_error = result.reason or None
        return evidence.is_verified

    verify_evidence = verify

    def verify_pack(self, pack: EvidencePack) -> Verdict:
        """Every piece is looked at; what they add up to."""
        for evidence in pack.evidence_list:
            self.verify(evidence)
        return pack.verdict()

    def _look(self, claim: model.Evidence) -> Result:
        try:
            match claim:
                case model.ArtifactExists():
                    return self._artifact(claim)
                case model.FileSha256():
                    return self._hash(claim)
                case model.CommandExit():
                    return _exit(claim)
                case model.DbRow():
                    return self._row(claim)
                case model.Custom():
                    return self._custom(claim)
        except (OSError, sqlite3.Error, apsw.Error, HoldfastError) as error:
            return Result("failed", str(error))

    def _artifact(self, claim: model.ArtifactExists) -> Result:
        path = self.base_path / claim.path
        is_there = {"file": path.is_file, "directory": path.is_dir, "any": path.exists}[claim.kind]
        what = "file or directory" if claim.kind == "any" else claim.kind
        return Result("verified") if is_there() else Result("failed", f"there is no {what} {path}")

    def _hash(self, claim: model.FileSha256) -> Result:
        found = hashlib.sha256()
        with (self.base_path / claim.path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                found.update(chunk)
        if found.hexdigest() == claim.sha256.lower():
            return Result("verified")
        return Result("failed", f"{claim.path} has the SHA-256 {found.hexdigest()}, not {claim.sha256}")

    def _custom(self, claim: model.Custom) -> Result:
        check = self.checks.get(claim.name)
        if check is None:
            return Result("pending", f"no check is registered as {claim.name!r}")
        try:
            so = check(claim.expected)
        except Exception as error:  # whatever somebody's check raises, it did not say yes
            return Result("failed", f"{type(error).__qualname__}: {error}")
        return Result("verified") if so is True else Result("failed", f"the check {claim.name!r} says no")

    def _row(self, claim: model.DbRow) -> Result:
        bad = [name for name in (claim.table, *claim.where, *claim.values) if not _IDENTIFIER.fullmatch(name)]
        if bad:
            return Result("failed", f"{bad[0]!r} is not a plain name of a table or column")
        file = self._own_file if claim.db_path is None else self.base_path / claim.db_path
        if file is None:
            return Result("pending", "name the database in metadata, as db_path")
        if not file.is_file():
            return Result("failed", f"there is no database {file}")
        for row in self._rows(file.resolve(), claim):
            if all(row[name] == value for name, value in claim.values.items()):
                return Result("verified")
        return Result("failed", f"no row of {claim.table} has {claim.where} and {claim.values}")

    def _rows(self, file: Path, claim: model.DbRow) -> Iterable[dict[str, Any]]:
        """The rows that the condition finds. Names were checked, values are bound."""
        columns = list(dict.fromkeys([*claim.values, *claim.where]))
        # In brackets a name is never anything else; in quotes SQLite takes an unknown one for a text.
        chosen = ", ".join(f"[{name}]" for name in columns)
        condition = " AND ".join(f"[{name}] IS ?" for name in claim.where)
        statement = f"SELECT {chosen} FROM [{claim.table}] WHERE {condition}"
        values = list(claim.where.values())
        if self._own_file is not None and file == self._own_file.resolve():
            # Our own file only through our own library: another one in this process would drop its locks.
            own = connect(file, read_only=True)
            try:
                found: list[Any] = own.execute(statement, values).fetchall()
            finally:
                own.close()
        else:
            other = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
            try:
                found = other.execute(statement, values).fetchall()
            finally:
                other.close()
        return [dict(zip(columns, row, strict=True)) for row in found]


def _exit(claim: model.CommandExit) -> Result:
    if claim.observed is None:
        return Result("pending", "nobody noted how the command ended: metadata={'exit_code': …}")
    if claim.observed == claim.exit_code:
        return Result("verified")
    return Result("failed", f"the command ended with {claim.observed}, not {claim.exit_code}")
