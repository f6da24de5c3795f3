"""The project's own files, as the tidy tests read them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "holdfast"

# Made by tools, or by nobody yet: never part of the project.
_NOT_OURS = {".git", ".hypothesis", ".venv", "build", "dist", "__pycache__"}


def modules(*folders: str) -> Iterator[Path]:
    """Every module of the package, or of these parts of it, in a fixed order."""
    for part in folders or (".",):
        yield from sorted((PACKAGE / part).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path) -> str:
    """The path as people write it: from the root, with slashes."""
    return path.relative_to(ROOT).as_posix()


def project_files() -> list[Path]:
    """What a commit would hold. Asks git, and walks the folder where there is no git to ask."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        walked = (path for path in ROOT.rglob("*") if path.is_file())
        return sorted(p for p in walked if not any(_hidden(part) for part in p.relative_to(ROOT).parts))
    return sorted(path for name in listing.split("\0") if name and (path := ROOT / name).is_file())


def _hidden(part: str) -> bool:
    return part in _NOT_OURS or (part.startswith(".") and part.endswith("_cache"))
