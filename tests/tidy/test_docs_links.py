"""Documentation cannot point at what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_docs


def test_links_snippets_and_commands() -> None:
    assert not (found := check_docs.find_problems()), "\n" + "\n".join(found)


def test_the_check_finds_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plants one mistake of each kind and one look-alike that is fine."""
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    (tmp_path / "Makefile").write_text("test: ## run\n")
    (tmp_path / "other.md").write_text("# A heading, here\n")
    (tmp_path / "page.md").write_text(
        "[gone](missing.md) [no heading](other.md#nope) [fine](other.md#a-heading-here) `[not](a-link)`\n"
        "Run `make test`, then `make coffee`.\n\n```python\nfoo(\n```\n"
    )
    found = check_docs.find_problems()
    assert [line.split(": ")[1] for line in found] == [
        "missing.md leads nowhere",
        "other.md#nope",
        "a Python snippet does not parse",
        "the Makefile has no target coffee",
    ]
