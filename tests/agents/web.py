"""A web server of our own, on loopback, that remembers what it was asked."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Web(ThreadingHTTPServer):
    """`/moved?to=URL` redirects there, `/long` is 1 MB, `/hangs` never answers, `/dies` reads and hangs up, `/flaky`
    does so the first time, everything else says what it got."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.hanging = threading.Event()
        self.closing = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def paths(self) -> list[str]:
        return [path for _method, path, _headers, _body in self.asked]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Those who hang up are no news."""


class _Handler(BaseHTTPRequestHandler):
    server: Web
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append((self.command, self.path, headers, body))
        where, _, what = self.path.partition("?")
        match where:
            case "/moved":
                self._say(302, b"", location=what.removeprefix("to="))
            case "/long":
                self._say(200, b"x" * 1_000_000)
            case "/hangs":
                self.server.hanging.set()
                self.server.closing.wait(60)
            case "/dies":
                self.close_connection = True
            case "/flaky" if self.server.paths().count("/flaky") == 1:
                self.close_connection = True
            case "/latin":
                self._say(200, "é".encode("latin-1"), content_type="text/plain; charset=latin-1")
            case _:
                self._say(200, f"{self.command} {self.path}".encode() + b" " + body)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer  # noqa: N815 - as the library calls them

    def _say(self, status: int, body: bytes, *, location: str = "", content_type: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Web]:
    server = Web()
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


def secured(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A certificate for localhost, as a server uses it, and as a client trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    start = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.9"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), loopback]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(written)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    client = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    return server, client
