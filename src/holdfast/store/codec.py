"""Payloads at rest: AES-256-GCM under a key of their namespace.

The key file (HOLDFAST_PAYLOAD_KEYS, readable by its owner alone) is JSON, oldest key first:

    {"keys": [{"id": "k1", "namespace": "*", "key": "<32 bytes in base64>"}, {"id": "k2", …}]}

The last one that fits a namespace encrypts; all of them decrypt. So a key is changed by adding another, and taken away
once nothing is left that needs it. Each namespace has a key of its own, derived from the one in the file: what belongs
to one tenant cannot be read with another's.

The nonce follows from the key, the place and the payload (as in a synthetic IV), so the same write again is the same
bytes, and no chance is needed. Different payloads have different nonces; equal ones in one place are seen to be equal.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidSetting, StoreCorrupt
from holdfast.model.envelope import NONCE_BYTES, Envelope, read, written
from holdfast.store.executor import Executor
from holdfast.store.sealing import SealingExecutor

EVERY: Final = "*"


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key of the file."""

    id: str
    key: str
    namespace: str = EVERY


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[Listed, ...]


class Codec:
    """Seals payloads, and opens those whose key it has."""

    def __init__(self, keys: Sequence[Listed]) -> None:
        self._masters = {one.id: (one, _raw(one)) for one in keys}
        if len(self._masters) != len(keys) or not keys:
            msg = "the payload keys have no ids of their own, or there are none"
            raise InvalidSetting(msg, hint="Give each key another id: `holdfast payload-key FILE` does.")
        self._keys: dict[tuple[str, str], tuple[Any, bytes]] = {}

    def around(self, executor: Executor) -> Executor:
        """The executor, with payloads sealed on their way in and opened on their way out."""
        return SealingExecutor(executor, self)

    def seal(self, namespace: str, place: str, data: bytes) -> bytes:
        """The payload as only this namespace's key can read it; as it is, if the namespace has none."""
        named = next(
            (one.id for one, _ in reversed(self._masters.values()) if one.namespace in {namespace, EVERY}),
            None,
        )
        if named is None:
            return data
        cipher, chooser = self._key(named, namespace)
        bound = _bound(namespace, named, place)
        nonce = hmac.digest(chooser, bound + hashlib.sha256(data).digest(), "sha256")[:NONCE_BYTES]
        return written(Envelope(named, f"{namespace}\x1f{place}", nonce, cipher.encrypt(nonce, data, bound)))

    def open(self, data: bytes, places: Sequence[str] = ()) -> bytes:
        """The payload inside; the bytes as they are, if they are no envelope or its key is not here.

        StoreCorrupt: it was changed, or it lies in another place than it was written for.
        """
        envelope = read(data)
        if envelope is None or envelope.key_id not in self._masters:
            return data
        namespace, _, place = envelope.place.partition("\x1f")
        if places and place not in places:
            msg = f"an encrypted payload of {place!r} lies at {places[0]!r}"
            raise StoreCorrupt(msg)
        cipher, _ = self._key(envelope.key_id, namespace)
        from cryptography.exceptions import InvalidTag

        try:
            opened: bytes = cipher.decrypt(
                envelope.nonce, envelope.sealed, _bound(namespace, envelope.key_id, place)
            )
        except InvalidTag:
            msg = f"the encrypted payload at {place!r} was changed, or its key is another one of the same id"
            raise StoreCorrupt(msg) from None
        return opened

    def _key(self, named: str, namespace: str) -> tuple[Any, bytes]:
        found = self._keys.get((named, namespace))
        if found is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            master = self._masters[named][1]
            parts = [
                hmac.digest(master, f"{use}\0{namespace}".encode(), "sha256") for use in ("cipher", "nonce")
            ]
            found = self._keys[named, namespace] = (AESGCM(parts[0]), parts[1])
        return found


def _bound(namespace: str, key_id: str, place: str) -> bytes:
    return f"{namespace}\0{key_id}\0{place}".encode("utf-8", "surrogatepass")


def _raw(one: Listed) -> bytes:
    try:
        raw = base64.b64decode(one.key, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32 or not 1 <= len(one.id.encode()) <= 255:
        msg = f"payload key {one.id[:40]!r} is not 32 bytes in base64"
        raise InvalidSetting(msg, hint="`holdfast payload-key FILE` makes one.")
    return raw


def read_keys(path: Path) -> Codec:
    """The codec of a key file that nobody but its owner can read."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            msg = f"others can read the payload keys in {path.name!r}"
            raise InvalidSetting(msg, hint=f"chmod 600 {path.name}; then change the keys, if others did.")
        listed = msgspec.json.decode(path.read_bytes(), type=KeyFile)
        from cryptography.hazmat.primitives.ciphers import aead as _needed  # noqa: F401
    except OSError as error:
        msg = f"the payload keys cannot be read: {error.strerror}"
        raise InvalidSetting(
            msg, hint="Check HOLDFAST_PAYLOAD_KEYS; `holdfast payload-key FILE` makes keys."
        ) from None
    except msgspec.MsgspecError as error:
        msg = f"the file of payload keys is not written as one: {error}"
        raise InvalidSetting(msg, hint="`holdfast payload-key FILE` makes and extends one.") from None
    except ImportError as error:
        msg = "encryption needs a library that is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[crypto]'") from error
    return Codec(listed.keys)
