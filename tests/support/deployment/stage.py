"""A small deployment: an API and workers as processes of their own, over one store, spoken to as anybody would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

from tests.api.server.api import as_owner
from tests.support.deployment.receivers import Outside
from tests.support.project import ROOT

APP = ROOT / "tests/support/deployment/app.py"
MODEL = ROOT / "tests/support/deployment/model.toml"


class Stage:
    """Everything that was started here is ended by `close`."""

    app = APP

    def __init__(self, folder: Path, store: str, outside: Outside) -> None:
        self.folder = folder
        self.store = store
        self.outside = outside
        self.url = ""
        self.api: subprocess.Popen[str] | None = None
        self.workers: list[subprocess.Popen[str]] = []
        self._started = 0

    # ── processes ─────────────────────────────────────────────────────────────────────────────────

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
            "RELEASE_OUTSIDE": self.outside.url,
            "RELEASE_FOLDER": str(self.folder),
            "HOLDFAST_STORE": self.store,
            "COLUMNS": "150",
        }

    def _start(self, *arguments: str, said: str) -> tuple[subprocess.Popen[str], re.Match[str]]:
        """The command runs, and has said this."""
        return self._run("-m", "holdfast", *arguments, named=arguments[0], said=said)

    def _run(self, *arguments: str, named: str, said: str) -> tuple[subprocess.Popen[str], re.Match[str]]:
        """The process, once it has said this. What else it says goes to a file: a full pipe would stop it."""
        self._started += 1
        log = self.folder / f"{named}-{self._started}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                env=self.environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stderr=file,
                text=True,
            )
        pause = threading.Event()
        while (found := re.search(said, log.read_text())) is None:
            assert process.poll() is None, (arguments, log.read_text())
            pause.wait(0.02)
        return process, found

    def serve(self) -> str:
        """The API is up; again at the address it had, if it was up before."""
        port = self.url.rpartition(":")[2] or "0"
        self.api, found = self._start("serve", "--port", port, said=r"listening on (http://\S+);")
        self.url = found[1]
        return self.url

    def work(self, *, concurrency: int = 16) -> subprocess.Popen[str]:
        """One more worker is at work."""
        arguments = ("worker", str(self.app), "--concurrency", str(concurrency))
        worker, _ = self._start(*arguments, said="working on")
        self.workers.append(worker)
        return worker

    def kill(self, process: subprocess.Popen[str] | None, how: int = signal.SIGKILL) -> None:
        assert process is not None
        process.send_signal(how)
        process.wait(60)

    def close(self) -> None:
        for process in (self.api, *self.workers):
            if process is not None:
                process.kill()
                process.wait(60)

    # ── the command line and the API ──────────────────────────────────────────────────────────────

    def holdfast(self, *arguments: str) -> str:
        """What the command prints, spoken to the API."""
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments],
            env={**self.environment, "HOLDFAST_API_URL": self.url},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        response = httpx2.request(
            method,
            self.url + path,
            json=body,
            params=query,
            headers=as_owner(self.url),
            timeout=90,
            trust_env=False,
        )
        assert response.is_success, response.text
        return response.json()

    def create_agent(self) -> None:
        """As the seed writes it, with our name."""
        tools = ("--tool", "first", "--tool", "second", "--tool", "third")
        self.holdfast("agent", "create", "test", "--model", f"scripted:{MODEL}", *tools)

    def message(self, text: str, session: str = "s1") -> str:
        """The job that answers this message."""
        said = self.ask("POST", "/api/agents/test/message", {"text": text, "session_id": session})
        return str(said["job_id"])

    def submit(self, kind: str, **given: Any) -> str:
        return str(self.ask("POST", "/api/jobs", {"kind": kind, "input": given})["job_id"])

    def job(self, job_id: str) -> Any:
        return self.ask("GET", f"/api/jobs/{job_id}")

    def events(self, job_id: str) -> list[Any]:
        return list(self.ask("GET", f"/api/jobs/{job_id}/events")["items"])

    def count(self, job_id: str) -> Counter[str]:
        return Counter(event["type"] for event in self.events(job_id))

    def until(self, job_id: str, kind: str, times: int = 1) -> None:
        """The journal has so many facts of this kind."""
        while self.count(job_id)[kind] < times:
            self.ask("GET", f"/api/jobs/{job_id}", wait_ms=50)

    def reply(self, job_id: str) -> str:
        """What the agent answered, once it has."""
        self.ended(job_id)
        return str(self.ask("GET", f"/api/jobs/{job_id}/reply")["text"])

    def ended(self, job_id: str, status: str = "completed") -> Any:
        """The job, once it is over; it is over this way."""
        job = self.ask("GET", f"/api/jobs/{job_id}", wait_ms=20_000)
        while job["ended_at"] is None:
            job = self.ask("GET", f"/api/jobs/{job_id}", wait_ms=20_000)
        assert job["status"] == status, json.dumps(job, indent=1)
        return job
