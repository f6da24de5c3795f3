"""`make demo`: one job, killed three times at the worst moments, and what the outside world says about it.

Everything is real: `holdfast run` is a process of its own and dies with status 137, the job lies in a SQLite file, and
the receiver of uploads and mails is an HTTP server on loopback that keeps its own log. The verdict is read from that
log. Exit status 0 means that it is true.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KILLS = (
    ("render", "after_tool_success_before_receipt", "the PDF is written, and nothing on record says so"),
    ("upload", "after_intent_before_call", "the upload was announced, and not a byte has left"),
    ("send_email", "after_tool_success_before_receipt", "the mail is out, and nothing on record says so"),
)


class Outside:
    """What the world did, by its own account."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._kept: dict[str, str] = {}
        self._lock = threading.Lock()

    def answer(self, path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if path == "/ask":
                return {"answer": "Kelp holds on to the rock with a root that is none: the holdfast."}
            if path == "/sent":
                return {"receipt": self._kept.get(body["marker"], "")}
            if path == "/upload":
                if key not in self._kept:
                    self._do("upload", key, "https://files.example/report.pdf")
                return {"url": self._kept[key]}
            self._do("mail", body["marker"], f"receipt-{len(self.log) + 1}")
            return {"receipt": self._kept[body["marker"]]}

    def _do(self, what: str, key: str, result: str) -> None:
        self.log.append(what)
        self._kept[key] = result


def serve(outside: Outside) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(outside.answer(self.path, self.headers["Idempotency-Key"], body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Demo:
    """The folder of one demonstration, and the commands typed in it."""

    def __init__(self, folder: Path, outside: str) -> None:
        self.folder = folder
        self.resume = folder / "resume.txt"
        self.environment = {
            **os.environ,
            "DEMO_FOLDER": str(folder),
            "DEMO_OUTSIDE": outside,
            "HOLDFAST_STORE": f"sqlite:///{folder / 'demo.db'}",
        }

    def holdfast(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast.cli", *arguments],
            env={**self.environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    def first(self) -> list[str]:
        spec = self.folder / "job.json"
        given = {"topic": "kelp", "to": "ada@example.org"}
        spec.write_text(json.dumps({"agent": "report", "app": str(HERE / "report.py"), "input": given}))
        return ["run", "--job", str(spec), "--write-resume", str(self.resume)]

    def again(self) -> list[str]:
        return shlex.split(self.resume.read_text())[1:]


def say(text: str, colour: int = 0) -> None:
    print(f"\x1b[{colour}m{text}\x1b[0m" if colour and sys.stdout.isatty() else text, flush=True)


def killed_three_times(demo: Demo) -> bool:
    """Whether each process died where it was told to."""
    arguments = demo.first()
    for number, (tool, point, moment) in enumerate(KILLS, 1):
        ordered = {"HOLDFAST_TEST_CRASH_AFTER_TOOL": tool, "HOLDFAST_TEST_CRASH_STAGE": point}
        done = demo.holdfast(*arguments, **ordered)
        if done.returncode != 137:
            say(done.stderr, 31)
            return False
        say(f"  kill {number}: {moment}", 33)
        arguments = demo.again()
    return True


def is_true(demo: Demo, outside: Outside) -> bool:
    """The job goes on to its end; what the world has in its log."""
    arguments = demo.again()
    say(f"\n  $ {' '.join(['holdfast', *arguments[:4]])} …", 2)
    done = demo.holdfast(*arguments)
    say(f"  it returned {done.stdout.strip()}\n")
    job = arguments[arguments.index("--run-id") + 1]
    say(f"  $ holdfast trace {job}", 2)
    print(demo.holdfast("trace", job).stdout)
    found = Counter(outside.log)
    pdfs = len(list(demo.folder.glob("*.pdf")))
    whole = demo.holdfast("verify", job).returncode == 0
    say("What the outside world has in its own log:", 1)
    say(f"  {pdfs} PDF, {found['upload']} upload, {found['mail']} mail")
    return done.returncode == 0 and whole and pdfs == 1 and found == {"upload": 1, "mail": 1}


def main() -> int:
    outside = Outside()
    server = serve(outside)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        demo = Demo(Path(folder), f"http://127.0.0.1:{server.server_address[1]}")
        say("An agent writes a report, uploads it and mails it. We kill it three times.\n", 1)
        true = killed_three_times(demo) and is_true(demo, outside)
    server.shutdown()
    if true:
        say("Three kills, nothing lost, nothing twice.", 32)
    else:
        say("This is not what we promise.", 31)
    return 0 if true else 1


if __name__ == "__main__":
    sys.exit(main())
