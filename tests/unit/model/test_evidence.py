"""Evidence is closed data, and single findings add up to a verdict."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidPayload, InvalidSetting, Misuse
from holdfast.model import canonical
from holdfast.model.evidence import (
    ArtifactExists,
    CommandExit,
    Custom,
    DbRow,
    EvidenceSet,
    FileSha256,
    Finding,
    Result,
    pack_from_json,
    pack_to_json,
)
from holdfast.model.limits import EVIDENCE_PER_PACK_MAX

ONE_OF_EACH = (
    ArtifactExists("out/report.pdf", kind="file"),
    FileSha256("out/report.pdf", "ab" * 32, description="the report"),
    CommandExit(0, observed=0, command="make test"),
    DbRow("orders", {"id": 42}, {"state": "paid"}),
    Custom("invoice_sent", {"order": 42}),
)
findings = st.lists(st.sampled_from(["verified", "failed", "pending"]), max_size=8)


def pack_of(size: int, **rules: Any) -> EvidenceSet:
    return EvidenceSet(tuple(CommandExit() for _ in range(size)), **rules)


def results(found: list[Finding]) -> list[Result]:
    return [Result(finding) for finding in found]


def test_every_type_survives_json() -> None:
    """Write one of each as canonical JSON and read it back."""
    pack = EvidenceSet(ONE_OF_EACH, require_all=False, allow_partial=True, min_verified=2)
    stored = canonical.encode(pack_to_json(pack))
    assert pack_from_json(canonical.decode(stored)) == pack
    assert pack_to_json(pack)["evidence"][0] == {
        "evidence_type": "artifact_exists",
        "path": "out/report.pdf",
        "kind": "file",
        "description": "",
    }


@pytest.mark.parametrize(
    "document",
    [
        {"evidence": [{"evidence_type": "shell", "command": "rm"}]},
        {"evidence": [{"path": "x"}]},
        {"evidence": [{"evidence_type": "artifact_exists", "path": "x", "extra": 1}]},
        {"evidence": [{"evidence_type": "artifact_exists", "path": "x", "kind": "socket"}]},
        {"evidence": [{"evidence_type": "file_sha256", "path": "x", "sha256": "short"}]},
        {"evidence": [{"evidence_type": "artifact_exists", "path": ""}]},
        {"evidence": [{"evidence_type": "command_exit", "exit_code": "0"}]},
        {"surprise": 1},
        [],
        None,
    ],
)
def test_foreign_documents_are_refused(document: object) -> None:
    """Read unknown types, unknown fields and wrong values: data never names code."""
    with pytest.raises(InvalidPayload):
        pack_from_json(document)


def test_claims_are_checked_when_made() -> None:
    """Make claims that no verifier could check."""
    for make in (lambda: ArtifactExists("a\0b"), lambda: FileSha256("x", "zz" * 32), lambda: DbRow("t", {})):
        with pytest.raises(InvalidPayload):
            make()
    with pytest.raises(InvalidPayload, match="not a JSON type"):
        Custom("x", {"at": object()})
    with pytest.raises(InvalidName):
        Custom("")
    with pytest.raises(InvalidName):
        DbRow("", {"id": 1})


@given(findings)
def test_the_figures_add_up(found: list[Finding]) -> None:
    """Judge random findings; every one is counted once."""
    verdict = pack_of(len(found)).judge(results(found))
    assert verdict.summary() == {
        "total": len(found),
        "verified": found.count("verified"),
        "failed": found.count("failed"),
        "pending": found.count("pending"),
    }
    assert verdict.verified + verdict.failed + verdict.pending == verdict.total
    assert verdict.holds == all(finding == "verified" for finding in found)


@pytest.mark.parametrize(
    "rules, found, holds",
    [
        ({}, [], True),
        ({}, ["verified", "verified"], True),
        ({}, ["verified", "pending"], False),
        ({"allow_partial": True, "min_verified": 1}, ["verified", "failed"], False),
        ({"require_all": False}, ["verified", "pending"], True),
        ({"require_all": False}, ["verified", "failed"], False),
        ({"require_all": False}, ["pending", "pending"], False),
        ({"require_all": False, "allow_partial": True}, ["verified", "failed"], True),
        ({"require_all": False, "allow_partial": True}, ["failed", "failed"], False),
        ({"require_all": False, "allow_partial": True, "min_verified": 2}, ["verified", "failed"], False),
        (
            {"require_all": False, "allow_partial": True, "min_verified": 2},
            ["verified"] * 2 + ["failed"],
            True,
        ),
        ({"require_all": False, "allow_partial": True}, [], True),
    ],
)
def test_the_rules_of_a_pack(rules: dict[str, Any], found: list[Finding], holds: bool) -> None:
    """Judge each combination of settings on the case that tells it from its neighbours."""
    assert pack_of(len(found), **rules).judge(results(found)).holds is holds


@given(findings, st.booleans(), st.booleans(), st.integers(0, 8), st.data())
def test_one_more_verified_never_hurts(
    found: list[Finding], require_all: bool, allow_partial: bool, least: int, chance: st.DataObject
) -> None:
    """Turn one finding into a verified one, under any rules: what held still holds."""
    if not found:
        return
    pack = pack_of(
        len(found), require_all=require_all, allow_partial=allow_partial, min_verified=min(least, len(found))
    )
    place = chance.draw(st.integers(0, len(found) - 1))
    better: list[Finding] = [*found[:place], "verified", *found[place + 1 :]]
    assert pack.judge(results(better)).holds >= pack.judge(results(found)).holds


def test_results_must_fit_the_pack() -> None:
    """Judge with too few results: a forgotten one is not a verified one."""
    with pytest.raises(Misuse):
        pack_of(2).judge(results(["verified"]))


@pytest.mark.parametrize("rules", [{"min_verified": -1}, {"min_verified": 3}])
def test_rules_must_fit_the_evidence(rules: dict[str, Any]) -> None:
    """Ask for more than there is, or less than nothing."""
    with pytest.raises(InvalidSetting):
        pack_of(2, **rules)


def test_packs_are_bounded() -> None:
    """Stand on the limit and step over it."""
    pack_of(EVIDENCE_PER_PACK_MAX)
    with pytest.raises(InvalidSetting):
        pack_of(EVIDENCE_PER_PACK_MAX + 1)
