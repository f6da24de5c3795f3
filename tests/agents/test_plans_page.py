"""The examples of docs/plans.md run, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from holdfast.testing import survives_crashes
from tests.support.project import ROOT

PAGE = (ROOT / "docs" / "plans.md").read_text(encoding="utf-8")
CODE = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
PRINTED = "".join(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL))


def test_the_page_prints_what_it_says(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(CODE, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr


def test_its_agents_survive() -> None:
    names: dict[str, object] = {"__name__": "page"}
    exec(compile(re.sub(r"^asyncio\.run.*$", "", CODE, flags=re.MULTILINE), "docs/plans.md", "exec"), names)  # noqa: S102 - our own page
    for agent, given, answers in (
        ("pay_back", "42", {}),
        ("clerk", "say hello", {}),
        ("careful", "42", {"Refund order 42?": True}),
    ):
        survival = survives_crashes(names[agent], given, answers=answers)  # type: ignore[arg-type]
        assert survival.survived
        assert len(survival.points) > 5
