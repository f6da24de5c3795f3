"""Canonical JSON: one value, one sequence of bytes, so that equal values have equal digests.

Arguments are compared by digest to tell "the same call again" from "another call under the same key", and the hash
chain of a journal covers digests of payloads. Both break if equal values can be written in two ways, or if a value is
decoded to something other than what was encoded. So Holdfast stores fewer values than Python can hold, and more than
most JSON libraries:

    written as  keys sorted by code point, no spaces, UTF-8, shortest floats; 1 stays 1 and 1.0 stays 1.0
    rejected    NaN and Infinity, keys that are not text, duplicate keys, integers beyond ±(2**63-1), nesting
                beyond 64, values that contain themselves, more than 1 MiB, every type that JSON does not have; the
                error names the place
    kept        lone surrogates, which text from a model does contain: written as \\udXXX, read back the same

Four conversions are deliberate. A tuple is written as an array and read back as a list. A member of a StrEnum or
IntEnum is written as the value it equals. An instance of any other subclass of str, int, float, list, tuple or dict is
written as its base class, whatever methods the subclass has. A high surrogate directly before a low one is written as
the character that the pair encodes, because JSON has no way to keep them apart.

Fast path: msgspec writes and reads, and Python code checks only for what msgspec accepts wrongly (it writes NaN as
null, bytes as base64, and takes the last of duplicate keys). Reading detects duplicates by encoding again: bytes that
are reproduced exactly are canonical, and canonical bytes have no duplicates. Everything unusual takes the slow path in
`canonical_fallback`, which also composes the errors.

`encode` also removes secrets: `redaction` defines them, and why they are removed here.
"""

from __future__ import annotations

from hashlib import sha256
from math import isfinite
from typing import Any, Final

import msgspec

from holdfast.model import canonical_fallback, redaction
from holdfast.model.limits import INTEGER_MAX, JSON_BYTES_MAX, JSON_DEPTH_MAX

_write = msgspec.json.Encoder(order="deterministic").encode
_read = msgspec.json.Decoder().decode
_INTEGER_MIN: Final = -INTEGER_MAX

SCALARS: Final = frozenset({str, int, float, bool, type(None)})
"""Types whose values JSON represents directly."""

# Numbers of 19 digits may exceed INTEGER_MAX; shorter ones cannot. Digits become "0" and all else a space,
# because translate and find run eight times faster than a regular expression here.
_DIGITS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_NUMBER: Final = b"0" * len(str(INTEGER_MAX))


def encode(value: object, *, bytes_max: int = JSON_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX) -> bytes:
    """Return the canonical bytes of a JSON value, without the secrets in it.

    Raises:
        InvalidPayload: The value is not JSON we store, or is nested deeper than `depth_max`; the message holds a JSON
            pointer to the place.
        TooLarge: Its canonical form has more than `bytes_max` bytes.
    """
    if not _is_flat(value, bytes_max) and not _is_plain(value, bytes_max, depth_max):
        value = _simplify(value, bytes_max, depth_max)
    try:
        data = _write(value)
    except UnicodeEncodeError:
        data = canonical_fallback.write(value)
    except TypeError:  # a key that is not a string; the walk above looks at values only
        data = canonical_fallback.write(_simplify(value, bytes_max, depth_max))
    rules = redaction.current
    if rules.suspects(data) and rules.is_needed(data):
        data = _redact_bytes(rules, value, data)
    if len(data) > bytes_max:
        raise canonical_fallback.too_large(len(data), bytes_max)
    return data


def _redact_bytes(rules: redaction.Redactor, value: object, data: bytes) -> bytes:
    changed = rules.value(value)
    if changed is value:
        return data
    try:
        return _write(changed)
    except UnicodeEncodeError:
        return canonical_fallback.write(changed)


def decode(data: bytes, *, bytes_max: int = JSON_BYTES_MAX) -> Any:
    """Return the value of a JSON document from any source, canonical or not; reject what `encode` would not write.

    Raises:
        InvalidPayload: Not JSON, or not JSON we store.
        TooLarge: More than `bytes_max` bytes; nothing was parsed.
    """
    if len(data) > bytes_max:
        raise canonical_fallback.too_large(len(data), bytes_max)
    try:
        value = _read(data)
        few_brackets = data.count(b"[") + data.count(b"{") <= JSON_DEPTH_MAX
        small_numbers = _LONG_NUMBER not in data.translate(_DIGITS)
        if _write(value) == data and ((few_brackets and small_numbers) or _is_plain(value, bytes_max)):
            return value
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # The slow path finds the same fault and names its place.
    return canonical_fallback.read(data)


def decode_stored(data: bytes) -> Any:
    """Return the value of bytes that `encode` wrote; checks nothing, so check their digest first."""
    try:
        return _read(data)
    except msgspec.DecodeError:  # lone surrogates
        return canonical_fallback.read(data)


def digest(data: bytes) -> bytes:
    """Return the SHA-256 of bytes: 32 raw bytes, as stored in columns and chains."""
    return sha256(data).digest()


def hex_digest(data: bytes) -> str:
    """Return the SHA-256 of bytes: 64 lower-case hexadecimal digits, as shown to people."""
    return sha256(data).hexdigest()


def digest_of(value: object) -> bytes:
    """Return the digest of a value's canonical bytes."""
    return sha256(encode(value)).digest()


def _is_flat(value: object, bytes_max: int) -> bool:
    """Whether the value is an object of text, integers, booleans and null, as most arguments are: a quick check for the
    common case."""
    if type(value) is not dict:
        return False
    size = len(value)
    for item in value.values():
        kind = type(item)
        if kind is str:
            size += len(item)
        elif kind is int:
            if not _INTEGER_MIN <= item <= INTEGER_MAX:
                return False
        elif kind is not bool and item is not None:
            return False
    return size <= bytes_max


def _is_plain(value: object, bytes_max: int, depth_max: int = JSON_DEPTH_MAX) -> bool:
    """Whether msgspec writes this value faithfully and within the limits; msgspec itself checks the keys.

    The check goes level by level, because depth then costs one addition per level. The size is a lower bound, computed
    before anything is written: a small object that contains itself many times over would otherwise fill the memory
    first.
    """
    level: list[Any] = [value] if type(value) is dict else [(value,)]
    depth = 0 if type(value) is dict else -1
    size = 0
    while level:
        if depth == depth_max:
            return False
        depth += 1
        deeper: list[Any] = []
        for container in level:
            size += len(container)
            for item in container.values() if type(container) is dict else container:
                kind = type(item)
                if kind is str:
                    size += len(item)
                elif kind is int:
                    if not -INTEGER_MAX <= item <= INTEGER_MAX:
                        return False
                elif kind is dict or kind is list or kind is tuple:
                    deeper.append(item)
                elif kind is float:
                    if not isfinite(item):
                        return False
                elif kind is not bool and item is not None and not canonical_fallback.is_plain_enum(item):
                    return False
            if size > bytes_max:
                return False
        level = deeper
    return True


def _simplify(value: object, bytes_max: int, depth_max: int) -> Any:
    """The value without subclasses of JSON's types; or raise the error that says why it cannot be stored."""
    simple = canonical_fallback.simplify(value, bytes_max, depth_max)
    if not _is_plain(simple, bytes_max, depth_max):
        raise canonical_fallback.too_large(None, bytes_max)
    return simple
