"""S7: TLS by configuration; what a proxy says is believed of proxies that were named."""

from __future__ import annotations

import datetime as dt
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.server.settings import Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api

pytestmark = pytest.mark.store("sqlite")

JOBS = "/api/jobs"


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "holdfast test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return cert, secret


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("listening on "), line + process.stderr.read()
        yield line.removeprefix("listening on ").partition(";")[0]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_s07_it_speaks_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    where = f"sqlite:///{tmp_path / 'h.db'}"
    with serving("--store", where, "--tls-cert", str(cert), "--tls-key", str(key)) as url:
        assert url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(cert))
        with httpx2.Client(verify=trusting, trust_env=False) as http:
            assert http.get(f"{url}{JOBS}").status_code == 200
            assert http.get(f"{url}{JOBS}", headers={"origin": url}).status_code == 200
            assert (
                http.get(f"{url}{JOBS}", headers={"origin": url.replace("https", "http")}).status_code == 403
            )
        with pytest.raises(httpx2.TransportError), httpx2.Client(trust_env=False) as http:
            http.get(f"{url}{JOBS}")  # nobody vouches for it
        with pytest.raises(httpx2.TransportError), httpx2.Client(trust_env=False) as http:
            http.get(f"{url.replace('https', 'http')}{JOBS}")


def test_s07_a_certificate_needs_its_key(tmp_path: Path) -> None:
    cert, _ = certificate(tmp_path)
    where = f"sqlite:///{tmp_path / 'h.db'}"
    refused = subprocess.run(
        [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--store", where, "--tls-cert", str(cert)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (refused.returncode, "--tls-key" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    "proxies, status", [((), 403), (("10.9.9.9",), 403), (("127.0.0.1",), 200), (("127.0.0.0/8",), 200)]
)
async def test_s07_only_a_named_proxy_is_believed(
    backend: Backend, proxies: tuple[str, ...], status: int
) -> None:
    """A browser came to the proxy by https; the server learns that from a header, and compares the page's origin."""
    async with api(backend, Settings(hosts=("api.example.org",), proxies=proxies)) as web:
        answer = await web.ask(
            "GET",
            JOBS,
            host="api.example.org",
            origin="https://api.example.org",
            x_forwarded_proto="https",
            x_forwarded_for="203.0.113.9",
        )
        assert answer.status_code == status


async def test_s07_no_proxy_lends_a_name(backend: Backend) -> None:
    async with api(backend, Settings(proxies=("127.0.0.1",))) as web:
        for name in ("x_forwarded_host", "forwarded"):
            answer = await web.ask(
                "GET", JOBS, host="evil.example", **{name: web.url.removeprefix("http://")}
            )
            assert answer.status_code == 421
