"""The outside world of the kill matrix: a real HTTP server on loopback that keeps a log of its own.

What it did is in `done`, one entry for each effect, whoever asked for it and however often. That log, not our database,
says whether something happened twice.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """Mail by four kinds of service, and uploads."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, Any]] = {}
        self.url = ""

    def count(self, what: str) -> int:
        return sum(entry == what for entry in self.done)

    def answer(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.asked[path.split("/")[1]] += 1
            match path.split("/")[1:]:
                case ["keyed-mail"]:
                    return 200, self._once(key, "mail")
                case ["upload"]:
                    return 200, self._once(key, "upload")
                case ["drafts"]:
                    return 200, self._kept.setdefault(key, {"draft": f"draft-{len(self._kept) + 1}"})
                case ["drafts", draft, "send"]:
                    if f"sent {draft}" in self._kept:
                        return 410, {"error": "there is no such draft any more"}
                    return 200, self._once(f"sent {draft}", "mail")
                case ["sent", draft]:
                    return 200, self._kept.get(f"sent {draft}", {})
                case ["mail"]:
                    return 200, self._once(
                        f"marked {body['marker']} {len(self.done)}", "mail", body["marker"]
                    )
                case ["find", marker]:
                    return 200, self._kept.get(f"found {marker}", {})
                case _:
                    return 404, {"error": path}

    def _once(self, key: str, what: str, marker: str = "") -> dict[str, Any]:
        if key not in self._kept:
            self.done.append(what)
            self._kept[key] = {"receipt": len(self.done)}
            self._kept[f"found {marker}"] = self._kept[key]
        return self._kept[key]


@contextmanager
def serving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            status, said = receiver.answer(self.path, self.headers.get("Idempotency-Key") or "", body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
