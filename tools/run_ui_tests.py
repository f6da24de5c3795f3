"""Run `tests/page` in a real browser, with everything that it needs beside what `make test` needs.

    python -m tools.run_ui_tests [anything pytest takes]

Playwright comes from requirements/ui-tests.txt into a folder of its own; the page is built, and its own tests are run
first. Chromium is the system's: on Debian and Ubuntu it is installed if we are root; elsewhere one is told what is
missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tools.make_page import build, check
from tools.side_venv import ROOT, find_packages

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
APT = ("apt-get", "-qq", "install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core")


def install_browser() -> str:
    """The path of a Chromium."""
    found = _find_browser()
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        print("installing chromium", file=sys.stderr)
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        if subprocess.run(APT, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode:
            subprocess.run(["apt-get", "-qq", "update"], env=quiet, check=True)
            subprocess.run(APT, env=quiet, stdout=subprocess.DEVNULL, check=True)
        found = _find_browser()
    if found is None:
        raise SystemExit("The tests of the page need Chromium: apt install chromium, or put one on the PATH.")
    return found


def _find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def main() -> None:
    chromium = install_browser()
    build()
    check()
    told = {"HOLDFAST_TEST_CHROMIUM": chromium, "HOLDFAST_TEST_PLAYWRIGHT": str(find_packages("ui-tests"))}
    tests = ["-m", "pytest", "tests/page", *sys.argv[1:]]
    raise SystemExit(
        subprocess.run([sys.executable, *tests], cwd=ROOT, env=os.environ | told, check=False).returncode
    )


if __name__ == "__main__":
    main()
