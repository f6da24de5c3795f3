"""Write `requirements/*.txt`: every package pinned, every file hashed, no registry named.

A lock file that names a registry works only where that registry does. These name none: pip and uv fetch from
whatever index the reader's machine is set up for, and the hashes say whether they got the right bytes.

    python -m tools.lock              keep the pins that still satisfy pyproject.toml
    python -m tools.lock --upgrade    take the newest versions
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# file → what it locks: extras of the project, or groups without it. `dev` is what a contributor and CI install;
# `runtime` is what a deployment installs; `peers` is what benchmarks are measured beside; `page` builds the page, and
# `ui-tests` looks at it.
LOCKS = {
    "dev": ["--extra=dev"],
    "runtime": ["--extra=postgres", "--extra=nats", "--extra=server"],
    "peers": ["--extra=peers"],
    "page": ["--group=page"],
    "ui-tests": ["--group=ui-tests"],
}

HEADER = "# Made by `make lock` from pyproject.toml. Do not edit.\n"

ADDRESS = re.compile(r"://|^\s*(-i|-f|-e|--index-url|--extra-index-url|--find-links)\b| @ ", re.MULTILINE)


def compile_lock(name: str, parts: list[str], options: list[str]) -> None:
    target = ROOT / "requirements" / f"{name}.txt"
    command = ["uv", "pip", "compile", "--output-file", str(target.relative_to(ROOT)), *parts]
    command += ["pyproject.toml"] if parts[0].startswith("--extra") else []
    command += ["--universal", "--python-version=3.11", "--generate-hashes", "--quiet"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--no-header", "--no-annotate"]
    subprocess.run([sys.executable, "-m", *command, *options], cwd=ROOT, check=True)

    text = target.read_text(encoding="utf-8")
    if found := ADDRESS.search(text):
        raise SystemExit(
            f"requirements/{name}.txt names an address ({found.group().strip()}); do not commit it"
        )
    target.write_text(HEADER + text.removeprefix(HEADER), encoding="utf-8")
    print(f"requirements/{name}.txt: {text.count('==')} packages")


def main() -> None:
    (ROOT / "requirements").mkdir(exist_ok=True)
    for name, parts in LOCKS.items():
        compile_lock(name, parts, sys.argv[1:])


if __name__ == "__main__":
    main()
