"""Encryption at rest: an executor that encrypts payloads before they are written, and decrypts them when read.

The tables do not know about it. The name of a parameter decides whether its value is encrypted; names mean the same in
all statements. A value to decrypt is recognised by its envelope. A namespace's key is found through the namespace among
the values, or through the job, whose namespace never changes.

Names (ids, keys, kinds, tools, reasons of waiting), times, numbers, digests and hashes are not encrypted: routing,
fencing and the hash chain need them.

Payloads are encrypted with AES-256-GCM under a key of their namespace.

The key file (HOLDFAST_PAYLOAD_KEYS, readable by its owner alone) is JSON, oldest key first:

    {"keys": [{"id": "k1", "namespace": "*", "key": "<32 bytes in base64>"}, {"id": "k2", …}]}

The last key that fits a namespace encrypts; all keys decrypt. So an operator rotates a key by adding another, and
removes the old one once no stored payload needs it. Each namespace has a key of its own, derived from the one in the
file: one tenant's key cannot read another tenant's payloads.

The nonce is derived from the key, the place and the payload (as in a synthetic IV), so writing the same payload again
gives the same bytes, and no random numbers are needed. Different payloads have different nonces. A reader of the
database can see that two payloads in one place are equal.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import InvalidSetting, StoreCorrupt
from holdfast.model.envelope import NONCE_BYTES, Envelope, encode_envelope, is_sealed, read
from holdfast.model.jobs import DEFAULT_NAMESPACE, JobHead
from holdfast.store.executor import Executor, Row, Transaction, Value, Work

T = TypeVar("T")

PAYLOADS: Final = frozenset(
    {"body", "configuration", "request", "checkpoint", "states", "assignment", "snapshot", "meta"}
)
"""Parameters that hold payloads."""

COLUMNS: Final = frozenset({"each_body", "event_body", "bodies", "node_bodys"})
"""Parameters that hold the payloads of many rows."""

_PLACED_BY: Final = (
    "job_id", "mail_seq", "session_id", "node_id", "frame_id", "batch_id", "item_index", "fence", "last",
    "agent_id", "schedule_id",
)  # fmt: skip
_EVENT: Final = frozenset({"insert_event", "append_event"})
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_JOBS_MAX: Final = 100_000
_HEAD: Final = len(JobHead.__struct_fields__)


class EncryptingTransaction:
    """A transaction with plain payloads, over one with encrypted payloads."""

    seals = True

    def __init__(self, inner: Transaction, outer: EncryptingExecutor) -> None:
        self._inner = inner
        self._outer = outer

    @property
    def batches(self) -> bool:
        return self._inner.batches

    async def rows(self, statement: str, /, **values: Value) -> Sequence[Row]:
        return self._outer.decrypt_rows(
            statement,
            values,
            await self._inner.rows(statement, **await self._encrypt_values(statement, values)),
        )

    async def row(self, statement: str, /, **values: Value) -> Row | None:
        row = await self._inner.row(statement, **await self._encrypt_values(statement, values))
        return None if row is None else self._outer.decrypt_rows(statement, values, [row])[0]

    async def run(self, statement: str, /, **values: Value) -> None:
        await self._inner.run(statement, **await self._encrypt_values(statement, values))

    async def rows_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> Sequence[Row]:
        return await self._inner.rows_each(
            statement, [await self._encrypt_values(statement, each) for each in values]
        )

    async def change_each(self, statement: str, values: Sequence[dict[str, Value]], /) -> int:
        return await self._inner.change_each(
            statement, [await self._encrypt_values(statement, each) for each in values]
        )

    def hint(self, topic: str) -> None:
        self._inner.hint(topic)

    async def _encrypt_values(self, statement: str, values: dict[str, Value]) -> dict[str, Value]:
        for job_id in self._outer.find_unknown_jobs(statement, values):
            row = await self._inner.row("get_head", job_id=job_id)
            self._outer.cache_namespace(job_id, DEFAULT_NAMESPACE if row is None else row[1])
        return self._outer.encrypt_values(statement, values)


class EncryptingExecutor:
    """An executor that encrypts, over another one. Attributes that are not defined here are those of the other
    executor."""

    seals = True

    def __init__(self, inner: Executor, codec: Codec) -> None:
        self._inner = inner
        self._codec = codec
        self._namespaces: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def batches(self) -> bool:
        return self._inner.batches

    async def write(self, work: Work[T], *, gathered: bool = False) -> T:
        return await self._inner.write(self._wrap_work(work), gathered=gathered)

    def write_now(self, work: Work[T]) -> T | None:
        return self._inner.write_now(self._wrap_work(work))

    async def write_each(self, works: Sequence[Work[T]]) -> list[Any]:
        return await self._inner.write_each([self._wrap_work(work) for work in works])

    async def read(self, work: Work[T], *, snapshot: bool = False, brief: bool = False) -> T:
        return await self._inner.read(self._wrap_work(work), snapshot=snapshot, brief=brief)

    async def run_statement(self, statement: str, /, **values: Value) -> Sequence[Row]:
        unknown = self.find_unknown_jobs(statement, values)
        if unknown:

            async def look(tx: Transaction) -> None:
                for job_id in unknown:
                    row = await tx.row("get_head", job_id=job_id)
                    self.cache_namespace(job_id, DEFAULT_NAMESPACE if row is None else row[1])

            await self._inner.read(look, brief=True)
        return self.decrypt_rows(
            statement,
            values,
            await self._inner.run_statement(statement, **self.encrypt_values(statement, values)),
        )

    def send_wakeups(self, topics: Iterable[str]) -> None:
        self._inner.send_wakeups(topics)

    def _wrap_work(self, work: Work[T]) -> Work[T]:
        async def run_encrypted(tx: Transaction) -> T:
            return await work(EncryptingTransaction(tx, self))

        return run_encrypted

    # ── namespaces of jobs ────────────────────────────────────────────────────────────────────────

    def cache_namespace(self, job_id: str, namespace: str) -> None:
        if len(self._namespaces) >= _JOBS_MAX:
            self._namespaces.clear()
        self._namespaces[job_id] = namespace

    def find_unknown_jobs(self, statement: str, values: dict[str, Any]) -> list[str]:
        """Jobs whose namespace this statement needs for encryption and the executor does not know yet."""
        if not (PAYLOADS | COLUMNS) & values.keys():
            return []
        for job_id, namespace in zip(
            _get_values(values, "job_id"), _get_values(values, "namespace"), strict=False
        ):
            self.cache_namespace(job_id, namespace)
        if "namespace" in values or "each_namespace" in values:
            return []
        return [
            job_id
            for job_id, _ in _list_places(statement, values)
            if job_id and job_id not in self._namespaces
        ]

    # ── encrypting and decrypting ─────────────────────────────────────────────────────────────────

    def encrypt_values(self, statement: str, values: dict[str, Any]) -> dict[str, Any]:
        """The values with ciphertext in place of payloads. The caller's dictionary is not changed."""
        changed: dict[str, Any] = {}
        for name in PAYLOADS & values.keys():
            data = values[name]
            if isinstance(data, bytes) and data:
                namespace = self._find_namespace(values, str(values.get("job_id") or ""))
                changed[name] = self._codec.seal(namespace, _format_place(statement, name, values), data)
        for name in COLUMNS & values.keys():
            changed[name] = self._encrypt_column(statement, name, values)
        return {**values, **changed} if changed else values

    def _encrypt_column(self, statement: str, name: str, values: dict[str, Any]) -> list[bytes | None]:
        bodies: Any = values[name]
        if name == "node_bodys":
            nodes: Any = values["node_node_ids"]
            places = [("", f"put_node/{values['session_id']}/{node}#body") for node in nodes]
        else:
            places = _list_places(statement, values)
        return [
            body if not body else self._codec.seal(self._find_namespace(values, job_id), place, body)
            for body, (job_id, place) in zip(bodies, places, strict=True)
        ]

    def _find_namespace(self, values: dict[str, Any], job_id: str) -> str:
        namespace = values.get("namespace")
        return namespace if isinstance(namespace, str) else self._namespaces.get(job_id, DEFAULT_NAMESPACE)

    def decrypt_rows(self, statement: str, values: dict[str, Any], rows: Sequence[Row]) -> Sequence[Row]:
        """The rows with payloads in place of ciphertext."""
        if not any(is_sealed(cell) for row in rows for cell in row):
            return rows
        return [
            tuple(
                self._codec.open(cell, _list_expected_places(statement, values, row))
                if is_sealed(cell)
                else cell
                for cell in row
            )
            for row in rows
        ]


def _format_place(statement: str, name: str, values: dict[str, Any]) -> str:
    if statement in _EVENT:
        return f"event/{values['job_id']}/{values['seq']}"
    if statement == "put_blob":
        digest = values["digest"]
        return f"blob/{digest.hex() if isinstance(digest, bytes) else digest}"
    parts = [str(values[key]) for key in _PLACED_BY if values.get(key) is not None]
    return f"{statement}/{'/'.join(parts)}#{name}"


def _list_places(statement: str, values: dict[str, Any]) -> list[tuple[str, str]]:
    """The job and the place of each event that the statement writes."""
    if statement in _EVENT:
        return [(str(values["job_id"]), "")]
    match statement:
        case "append_events":
            seqs = [seq + 1 for seq in _get_values(values, "seen_seq")]
        case "submit_jobs":
            seqs = [1] * len(_get_values(values, "job_id"))
        case "grant_leases":
            jobs: Any = values["job_ids"]
            heads: Any = values["head_seqs"]
            return [(job, f"event/{job}/{seq}") for job, seq in zip(jobs, heads, strict=True)]
        case "append_events_and_moves":
            each = _get_values(values, "job_id")
            jobs = [each[nth - 1] for nth in _to_list(values["event_whose"])]
            numbers = _to_list(values["event_seq"])
            return [(job, f"event/{job}/{seq}") for job, seq in zip(jobs, numbers, strict=True)]
        case _ if "event_body" in values:
            jobs, numbers = _to_list(values["event_job_id"]), _to_list(values["event_seq"])
            return [(job, f"event/{job}/{seq}") for job, seq in zip(jobs, numbers, strict=True)]
        case _:
            job_id = values.get("job_id")
            return [(str(job_id), "")] if job_id else []
    return [(job, f"event/{job}/{seq}") for job, seq in zip(_get_values(values, "job_id"), seqs, strict=True)]


def _get_values(values: dict[str, Any], name: str) -> list[Any]:
    """The values of one parameter: a single value, or a column, which may also be written as an array literal."""
    if f"each_{name}" in values:
        return _to_list(values[f"each_{name}"])
    return [values[name]] if values.get(name) is not None else []


def _to_list(column: Any) -> list[Any]:
    if not isinstance(column, str):
        return list(column)
    if column.startswith('{"'):
        return [re.sub(r"\\(.)", r"\1", text) for text in _QUOTED.findall(column)]
    return [int(text) for text in column.strip("{}").split(",") if text not in {"", "NULL"}]


def _list_expected_places(statement: str, values: dict[str, Any], row: Row) -> tuple[str, ...]:
    """The places for which an event body or a blob may have been written; empty where another digest detects a swap."""
    match statement:
        case "load_journal" | "load_journal_ends":
            return (f"event/{values['job_id']}/{row[0]}", f"blob/{bytes(row[6]).hex()}")
        case "load_journals":
            return (f"event/{row[0]}/{row[1]}", f"blob/{bytes(row[7]).hex()}")
        case "get_head_with_events":
            seq, digest = row[_HEAD], row[_HEAD + 6]  # the columns of the event follow those of the head
            return (f"event/{row[0]}/{seq}", f"blob/{bytes(digest).hex()}")
        case "get_blob":
            return (f"blob/{values['digest'].hex()}",)
        case _:
            return ()


EVERY: Final = "*"


class PayloadKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key of the key file."""

    id: str
    key: str
    namespace: str = EVERY


class KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: tuple[PayloadKey, ...]


class Codec:
    """Encrypts payloads, and decrypts those whose key it has."""

    def __init__(self, keys: Sequence[PayloadKey]) -> None:
        self._masters = {key.id: (key, _decode_key(key)) for key in keys}
        if len(self._masters) != len(keys) or not keys:
            msg = "the file of payload keys is empty, or two keys have the same id"
            raise InvalidSetting(msg, hint="Add keys with: holdfast payload-key FILE")
        self._keys: dict[tuple[str, str], tuple[Any, bytes]] = {}

    def wrap_executor(self, executor: Executor) -> Executor:
        """The executor, with payloads encrypted when written and decrypted when read."""
        return EncryptingExecutor(executor, self)

    def seal(self, namespace: str, place: str, data: bytes) -> bytes:
        """Encrypt the payload with the namespace's key; returns it unchanged if no key fits the namespace."""
        key_id = next(
            (key.id for key, _ in reversed(self._masters.values()) if key.namespace in {namespace, EVERY}),
            None,
        )
        if key_id is None:
            return data
        cipher, nonce_key = self._find_key(key_id, namespace)
        associated_data = _encode_associated_data(namespace, key_id, place)
        nonce = hmac.digest(nonce_key, associated_data + hashlib.sha256(data).digest(), "sha256")[
            :NONCE_BYTES
        ]
        return encode_envelope(
            Envelope(key_id, f"{namespace}\x1f{place}", nonce, cipher.encrypt(nonce, data, associated_data))
        )

    def open(self, data: bytes, places: Sequence[str] = ()) -> bytes:
        """Decrypt an envelope; returns the bytes unchanged if they are no envelope, or if its key is missing here.

        Raises StoreCorrupt if the envelope was changed, or lies in another place than it was written for.
        """
        envelope = read(data)
        if envelope is None or envelope.key_id not in self._masters:
            return data
        namespace, _, place = envelope.place.partition("\x1f")
        if places and place not in places:
            msg = f"an encrypted payload of {place!r} lies at {places[0]!r}"
            raise StoreCorrupt(msg)
        cipher, _ = self._find_key(envelope.key_id, namespace)
        from cryptography.exceptions import InvalidTag

        try:
            payload: bytes = cipher.decrypt(
                envelope.nonce, envelope.sealed, _encode_associated_data(namespace, envelope.key_id, place)
            )
        except InvalidTag:
            msg = f"the encrypted payload at {place!r} was changed, or its key is another one of the same id"
            raise StoreCorrupt(msg) from None
        return payload

    def _find_key(self, key_id: str, namespace: str) -> tuple[Any, bytes]:
        pair = self._keys.get((key_id, namespace))
        if pair is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            master = self._masters[key_id][1]
            parts = [
                hmac.digest(master, f"{use}\0{namespace}".encode(), "sha256") for use in ("cipher", "nonce")
            ]
            pair = self._keys[key_id, namespace] = (AESGCM(parts[0]), parts[1])
        return pair


def _encode_associated_data(namespace: str, key_id: str, place: str) -> bytes:
    return f"{namespace}\0{key_id}\0{place}".encode("utf-8", "surrogatepass")


def _decode_key(key: PayloadKey) -> bytes:
    try:
        raw = base64.b64decode(key.key, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != 32 or not 1 <= len(key.id.encode()) <= 255:
        msg = f"payload key {key.id[:40]!r} is not 32 bytes in base64"
        raise InvalidSetting(msg, hint="Create one: holdfast payload-key FILE")
    return raw


def read_keys(path: Path) -> Codec:
    """Read a key file. Raises InvalidSetting if users other than its owner can read it."""
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            msg = f"others can read the payload keys in {path.name!r}"
            raise InvalidSetting(
                msg, hint=f"chmod 600 {path.name}; then replace the keys, if others may have read them."
            )
        listed = msgspec.json.decode(path.read_bytes(), type=KeyFile)
        from cryptography.hazmat.primitives.ciphers import aead as _needed  # noqa: F401
    except OSError as error:
        msg = f"the payload keys cannot be read: {error.strerror}"
        raise InvalidSetting(
            msg, hint="Check HOLDFAST_PAYLOAD_KEYS; `holdfast payload-key FILE` makes keys."
        ) from None
    except msgspec.MsgspecError as error:
        msg = f"the file of payload keys is not valid: {error}"
        raise InvalidSetting(msg, hint="Create or extend one: holdfast payload-key FILE") from None
    except ImportError as error:
        msg = "encryption needs a library that is not installed"
        raise InvalidSetting(msg, hint="pip install 'holdfast[crypto]'") from error
    return Codec(listed.keys)
