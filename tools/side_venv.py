"""Packages that only one target needs, in a folder of their own under `build/`: `.venv` stays what its lock says.

python = make_venv("page")   build/page/bin/python, with requirements/page.txt in it, each file checked by its hash
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def make_venv(name: str) -> Path:
    """The interpreter of the environment that `requirements/NAME.txt` locks, made anew whenever that file changes."""
    lock = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    venv = ROOT / "build" / name
    python, ready = venv / "bin" / "python", venv / ".ready"
    if not python.exists() or not ready.exists() or ready.read_text(encoding="utf-8") != lock:
        print(f"installing requirements/{name}.txt into build/{name}", file=sys.stderr)
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", "--clear", "--python", sys.executable, str(venv)], check=True)
        install = ["pip", "install", "--python", str(python), "--require-hashes", "--requirement"]
        subprocess.run([*uv, *install, f"requirements/{name}.txt"], cwd=ROOT, check=True)
        ready.write_text(lock, encoding="utf-8")
    return python


def find_packages(name: str) -> Path:
    """Where that environment keeps what is installed."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    said = subprocess.run([make_venv(name), "-c", asked], capture_output=True, text=True, check=True).stdout
    return Path(said.strip())
