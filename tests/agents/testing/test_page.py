"""The examples of docs/testing.md are tests, and pass."""

from __future__ import annotations

import os
import re

import pytest

from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.store("memory")
def test_the_page_does_what_it_says(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its Python is one suite: run as it stands there, once quickly and once with every kill."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"), prepend=os.pathsep)
    source = "\n\n".join(SNIPPETS)
    tests = len(re.findall(r"def test_", source))
    assert (len(SNIPPETS), tests) == (5, 4)
    pytester.makepyfile(test_page=source)
    blocked = [f"-pno:{name}" for name in ("cacheprovider", "randomly", "holdfast")]
    for options in ([], ["--holdfast-kill=every"]):
        ran = pytester.runpytest_subprocess(
            *blocked, "-pholdfast.testing.plugin", "-oasyncio_mode=auto", *options
        )
        ran.assert_outcomes(passed=tests)


@pytest.mark.store("memory")
def test_the_list_on_the_page(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that it shows are those that the kit prints."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"), prepend=os.pathsep)
    pytester.makepyfile(
        test_page="\n\n".join(SNIPPETS[:2]).replace("    survives_", "    print(survives_") + ")"
    )
    ran = pytester.runpytest_subprocess(
        "-s", "-pno:cacheprovider", "-pno:holdfast", "-pholdfast.testing.plugin"
    )
    shown = PAGE.partition("`str()` prints it:\n\n```\n")[2].partition("\n…\n```")[0].splitlines()
    said = [re.sub(r"\s+", " ", line) for line in ran.outlines]
    wanted = [re.sub(r"\s+", " ", line) for line in shown]
    assert len(wanted) == 8
    assert [line for line in wanted if not any(one.endswith(line) for one in said)] == []
