"""The outside world of the demonstration: an HTTP server and an SMTP server, each with a log of its own.

Neither knows of Holdfast. The HTTP server keeps a file once for each Idempotency-Key, as many services do; the SMTP
server delivers whatever it is given, as often as it is given it. At a moment that somebody has named, a server does
what it was asked to, tells that somebody, and never sends its reply: the sender dies not knowing whether it was heard.
"""

from __future__ import annotations

import json
import socketserver
import threading
import urllib.parse
from collections.abc import Callable
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

SOURCES: Final = {
    "kelp": "Kelp holds on with a holdfast.",
    "rocks": "Rocks are held on to.",
    "storms": "Storms pass.",
}


class Outside:
    """What was done out there, by its own account. `moments`: whom to tell, once, instead of replying."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.arrived: list[str] = []
        self.files: dict[str, bytes] = {}
        self.mails: list[str] = []
        self.moments: dict[str, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._servers: list[socketserver.BaseServer] = []

    def open(self) -> tuple[str, str]:
        """Both servers listen on loopback; where."""
        http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Http,), {"outside": self}))
        smtp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), type("Handler", (_Smtp,), {"outside": self}))
        smtp.daemon_threads = True
        self._servers = [http, smtp]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{http.server_address[1]}", f"127.0.0.1:{smtp.server_address[1]}"

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def answer(self, path: str, query: dict[str, str], key: str, body: bytes) -> Any:
        """What the HTTP server has to say, or None if it says nothing."""
        with self._lock:
            self.arrived.append(path)
            if path == "/mailbox":
                return {"found": query["message_id"] in self.mails}
            if path == "/files":
                self.files.setdefault(key, body)
                said: Any = {"url": "https://files.example.org/report.pdf"}
            else:
                said = {"text": SOURCES[path.removeprefix("/sources/")]}
        if self.notify(path):
            return None
        with self._lock:
            self.answered.append(path)
        return said

    def deliver(self, mail: bytes) -> None:
        with self._lock:
            self.mails.append(str(message_from_bytes(mail)["Message-ID"]))

    def notify(self, moment: str) -> bool:
        """Whether somebody waited for this moment; then they have been told."""
        with self._lock:
            tell = self.moments.pop(moment, None)
        if tell is not None:
            tell()
        return tell is not None


class _Http(BaseHTTPRequestHandler):
    outside: Outside

    def do_GET(self) -> None:
        self._do(b"")

    def do_POST(self) -> None:
        self._do(self.rfile.read(int(self.headers["Content-Length"])))

    def _do(self, body: bytes) -> None:
        at = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(at.query))
        said = self.outside.answer(at.path, query, self.headers.get("Idempotency-Key", ""), body)
        if said is None:
            self.close_connection = True
            return
        data = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        pass


class _Smtp(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as it takes to receive a mail."""

    outside: Outside

    def handle(self) -> None:
        self._say("220 mail.example.org")
        while line := self.rfile.readline():
            verb = line[:4].upper().strip()
            if verb == b"DATA":
                self._say("354 go on")
                self.outside.deliver(self._mail())
                if self.outside.notify("mail"):
                    return
                self._say("250 delivered")
            elif verb == b"QUIT":
                self._say("221 bye")
                return
            else:
                known = verb in {b"EHLO", b"HELO", b"MAIL", b"RCPT", b"RSET", b"NOOP"}
                self._say("250 fine" if known else "502 not here")

    def _mail(self) -> bytes:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line.removeprefix(b"."))
        return b"".join(lines)

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())
