"""The arrows of docs/ARCHITECTURE.md point one way."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.support.project import PACKAGE, ROOT, modules, parsed, shown

LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


def test_import_contracts_hold() -> None:
    """Runs the contracts of pyproject.toml as `make lint` does."""
    command = [sys.executable, "-c", LINT, "--no-logo", "--no-cache"]
    lint = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout + lint.stderr


AS_A_USER = frozenset({PACKAGE / "demo" / "agent.py"})
"""Written as anybody would write it, and loaded like anybody's file."""


def test_nothing_imports_the_public_names() -> None:
    """`holdfast/__init__.py` imports from every layer: an arrow to it points everywhere."""
    offenders = [
        f"{shown(path)}:{node.lineno}"
        for path in modules()
        if path != PACKAGE / "__init__.py" and path not in AS_A_USER
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "holdfast")
        or (isinstance(node, ast.Import) and any(alias.name == "holdfast" for alias in node.names))
    ]
    assert not offenders, "import from the module that defines the name: " + ", ".join(offenders)
