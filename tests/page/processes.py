"""A real API and real workers, each a process of its own, over one store; any of them can be killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

SHOP = Path(__file__).with_name("shop.py")
PATIENCE_S = 30


class Town:
    """The API at `url`, reached in a browser by `link`, which may write; and its workers."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where, self.folder = where, folder
        self._running: list[subprocess.Popen[str]] = []
        self.http = httpx2.Client(trust_env=False, timeout=PATIENCE_S)
        self.serve("0")

    def serve(self, port: str) -> None:
        """The API, at this port."""
        self.server = self._start("serve", "--port", port)
        self.url = self._hear(self.server, r"listening on (http://127\.0\.0\.1:\d+);")
        self.link = self._hear(self.server, r"(http://127\.0\.0\.1:\d+/#token=\S+)")
        self.http.base_url = self.url
        self.http.headers["authorization"] = f"Bearer {self.link.partition('#token=')[2]}"

    def worker(self, *words: str, app: Path = SHOP, **environment: str) -> subprocess.Popen[str]:
        """A worker, at work."""
        started = self._start("worker", str(app), *words, **environment)
        self._hear(started, r"working on (.*);")
        return started

    def kill(self, process: subprocess.Popen[str]) -> None:
        """As kill -9 does."""
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)

    def close(self) -> None:
        self.http.close()
        for process in self._running:
            process.kill()
            process.communicate()

    # ── speaking to it ────────────────────────────────────────────────────────────────────────────

    def submit(self, kind: str, **more: Any) -> str:
        return str(self.post("/api/jobs", {"kind": kind, **more})["job_id"])

    def post(self, path: str, body: Any) -> dict[str, Any]:
        answer = self.http.post(path, json=body)
        assert answer.status_code in {200, 201, 202}, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        answer = self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    def until(self, job_id: str, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The job, once it is so. Each look waits for its end, so that none is in vain."""
        job: dict[str, Any] = {}
        for _ in range(PATIENCE_S * 5):
            job = self.get(f"/api/jobs/{job_id}", wait_ms=200)
            if fits(job):
                return job
        raise AssertionError(f"it never came to that: {job}")

    def mails(self) -> list[str]:
        sent = self.folder / "mails"
        return sent.read_text().splitlines() if sent.exists() else []

    # ── processes ─────────────────────────────────────────────────────────────────────────────────

    def _start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "holdfast", *arguments, "--store", self.where]
        known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=known | {"HOLDFAST_UI_FOLDER": str(self.folder)} | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._running.append(process)
        return process

    def _hear(self, process: subprocess.Popen[str], pattern: str) -> str:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"it never said {pattern!r}, but:\n{said}")
