"""Evidence checks: open and read files, compute hashes, compare exit codes, fetch rows.

The kinds of claims, and how findings add up, are in `holdfast.model.evidence`. A finding is one of

    verified    checked, and true
    failed      checked, and not true
    pending     cannot be checked yet: an exit code that was not recorded, a check that is not registered
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from holdfast.errors import HoldfastError
from holdfast.model.evidence import (
    ArtifactExists,
    CommandExit,
    Custom,
    DbRow,
    Evidence,
    EvidenceSet,
    FileSha256,
    Result,
)
from holdfast.store.sqlite.connection import connect

CHUNK_BYTES: Final = 1 << 20
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

Check = Callable[[Any], bool]
"""A custom check: gets the expected value, returns whether it is true."""


class EvidenceChecker:
    """Checks evidence. Relative paths start at `base_path`; `own_file` is the store's SQLite file, if it has one."""

    def __init__(
        self,
        base_path: Path,
        *,
        checks: Mapping[str, Check] | None = None,
        own_file: Path | None = None,
    ) -> None:
        self.base_path = base_path
        self.checks: dict[str, Check] = dict(checks or {})
        self._own_file = own_file

    def check_all(self, pack: EvidenceSet) -> Sequence[Result]:
        """A finding for each claim. It blocks: files may be large and disks slow."""
        return [self.check(claim) for claim in pack.evidence]

    def check(self, claim: Evidence) -> Result:
        """The finding about one claim, and the reason if it does not hold."""
        try:
            match claim:
                case ArtifactExists():
                    return self._check_artifact(claim)
                case FileSha256():
                    return self._check_hash(claim)
                case CommandExit():
                    return _check_exit(claim)
                case DbRow():
                    return self._check_row(claim)
                case Custom():
                    return self._check_custom(claim)
        except (OSError, sqlite3.Error, apsw.Error, HoldfastError) as error:
            return Result("failed", str(error))

    def _check_artifact(self, claim: ArtifactExists) -> Result:
        path = self.base_path / claim.path
        is_there = {"file": path.is_file, "directory": path.is_dir, "any": path.exists}[claim.kind]
        kind = "file or directory" if claim.kind == "any" else claim.kind
        return Result("verified") if is_there() else Result("failed", f"there is no {kind} {path}")

    def _check_hash(self, claim: FileSha256) -> Result:
        digest = hashlib.sha256()
        with (self.base_path / claim.path).open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
        if digest.hexdigest() == claim.sha256.lower():
            return Result("verified")
        return Result("failed", f"{claim.path} has the SHA-256 {digest.hexdigest()}, not {claim.sha256}")

    def _check_custom(self, claim: Custom) -> Result:
        check = self.checks.get(claim.name)
        if check is None:
            return Result("pending", f"no check is registered as {claim.name!r}")
        try:
            holds = check(claim.expected)
        except Exception as error:  # a check that raises anything has not confirmed the claim
            return Result("failed", f"{type(error).__qualname__}: {error}")
        return (
            Result("verified")
            if holds is True
            else Result("failed", f"the check {claim.name!r} returned False")
        )

    def _check_row(self, claim: DbRow) -> Result:
        bad = [name for name in (claim.table, *claim.where, *claim.values) if not _IDENTIFIER.fullmatch(name)]
        if bad:
            return Result("failed", f"{bad[0]!r} is not a plain name of a table or column")
        file = self._own_file if claim.db_path is None else self.base_path / claim.db_path
        if file is None:
            return Result("pending", "name the database in metadata, as db_path")
        if not file.is_file():
            return Result("failed", f"there is no database {file}")
        for row in self._find_rows(file.resolve(), claim):
            if all(row[name] == value for name, value in claim.values.items()):
                return Result("verified")
        return Result("failed", f"no row of {claim.table} has {claim.where} and {claim.values}")

    def _find_rows(self, file: Path, claim: DbRow) -> Iterable[dict[str, Any]]:
        """The rows that match the condition. Names were checked, values are bound."""
        columns = list(dict.fromkeys([*claim.values, *claim.where]))
        # In brackets a name is always a name; in quotes SQLite takes an unknown one for a text.
        chosen = ", ".join(f"[{name}]" for name in columns)
        condition = " AND ".join(f"[{name}] IS ?" for name in claim.where)
        statement = f"SELECT {chosen} FROM [{claim.table}] WHERE {condition}"
        values = list(claim.where.values())
        if self._own_file is not None and file == self._own_file.resolve():
            # The store's own file only through apsw: a second SQLite library in this process would drop its locks.
            own_connection = connect(file, read_only=True)
            try:
                rows: list[Any] = own_connection.execute(statement, values).fetchall()
            finally:
                own_connection.close()
        else:
            connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
            try:
                rows = connection.execute(statement, values).fetchall()
            finally:
                connection.close()
        return [dict(zip(columns, row, strict=True)) for row in rows]


def _check_exit(claim: CommandExit) -> Result:
    if claim.observed is None:
        return Result("pending", "the exit code was not recorded: metadata={'exit_code': …}")
    if claim.observed == claim.exit_code:
        return Result("verified")
    return Result("failed", f"the command ended with {claim.observed}, not {claim.exit_code}")
