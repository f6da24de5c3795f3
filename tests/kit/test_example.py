"""The example of docs/kit.md does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kit.md"


def test_the_example_runs(tmp_path: Path) -> None:
    """Run the page's code as a program of its own, in a folder of its own."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(PAGE.parents[1] / "src"), "TMPDIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "succeeded\n", "")
