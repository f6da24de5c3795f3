"""Restate's server, which comes through npm: one file, pinned by version and by digest."""

from __future__ import annotations

import functools
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.contest import Absent
from bench.peers import VENV, Peer

VERSION: Final = "1.7.12"
PACKAGE: Final = "@restatedev/restate-server-linux-x64"
DIGEST: Final = (
    "sha512-URotJ1AIqaSCDkRMl4OrQfTLH+NYuOZb3ZsP7wxxiuAB6pncgPhTUYSvegTF5PTrAShnNyHNpju9kjf2O3QxoA=="
)
FOLDER: Final = VENV / "npm"


@functools.cache
def server() -> Path:
    """The server's program, or Absent with the reason."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Absent("its server is fetched for Linux on x86-64 only")
    npm = shutil.which("npm")
    if npm is None:
        raise Absent("its server comes through npm, which is not here")
    binary = FOLDER / "node_modules" / PACKAGE / "bin" / "restate-server"
    if not binary.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(FOLDER), "--ignore-scripts", "--no-audit", "--no-fund"]
        made = subprocess.run([*command, f"{PACKAGE}@{VERSION}"], capture_output=True, text=True, check=False)
        if made.returncode:
            raise Absent(f"npm said: {made.stderr[-200:]}")
    lock = json.loads((FOLDER / "node_modules" / ".package-lock.json").read_bytes())
    found = lock["packages"][f"node_modules/{PACKAGE}"]["integrity"]
    assert found == DIGEST, f"{PACKAGE} {VERSION} is not the package we know: {found}"
    return binary


class Restate(Peer):
    """Its adapter starts the server by itself and is told where it is."""

    async def open(self) -> None:
        self.told["server"] = str(server())
        await super().open()
