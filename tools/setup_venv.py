"""Make `.venv` hold exactly what the lock says, and the project itself.

`make` runs this with the interpreter the user chose, before the first target that needs the environment and again
whenever the lock or `pyproject.toml` changes. Standard library only: nothing is installed yet.

    python tools/setup_venv.py
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin" / "python")
READY = VENV / ".ready"
LOCK = ROOT / "requirements" / "dev.txt"
LOG = ROOT / "build" / "setup.log"

# How pip announces a package: from an index, already there, or as a file (`name-1.0-….whl`).
NAMED = re.compile(
    r"(?:Collecting |Requirement already satisfied: |Processing \S*/)([\w.]+(?:-[A-Za-z][\w.]*)*)"
)

ENVIRONMENT = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def compute_digest() -> str:
    """A digest of everything that decides what the environment holds.

    Only two tables of pyproject.toml count: a changed lint rule reinstalls nothing.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = [
        str(ROOT),
        LOCK.read_text(encoding="utf-8"),
        repr(project["project"]),
        repr(project["build-system"]),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_usable() -> bool:
    """Whether `.venv` holds a Python that starts and has pip. After its interpreter moved, it does not."""
    if not Path(PYTHON).exists():
        return False
    pip = subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False)
    return pip.returncode == 0


def create() -> None:
    """Make a new environment, also where the system's Python ships without `ensurepip`."""
    venv = [sys.executable, "-m", "venv", "--clear"]
    if subprocess.run([*venv, VENV], capture_output=True, check=False).returncode == 0:
        return
    subprocess.run([*venv, "--without-pip", VENV], check=True)
    pip = [sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "pip"]
    if subprocess.run(pip, env=ENVIRONMENT, check=False).returncode != 0:
        raise SystemExit(
            "This Python can make no virtual environment with pip in it. On Debian and Ubuntu: apt install python3-venv"
        )


def install(*arguments: str, total: int = 0) -> None:
    """Run pip, write its talk to the log, and count packages on a terminal."""
    command = [PYTHON, "-m", "pip", "install", "--progress-bar=off", *arguments]
    done = 0
    with LOG.open("a", encoding="utf-8") as log:
        pip = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert pip.stdout is not None
        for line in pip.stdout:
            log.write(line)
            if named := NAMED.match(line):
                done += 1
                if total and sys.stdout.isatty():
                    print(f"\r\033[K  {done} of {total}: {named[1]}", end="", flush=True)
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)
        if pip.wait() != 0:
            log.flush()
            print("".join(LOG.read_text(encoding="utf-8").splitlines(keepends=True)[-15:]), file=sys.stderr)
            raise SystemExit(f"pip failed; its last lines are above, all of them in {LOG.relative_to(ROOT)}")


def main() -> None:
    digest = compute_digest()
    fresh = is_usable()
    if fresh and READY.exists() and READY.read_text(encoding="utf-8") == digest:
        READY.touch()
        return
    started = time.monotonic()
    LOG.parent.mkdir(exist_ok=True)
    LOG.write_text("", encoding="utf-8")
    if not fresh:
        print(f"setup: making .venv with Python {'.'.join(map(str, sys.version_info[:3]))}", flush=True)
        create()
    total = LOCK.read_text(encoding="utf-8").count("==")
    print(f"setup: installing {total} locked packages, each checked by its hash", flush=True)
    install("--require-hashes", "--requirement", str(LOCK), total=total)
    install("--no-deps", "--no-build-isolation", "--editable", ".")
    READY.write_text(digest, encoding="utf-8")
    print(f"setup: done in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
