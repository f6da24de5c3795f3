"""What the agents of a deployment talk to: a receiver of calls and a model's server, with a log of their own.

A call can be held: it arrives, is counted, and gets no answer until somebody lets it go or its caller hangs up. The
model speaks a word every few milliseconds, for ever, until its listener hangs up.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORD_S = 0.02


class Outside:
    """What arrived, what was answered, and who hung up; and how many were here at the same time."""

    def __init__(self) -> None:
        self.arrived: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.hung_up: Counter[str] = Counter()
        self.keys: dict[str, set[str]] = {}
        self.most = 0
        self.url = ""
        self._here = 0
        self._held: set[str] = set()
        self._changed = threading.Condition()

    def hold(self, *names: str) -> None:
        with self._changed:
            self._held |= set(names)

    def let_go(self) -> None:
        with self._changed:
            self._held.clear()
            self._changed.notify_all()

    def until_arrived(self, name: str, times: int = 1) -> None:
        self.until(lambda: self.arrived[name] >= times, f"{name} never came: {self.arrived}")

    def until_hung_up(self, name: str) -> None:
        self.until(lambda: self.hung_up[name] > 0, f"nobody hung up on {name}: {self.hung_up}")

    def until(self, holds: Callable[[], bool], told: str) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, 60), told

    def take(self, name: str, key: str, line: socket.socket) -> bool:
        """Whether the caller was still there when the call could be answered."""
        with self._changed:
            self.arrived[name] += 1
            self.keys.setdefault(name, set()).add(key)
            self._here += 1
            self.most = max(self.most, self._here)
            self._changed.notify_all()
            while name in self._held and not _has_hung_up(line):
                self._changed.wait(WORD_S)
            there = not _has_hung_up(line)
            (self.answered if there else self.hung_up)[name] += 1
            self._here -= 1
            self._changed.notify_all()
            return there

    def heard(self, name: str) -> None:
        with self._changed:
            self.arrived[name] += 1
            self._changed.notify_all()

    def lost(self, name: str) -> None:
        with self._changed:
            self.hung_up[name] += 1
            self._changed.notify_all()


def _has_hung_up(line: socket.socket) -> bool:
    readable, _, _ = select.select([line], [], [], 0)
    try:
        return bool(readable) and line.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True


class _Handler(BaseHTTPRequestHandler):
    outside: Outside
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path.endswith("/chat/completions"):
            self._speak()
            return
        self.close_connection = True
        name = self.path.removeprefix("/")
        if self.outside.take(name, self.headers.get("Idempotency-Key", ""), self.connection):
            self._answer({"did": name, "with": len(body)})

    def do_GET(self) -> None:
        """Whether something has arrived, for those who can ask."""
        self.close_connection = True
        self._answer({"arrived": self.outside.arrived[self.path.removeprefix("/")] > 0})

    def _answer(self, said: Any) -> None:
        data = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _speak(self) -> None:
        """A stream as OpenAI's, that does not end by itself."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.outside.heard("model")
        chunk = {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "endless",
            "choices": [
                {"index": 0, "delta": {"role": "assistant", "content": "kelp "}, "finish_reason": None}
            ],
        }
        pause = threading.Event()
        try:
            while not _has_hung_up(self.connection):
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()
                pause.wait(WORD_S)
        except OSError:
            pass
        self.outside.lost("model")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


@contextmanager
def serving() -> Iterator[Outside]:
    outside = Outside()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"outside": outside}))
    outside.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield outside
    finally:
        outside.let_go()
        server.shutdown()
        server.server_close()
