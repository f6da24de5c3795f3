"""`holdfast demo` beside an open page: one sees the three kills while they happen, and that nothing was done twice."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from tests.page.conftest import STORES
from tests.page.processes import Town
from tests.page.user_actions import see

PATIENCE_MS = 90_000


@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", STORES, indirect=True)
def test_three_kills_are_seen_and_nothing_twice(town: Town, page: Any) -> None:
    page.goto(town.link)
    see(page, "There are no jobs yet")
    demo = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo", "--store", town.where],
        cwd=town.folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        report = page.locator("main").get_by_role("link", name="report").first
        report.wait_for(timeout=PATIENCE_MS)
        report.click()
        summary = page.get_by_text(re.compile("Its worker died 3 times, and another took over"))
        summary.first.wait_for(timeout=PATIENCE_MS)
        see(page, re.compile("upload was sent again under the same key"))
        page.get_by_text(re.compile("send_email was not sent again")).first.wait_for(timeout=PATIENCE_MS)
        page.get_by_text("completed").first.wait_for(timeout=PATIENCE_MS)
        takeovers = page.get_by_role("treeitem").filter(has_text="took over")
        assert takeovers.count() == 3, "each is a seam in the waterfall, to be seen without scrolling in it"
        said = demo.communicate(timeout=PATIENCE_MS / 1000)[0]
        assert demo.returncode == 0, said
        assert "Nothing lost, nothing repeated." in said
    finally:
        demo.kill()
        demo.wait()
