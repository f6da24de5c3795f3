"""Ids: generated ids, and the rules for names that users choose.

Generated ids sort by the time they were made, so an index on them grows at its end and a listing is chronological
without a second column: a short prefix that names the type, then a UUIDv7 in Crockford's base 32 (no i, l, o, u to
confuse, case does not matter, one double click selects it all).

    job_06h57w4p2ksb3f1cqn8xv0zt6e

Randomness is injected: code that needs ids receives an `IdSource`; tests and simulations pass in a counter.
"""

from __future__ import annotations

import itertools
import re
from typing import Final, NewType, Protocol

import uuid_utils

from holdfast.errors import InvalidName, InvalidPayload
from holdfast.model import redaction
from holdfast.model.limits import INTEGER_MAX, NAME_LENGTH_MAX

Namespace = NewType("Namespace", str)
JobId = NewType("JobId", str)
StepKey = NewType("StepKey", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
NodeId = NewType("NodeId", str)
FrameId = NewType("FrameId", str)
BatchId = NewType("BatchId", str)
ClaimId = NewType("ClaimId", str)
AttachmentId = NewType("AttachmentId", str)
WorkerId = NewType("WorkerId", str)

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_SHIFTS: Final = tuple(range(120, -1, -10))

# C0, DEL, C1 and surrogates. Everything else is allowed, in any script and unnormalised: what
# looks odd is made visible where it is shown, and two spellings that look alike are still two names.
_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class IdSource(Protocol):
    """Source of new ids."""

    def new(self, prefix: str) -> str:
        """Return an id that this source has not returned before and that sorts after all it has."""
        ...


class RandomIds:
    """Ids for production: unique across machines, in order within a process, reseeded in a forked child."""

    __slots__ = ()

    def new(self, prefix: str) -> str:
        return f"{prefix}_{base32(uuid_utils.uuid7().int)}"


class SequentialIds:
    """Ids for tests and simulations: the same seed gives the same ids; different seeds never meet."""

    __slots__ = ("_count", "_high")

    def __init__(self, seed: int = 0) -> None:
        assert 0 <= seed < 2**64, f"the seed must fit in 64 bits: {seed}"
        self._high = seed << 64
        self._count = itertools.count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{base32(self._high + next(self._count))}"


def base32(number: int) -> str:
    """Return 128 bits as 26 characters that sort like the numbers they encode."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])


def check_name(value: object, label: str) -> str:
    """Return an id or key that a user supplied, or raise an error that says what is wrong with it and where.

    Raises:
        InvalidName: Not text, empty, longer than 200 characters, with a control character or a lone surrogate,
        or with a secret in it: a name is shown everywhere and cannot be redacted, since a changed name is another name.
    """
    if not isinstance(value, str):
        raise InvalidName(f"{label} must be text, not {type(value).__qualname__}")
    if not 1 <= len(value) <= NAME_LENGTH_MAX:
        raise InvalidName(f"{label} has {len(value):,} characters; allowed are 1 to {NAME_LENGTH_MAX}")
    if not value.isprintable() and (found := _REFUSED.search(value)):
        raise InvalidName(f"{label} has the character U+{ord(found[0]):04X} at position {found.start()}")
    if redaction.get_redactor().holds_secret(value):
        raise InvalidName(
            f"{label} holds a secret",
            hint="Names are stored and shown in plain text. Use a name without the secret.",
        )
    return value


def check_integer(value: object, label: str) -> int:
    """Return a number that a user supplied, or reject it here, before a database finds that it does not fit.

    Raises:
        InvalidPayload: Not an integer, or beyond ±(2**63-1).
    """
    if type(value) is not int or not -INTEGER_MAX <= value <= INTEGER_MAX:
        raise InvalidPayload(f"{label} must be an integer from -(2**63-1) to 2**63-1")
    return value
