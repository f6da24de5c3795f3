"""Receivers of the demonstration: an HTTP server and an SMTP server, each with its own log.

Neither knows of Holdfast. The HTTP server stores a file once for each Idempotency-Key, as many services do; the SMTP
server delivers every message it receives, duplicates included. At a moment that the demonstration has registered, a
server performs the request, calls back, and never sends its reply: the sender dies without knowing the outcome.
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
    """The receivers, with what they did by their own account. `moments`: callbacks, each called once instead of a
    reply."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.arrived: list[str] = []
        self.files: dict[str, bytes] = {}
        self.mails: list[str] = []
        self.moments: dict[str, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._servers: list[socketserver.BaseServer] = []

    def open(self) -> tuple[str, str]:
        """Start both servers on loopback; returns their addresses."""
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
        """The response of the HTTP server, or None if it sends none."""
        with self._lock:
            self.arrived.append(path)
            if path == "/mailbox":
                return {"found": query["message_id"] in self.mails}
            if path == "/files":
                self.files.setdefault(key, body)
                response: Any = {"url": "https://files.example.org/report.pdf"}
            else:
                response = {"text": SOURCES[path.removeprefix("/sources/")]}
        if self.notify(path):
            return None
        with self._lock:
            self.answered.append(path)
        return response

    def deliver(self, mail: bytes) -> None:
        with self._lock:
            self.mails.append(str(message_from_bytes(mail)["Message-ID"]))

    def notify(self, moment: str) -> bool:
        """Call the callback of this moment; returns whether there was one."""
        with self._lock:
            tell = self.moments.pop(moment, None)
        if tell is not None:
            tell()
        return tell is not None


class _Http(BaseHTTPRequestHandler):
    outside: Outside

    def do_GET(self) -> None:
        self._respond(b"")

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers["Content-Length"])))

    def _respond(self, body: bytes) -> None:
        at = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(at.query))
        response = self.outside.answer(at.path, query, self.headers.get("Idempotency-Key", ""), body)
        if response is None:
            self.close_connection = True
            return
        data = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        pass


class _Smtp(socketserver.StreamRequestHandler):
    """The part of RFC 5321 that is needed to receive a mail."""

    outside: Outside

    def handle(self) -> None:
        self._send_line("220 mail.example.org")
        while line := self.rfile.readline():
            verb = line[:4].upper().strip()
            if verb == b"DATA":
                self._send_line("354 go on")
                self.outside.deliver(self._read_mail())
                if self.outside.notify("mail"):
                    return
                self._send_line("250 delivered")
            elif verb == b"QUIT":
                self._send_line("221 bye")
                return
            else:
                known = verb in {b"EHLO", b"HELO", b"MAIL", b"RCPT", b"RSET", b"NOOP"}
                self._send_line("250 fine" if known else "502 not here")

    def _read_mail(self) -> bytes:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in {b".\r\n", b""}:
            lines.append(line.removeprefix(b"."))
        return b"".join(lines)

    def _send_line(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())
