"""Modules that text mentions exist: a reader who follows a name finds the file.

A rename by codemod changes code; docstrings, comments, SQL and pages keep the old name if the search missed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"
FOLDERS = ("src", "tests", "tools", "bench", "docs", "examples", "deploy")
SUFFIXES = {".py", ".sql", ".md", ".yml", ".toml"}
PACKAGES = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
MENTION = re.compile(
    rf"`(?:src/)?(?:holdfast[./])?((?:{'|'.join(PACKAGES)})(?:[./]\w+)+?)(?:\.py|/)?(?:::\w+)?(?:\(\))?`"
)
OBJECTS = {"store", "client", "api", "worker", "registry"}
"""Packages whose name is also what a variable is called: `store.jobs` is an attribute. With a slash they are paths."""


def find_missing(text: str) -> Iterator[str]:
    """Mentions in backticks of modules that do not exist, or of names that their module does not have."""
    for mention in MENTION.findall(text):
        first, *rest = re.split(r"[./]", mention)
        if first in OBJECTS and "/" not in mention:
            continue
        place = PACKAGE / first
        while rest and (place / rest[0]).is_dir():
            place /= rest.pop(0)
        if not rest:
            continue
        module = place / f"{rest[0]}.py"
        if not module.exists():
            source = place / "__init__.py"
            if rest[0] not in source.read_text(encoding="utf-8"):
                yield mention
        elif len(rest) > 1 and not re.search(rf"\b{rest[1]}\b", module.read_text(encoding="utf-8")):
            yield mention


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_that_are_mentioned_exist(folder: str) -> None:
    files = [
        path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES and path != Path(__file__)
    ]
    missing = [
        f"{path.relative_to(ROOT)}: {mention}"
        for path in sorted(files)
        for mention in find_missing(path.read_text(encoding="utf-8"))
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    "text, missing",
    [
        ("`model.hash_chain`", []),
        ("`engine/side_effects.py`", []),
        ("`model.jobs.JobDraft`", []),
        ("`store.jobs`, an attribute", []),
        ("`model.chain`", ["model.chain"]),
        ("`store/codec`", ["store/codec"]),
        ("`holdfast.model.jobs.JobDrift`", ["model.jobs.JobDrift"]),
    ],
)
def test_a_missing_module_is_found(text: str, missing: list[str]) -> None:
    assert list(find_missing(text)) == missing
