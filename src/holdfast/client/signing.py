"""Signing: Ed25519 signatures of exports. The key is a PEM file that only its owner may read, named by
HOLDFAST_SIGNING_KEY."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import InvalidPayload, InvalidSetting

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SETTING: Final = "HOLDFAST_SIGNING_KEY"
_PURPOSE: Final = b"holdfast export v1\n"
"""Part of the signed bytes, so that a signature made for another purpose is not valid for an export."""


class ExportSignature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    algorithm: str
    public_key: str
    signature: str


class Key:
    """A private key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes, with which others verify."""
        return self._private.public_key().public_bytes_raw()

    def signature_of(self, manifest: bytes) -> bytes:
        raw_signature = self._private.sign(_PURPOSE + manifest)
        document = ExportSignature(
            "ed25519", format_public_key(self.public), base64.b64encode(raw_signature).decode()
        )
        return msgspec.json.encode(document, order="sorted")


def format_public_key(public: bytes) -> str:
    """A public key as text."""
    return base64.b64encode(public).decode()


def signing_key() -> Key | None:
    """The key that HOLDFAST_SIGNING_KEY names; None if it is not set."""
    where = os.environ.get(SETTING, "")
    return read_key(Path(where)) if where else None


def read_key(path: Path) -> Key:
    """The key in this file, which only its owner may read."""
    serialization, ed25519 = _library()
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            msg = f"others can read the signing key {path.name!r}"
            raise InvalidSetting(
                msg, hint=f"chmod 600 {path.name}, or create a new key: holdfast export-key FILE"
            )
        private = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        msg = f"the signing key cannot be read: {error.strerror}"
        raise InvalidSetting(msg, hint=f"Check {SETTING}; `holdfast export-key FILE` makes a key.") from None
    except (ValueError, TypeError) as error:
        raise InvalidSetting(
            "the signing key is no PEM file of a private key", hint=str(error)[:200]
        ) from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise InvalidSetting(
            "the signing key is of another kind", hint="Use Ed25519: holdfast export-key FILE."
        )
    return Key(private)


def make_key(path: Path) -> Key:
    """Creates a key in this file, which must not exist."""
    serialization, ed25519 = _library()
    private = ed25519.Ed25519PrivateKey.generate()
    data = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
    except OSError as error:
        msg = f"the key cannot be written: {error.strerror}"
        raise InvalidSetting(msg, hint="Name a new file; an existing key is not replaced.") from None
    return Key(private)


def public_key(text_or_path: str) -> bytes:
    """The 32 bytes of a public key: as `export-key` printed it, or from a file that holds it."""
    text = (
        Path(text_or_path).read_text(encoding="utf-8").strip()
        if Path(text_or_path).is_file()
        else text_or_path
    )
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise InvalidSetting(
            "not a public key", hint="Pass the 44 characters that `holdfast export-key` printed."
        )
    return raw


def check_signature(manifest: bytes, signature: bytes | None, expected_key: bytes | None) -> tuple[str, bool]:
    """The signer's public key (empty if the manifest is not signed), and whether it is the wanted one; raises if the
    signature is invalid."""
    if signature is None:
        if expected_key is not None:
            raise InvalidPayload("the export is not signed", hint="Ask for one that is.")
        return "", False
    try:
        document = msgspec.json.decode(signature, type=ExportSignature)
        public, raw_signature = (
            base64.b64decode(text, validate=True) for text in (document.public_key, document.signature)
        )
    except (msgspec.MsgspecError, ValueError):
        raise InvalidPayload("the signature cannot be read") from None
    if msgspec.json.encode(document, order="sorted") != signature or document.algorithm != "ed25519":
        raise InvalidPayload("the signature is not written as an export's is")
    if expected_key is not None and public != expected_key:
        raise InvalidPayload(f"the export is signed by another key: {document.public_key}")
    if not _holds(public, raw_signature, manifest):
        raise InvalidPayload("the signature does not fit the manifest")
    return document.public_key, expected_key is not None


def _holds(public: bytes, raw_signature: bytes, manifest: bytes) -> bool:
    _, ed25519 = _library()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(public).verify(raw_signature, _PURPOSE + manifest)
    except (InvalidSignature, ValueError):
        return False
    return True


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise InvalidSetting(
            "signatures need a library that is not installed", hint="pip install 'holdfast[crypto]'"
        ) from error
    return serialization, ed25519
