"""A credentials file of NATS: a signed user JWT, and the seed of the key that proves it.

    -----BEGIN NATS USER JWT-----
    eyJ0eXAiOiJKV1Qi…
    ------END NATS USER JWT------
    -----BEGIN USER NKEY SEED-----
    SUAB…
    ------END USER NKEY SEED------

It is read here and not by the client library: that loops for ever on a file without the first line, and needs another
package to sign. A seed is base32 of two bytes that name its type, 32 bytes of an Ed25519 key, and a checksum.
"""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.limits import KIB

BYTES_MAX: Final = 64 * KIB
_JWT: Final = re.compile(r"-----BEGIN NATS USER JWT-----\s+(\S+)\s+-+END NATS USER JWT-+")
_SEED: Final = re.compile(r"-----BEGIN USER NKEY SEED-----\s+(\S+)\s+-+END USER NKEY SEED-+")
_HINT: Final = "HOLDFAST_NATS_CREDS names a file as `nsc generate creds` writes it."


class Credentials(msgspec.Struct, frozen=True):
    """The user JWT and the signing key. Printed nowhere."""

    jwt: str
    seed: bytes

    def __repr__(self) -> str:
        return "Credentials(…)"

    def sign(self, nonce: str) -> bytes:
        """Sign the server's nonce, in the encoding that it expects."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            msg = "HOLDFAST_NATS_CREDS is set, and what signs with it is not installed"
            raise InvalidSetting(msg, hint="pip install 'holdfast[crypto]'") from error
        return base64.b64encode(Ed25519PrivateKey.from_private_bytes(self.seed).sign(nonce.encode()))


def read_credentials(path: str) -> Credentials:
    """Read the file.

    Raises:
        InvalidSetting: It cannot be read, or lacks the JWT or the seed. The message does not repeat its content.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(BYTES_MAX).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidSetting(f"the credentials file of NATS cannot be read: {why}", hint=_HINT) from None
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise InvalidSetting("the credentials file of NATS has no user JWT and seed in it", hint=_HINT)
    return Credentials(jwt[1], _decode_seed(seed[1]))


def _decode_seed(seed: str) -> bytes:
    try:
        data = base64.b32decode(seed + "=" * (-len(seed) % 8))
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != 36 or not seed.startswith("SU") or _checksum(data[:-2]) != data[-2:]:
        raise InvalidSetting("the seed in the credentials file of NATS is none of a user", hint=_HINT)
    return data[2:34]


def _checksum(data: bytes) -> bytes:
    return binascii.crc_hqx(data, 0).to_bytes(2, "little")
