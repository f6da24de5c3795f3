"""Time as integers: microseconds since 1970 for instants, microseconds for durations.

Floats are not exact enough: a double has 53 bits, and from the year 2242 on it loses single microseconds, after which
two events may share one instant. Integers also mean the same in SQLite, Postgres, JSON and a hash. Nothing here reads a
clock; the current instant always arrives as an argument.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.limits import DURATION_US_MAX, INSTANT_US_MAX

Micros: TypeAlias = int
Duration: TypeAlias = str | int | float | timedelta

MICROSECOND: Final = 1
MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND, "µs": MICROSECOND}
_SPELLINGS: Final = {**_UNITS, "us": MICROSECOND, "\N{GREEK SMALL LETTER MU}s": MICROSECOND}
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµμ]+)\s*")
_ISO: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_DURATION_HINT: Final = 'Write "250ms", "90s", "1h30m" or "3d", or give a number of seconds.'
_INSTANT_HINT: Final = 'Write instants as "2026-11-15T21:53:26.000001Z", with Z or an offset such as +02:00.'


def parse_duration(value: Duration) -> Micros:
    """Return a duration in microseconds: "3d", "1h30m", "1.5s", "250ms", a number of seconds, or a timedelta.

    Raises:
        InvalidSetting: Not a duration, negative, text finer than a microsecond, or longer than a century.
    """
    try:
        us = _to_us(value)
    except (ValueError, OverflowError, InvalidOperation):
        raise InvalidSetting(f"{value!r} is not a duration", hint=_DURATION_HINT) from None
    if not 0 <= us <= DURATION_US_MAX:
        limit = "below zero" if us < 0 else "longer than a century"
        raise InvalidSetting(f"the duration {value!r} is {limit}", hint=_DURATION_HINT)
    return us


def _to_us(value: Duration) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value * SECOND
    if isinstance(value, float):
        # As it is printed: 0.1 means a tenth, not the nearest double. The rounding error of float sums is rounded
        # off.
        return int((Decimal(repr(value)) * SECOND).to_integral_value())
    if isinstance(value, str):
        return _parse_text(value)
    raise ValueError(type(value))


def _parse_text(text: str) -> int:
    total, position, larger = 0, 0, DAY + 1
    while part := _PART.match(text, position):
        unit = _SPELLINGS.get(part[2], 0)
        if not 0 < unit < larger or len(part[1]) > 20:
            raise ValueError  # unknown, repeated, or out of order
        total += _to_integer(Decimal(part[1]) * unit)
        position, larger = part.end(), unit
    if position == 0 or position != len(text):
        raise ValueError
    return total


def _to_integer(number: Decimal) -> int:
    if number != number.to_integral_value():
        raise ValueError
    return int(number)


def show_duration(us: Micros) -> str:
    """Return a duration as people read it, exactly: "1 h 30 m", "250 ms", "0 s". `parse_duration` reads it."""
    assert us >= 0, f"a duration is not negative: {us}"
    parts = []
    for name, unit in _UNITS.items():
        count, us = divmod(us, unit)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0 s"


def to_iso(us: Micros) -> str:
    """Return an instant as "2026-11-15T21:53:26.000001Z": always UTC, always six digits, so text sorts like
    time.

    Raises:
        InvalidPayload: Before 1970 or after 9999.
    """
    if not 0 <= us <= INSTANT_US_MAX:
        raise InvalidPayload(f"the instant {us} lies outside the years 1970 to 9999", hint=_INSTANT_HINT)
    return f"{_EPOCH + timedelta(microseconds=us):%Y-%m-%dT%H:%M:%S.%fZ}"


def from_iso(text: str) -> Micros:
    """Return the instant that an RFC 3339 text names. Digits beyond the microsecond are cut, never rounded
    up.

    Raises:
        InvalidPayload: Not RFC 3339, without a zone, no such date, or outside the years 1970 to 9999.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        raise InvalidPayload(f"{text[:100]!r} is not an instant", hint=_INSTANT_HINT)
    *fields, fraction, sign, hours, minutes = found.groups()
    year, month, day, hour, minute, second = map(int, fields)
    micros = int((fraction or "0").ljust(6, "0")[:6])
    try:
        local = datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC)
        if sign and (int(hours) > 23 or int(minutes) > 59):
            raise ValueError("an offset goes up to 23:59")
    except ValueError as error:
        raise InvalidPayload(f"{text!r} is not an instant: {error}", hint=_INSTANT_HINT) from None
    offset = (int(hours) * HOUR + int(minutes) * MINUTE) * (-1 if sign == "-" else 1) if sign else 0
    us = (local - _EPOCH) // timedelta(microseconds=1) - offset
    if not 0 <= us <= INSTANT_US_MAX:
        raise InvalidPayload(f"{text!r} lies outside the years 1970 to 9999", hint=_INSTANT_HINT)
    return us
