"""A credentials file opens a server that trusts its operator; a broken one says so and holds nobody up."""

from __future__ import annotations

import base64
import binascii
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.errors import InvalidSetting
from holdfast.registry.credentials import read_credentials
from tests.api.registry.worlds import ConfiguredServer, entry, linked, until

OPERATOR, ACCOUNT, USER = 14 << 3, 0 << 3, 20 << 3
SEED = 18 << 3


class Nkey:
    """A key of an operator, account or user, as NATS spells it."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.key = Ed25519PrivateKey.generate()

    @property
    def public(self) -> str:
        return _spelled(bytes([self.kind]) + self.key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        prefix = bytes([SEED | (self.kind >> 5), (self.kind & 31) << 3])
        return _spelled(prefix + self.key.private_bytes_raw())

    def says(self, subject: str, name: str, **claims: Any) -> str:
        """A statement about somebody, signed."""
        told = {
            "jti": name,
            "iat": 1_700_000_000,
            "iss": self.public,
            "name": name,
            "sub": subject,
            "nats": {**claims, "version": 2},
        }
        head = _coded(json.dumps({"typ": "JWT", "alg": "ed25519-nkey"}).encode())
        body = f"{head}.{_coded(json.dumps(told).encode())}"
        return f"{body}.{_coded(self.key.sign(body.encode()))}"


def _spelled(data: bytes) -> str:
    checked = data + binascii.crc_hqx(data, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def creds(jwt: str, seed: str) -> str:
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


LIMITS = {
    **dict.fromkeys(("subs", "data", "payload", "conn", "leaf", "imports", "exports"), -1),
    "wildcards": True,
}
JETSTREAM = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)


@pytest.mark.parametrize("mistake", [None, "another seed", "another account"])
async def test_a_credentials_file_opens(
    tmp_path: Path, mistake: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast.nats")
    operator, account, user = Nkey(OPERATOR), Nkey(ACCOUNT), Nkey(USER)
    system = Nkey(ACCOUNT)
    accounts = {
        account.public: operator.says(
            account.public, "agents", type="account", limits={**LIMITS, **JETSTREAM}
        ),
        system.public: operator.says(system.public, "SYS", type="account", limits=LIMITS),
    }
    signer = Nkey(ACCOUNT) if mistake == "another account" else account
    jwt = signer.says(user.public, "server", type="user", subs=-1, data=-1, payload=-1, pub={}, sub={})
    file = tmp_path / "user.creds"
    seed = Nkey(USER).seed if mistake == "another seed" else user.seed
    file.write_text(creds(jwt, seed))
    told = operator.says(operator.public, "op", type="operator", system_account=system.public)
    server = ConfiguredServer(
        operator=told, resolver="MEMORY", resolver_preload=accounts, system_account=system.public
    )
    with server:
        async with linked(server.url, well=False, HOLDFAST_NATS_CREDS=str(file)) as link:
            if mistake is None:
                await until(lambda: link.well)
                assert await link.place.put(entry("a"), over=0) is not None
            else:
                await until(lambda: "refuses our credentials" in link.connection.trouble)
                file.write_text("no credentials")
        async with linked(server.url, well=False) as link:
            await until(lambda: "HOLDFAST_NATS_CREDS" in link.connection.trouble)
    assert seed not in caplog.text
    assert jwt not in caplog.text


async def test_a_broken_file_says_so(tmp_path: Path) -> None:
    with ConfiguredServer() as server:
        for name, text in (("missing", None), ("empty", ""), ("half", creds("jwt", "SU")[:60])):
            file = tmp_path / name
            if text is not None:
                file.write_text(text)
            async with linked(server.url, well=False, HOLDFAST_NATS_CREDS=str(file)) as link:
                await until(lambda: "credentials file" in link.connection.trouble)
                assert "nsc" in link.connection.trouble


@pytest.mark.parametrize(
    "text",
    [
        "",
        creds("jwt", "not-base32!"),
        creds("jwt", "SU"),
        creds("jwt", Nkey(ACCOUNT).seed),
        creds("jwt", Nkey(USER).seed[:-2] + "AA"),
        "x" * 100_000,
    ],
)
def test_what_is_no_credentials_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "user.creds"
    file.write_text(text)
    with pytest.raises(InvalidSetting) as refused:
        read_credentials(str(file))
    assert "not-base32" not in str(refused.value)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidSetting, match="not text"):
        read_credentials(str(tmp_path / "bytes"))


def test_credentials_are_shown_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    key = Nkey(USER)
    file.write_text(creds("the-jwt", key.seed))
    found = read_credentials(str(file))
    assert found.seed == key.key.private_bytes_raw()
    assert "the-jwt" not in f"{found} {found!r} {[found]}"
