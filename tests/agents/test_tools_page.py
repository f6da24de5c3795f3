"""The page on tools: its snippets run, as they stand, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import holdfast as hf

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tools.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_snippets_run(tmp_path: Path) -> None:
    """The policy file is the page's own. At the end an agent of the page is called."""
    snippets = _FENCE.findall(PAGE.read_text(encoding="utf-8"))
    (policy,) = [body for language, body in snippets if language == "toml"]
    (tmp_path / "tools.toml").write_text(policy, encoding="utf-8")
    code = "\n".join(body for language, body in snippets if language == "python")
    assert code.count("assert") >= 4, "the snippets say what they show"
    code += "\nimport asyncio\nprint(asyncio.run(support('where is it?')))\n"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "HOLDFAST_STORE": "memory:", "PYTHONPATH": str(Path(hf.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, '{"order":"42","state":"shipped"}\n'), ran.stderr
