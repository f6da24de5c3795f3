"""Token bucket: a rate limit per second with a burst.

A bucket fills by `per_s` up to `burst`. A caller that finds at least one whole unit in it may take more than is there;
the level becomes negative and must refill before the next caller may take. So a cost that is known only afterwards can
be charged.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.time import SECOND


class Rate(msgspec.Struct, frozen=True):
    per_s: int
    burst: int


class TokenBucket(msgspec.Struct, frozen=True):
    """The level of a bucket, in millionths of a unit, at this tick."""

    level: int
    at: int


_UNIT: Final = SECOND


def take(bucket: TokenBucket | None, rate: Rate, now: int, cost: int = 1) -> tuple[TokenBucket, int]:
    """Take the cost: returns the bucket afterwards, and how long to wait; 0 if the cost was taken. An unused bucket is
    full."""
    full = rate.burst * _UNIT
    level = full if bucket is None else min(full, bucket.level + max(0, now - bucket.at) * rate.per_s)
    if level < _UNIT:
        return TokenBucket(level, now), -(-(_UNIT - level) // rate.per_s)
    return TokenBucket(level - cost * _UNIT, now), 0


def check_rate(rate: Rate) -> Rate:
    """Return the rate, or raise an error that says what to change."""
    if rate.per_s < 1 or rate.burst < 1:
        msg = f"a rate of {rate.per_s} in a second and {rate.burst} at once allows no request"
        raise InvalidSetting(msg, hint="Give at least 1, or leave the limit as it is.")
    return rate
