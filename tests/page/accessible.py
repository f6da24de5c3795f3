"""What axe-core finds wrong with a page: contrast, names, roles, order. It is put into the page by the test alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AXE = Path(__file__).resolve().parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def assert_accessible(page: Any) -> None:
    """Nothing on the page, as it is now, is against the rules of WCAG 2.2 AA."""
    told = broken_rules(page)
    assert not told, "\n".join(told)


def broken_rules(page: Any) -> list[str]:
    """What is against them, and where."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))  # by the debugger, which no policy binds
    found = page.evaluate("rules => axe.run(document, {runOnly: rules}).then(one => one.violations)", RULES)
    return [
        f"{page.url}: {rule['id']} ({rule['impact']}): {rule['help']}: {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
