"""Instants and durations are exact integers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.limits import DURATION_US_MAX, INSTANT_US_MAX
from holdfast.model.time import DAY, HOUR, MINUTE, SECOND, from_iso, parse_duration, show_duration, to_iso

instants = st.integers(0, INSTANT_US_MAX)


@given(instants)
def test_iso_is_exact_over_all_years(us: int) -> None:
    """Write and read instants of 1970 to 9999, and compare with the library's own reading of the text."""
    shown = to_iso(us)
    assert from_iso(shown) == us
    assert len(shown) == 27
    assert datetime.fromisoformat(shown) == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


@given(instants, instants)
def test_iso_text_sorts_like_time(a: int, b: int) -> None:
    """Compare two texts and two numbers."""
    assert (to_iso(a) < to_iso(b)) == (a < b)


@given(instants, st.integers(-23 * 60 - 59, 23 * 60 + 59))
def test_offsets_name_the_same_instant(us: int, offset_minutes: int) -> None:
    """Write an instant with another zone's clock and read it."""
    local = us + offset_minutes * MINUTE
    if not 0 <= local <= INSTANT_US_MAX:
        return
    sign = "-" if offset_minutes < 0 else "+"
    hours, minutes = divmod(abs(offset_minutes), 60)
    assert from_iso(f"{to_iso(local)[:-1]}{sign}{hours:02}:{minutes:02}") == us


@pytest.mark.parametrize(
    "text, us",
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-15T21:53:26.000001Z", 1_794_779_606_000_001),
        ("2026-11-15 21:53:26.5z", 1_794_779_606_500_000),
        ("2026-11-15T23:53:26+02:00", 1_794_779_606_000_000),
        ("2026-11-15T21:53:26.999999999Z", 1_794_779_606_999_999),
        ("9999-12-31T23:59:59.999999Z", INSTANT_US_MAX),
    ],
)
def test_known_instants(text: str, us: int) -> None:
    """Read texts that other systems write."""
    assert from_iso(text) == us


@pytest.mark.parametrize(
    "text",
    [
        "", "now", "2026-11-15", "2026-11-15T21:53:26", "2026-02-30T00:00:00Z", "2026-11-15T24:00:00Z",
        "2026-11-15T21:53:60Z", "2026-11-15T21:53:26.Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00",
        "2026-11-15T21:53:26+25:61", "2026-11-15T21:53:26+24:00", "2026-11-15T21:53:26Z\n", "٢٠٢٦-11-15T21:53:26Z",
    ],
)  # fmt: skip
def test_other_texts_are_no_instants(text: str) -> None:
    """Read dates that do not exist, have no zone, or lie outside our years."""
    with pytest.raises(InvalidPayload) as caught:
        from_iso(text)
    assert "Write instants as" in caught.value.hint


@pytest.mark.parametrize("us", [-1, INSTANT_US_MAX + 1])
def test_instants_outside_our_years_are_not_shown(us: int) -> None:
    """Step over both ends."""
    with pytest.raises(InvalidPayload, match="1970 to 9999"):
        to_iso(us)


@given(st.integers(0, DURATION_US_MAX))
def test_a_shown_duration_reads_back(us: int) -> None:
    """Show and read any duration, with and without its spaces."""
    assert parse_duration(show_duration(us)) == us
    assert parse_duration(show_duration(us).replace(" ", "")) == us


@given(st.integers(0, 10**9))
def test_seconds_as_float_are_what_they_print(us: int) -> None:
    """Give microseconds as a float of seconds: no digit is lost to the nearest double."""
    assert parse_duration(float(f"{us // SECOND}.{us % SECOND:06d}")) == us
    assert parse_duration(timedelta(microseconds=us)) == us


@pytest.mark.parametrize(
    "value, us",
    [
        ("3d", 3 * DAY),
        ("1h30m", 90 * MINUTE),
        (" 1 h 30 m ", 90 * MINUTE),
        ("250ms", 250_000),
        ("1.5s", 1_500_000),
        ("0.1s", 100_000),
        ("0s", 0),
        ("7us", 7),
        ("7µs", 7),
        ("7\N{GREEK SMALL LETTER MU}s", 7),
        ("36525d", DURATION_US_MAX),
        (5, 5 * SECOND),
        (0.1 + 0.2, 300_000),
        (timedelta(hours=2), 2 * HOUR),
    ],
)
def test_known_durations(value: Any, us: int) -> None:
    """Read every form a user may write."""
    assert parse_duration(value) == us


@pytest.mark.parametrize(
    "value",
    [
        "", "5", "m", "1x", "30m1h", "1h1h", "-1s", "1 h,30 m", "1e3s", "0.5µs", "36526d", "9" * 5000 + "d",
        "١s", "1h\0",
        -1, -0.5, 10**12, float("nan"), float("inf"), float("-inf"), True, None, b"1s", timedelta(seconds=-1),
    ],
)  # fmt: skip
def test_other_things_are_no_durations(value: Any) -> None:
    """Read what is ambiguous, negative, too fine, too long, or something else."""
    with pytest.raises(InvalidSetting) as caught:
        parse_duration(value)
    assert "1h30m" in caught.value.hint


@pytest.mark.parametrize(
    "us, text", [(0, "0 s"), (90 * MINUTE, "1 h 30 m"), (250_000, "250 ms"), (DAY + 1, "1 d 1 µs")]
)
def test_durations_read_well(us: int, text: str) -> None:
    """Compare with what a person would write."""
    assert show_duration(us) == text
