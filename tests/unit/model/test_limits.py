"""Limits fit together."""

from __future__ import annotations

from holdfast.model import limits
from holdfast.model.time import to_iso


def test_limits_fit_together() -> None:
    """Compare the limits that lean on each other: what one lets in, the next must be able to hold."""
    assert (
        limits.PAYLOAD_INLINE_BYTES < limits.JSON_BYTES_MAX == limits.BODY_BYTES_MAX < limits.BLOB_BYTES_MAX
    )
    assert limits.JSON_BYTES_MAX < limits.APPEND_BYTES_MAX < limits.JOURNAL_BYTES_MAX
    assert limits.CURSOR_LENGTH_MAX < limits.HEADER_BYTES_MAX
    assert limits.PRIORITY_MIN <= limits.PRIORITY_DEFAULT <= limits.PRIORITY_MAX
    assert limits.ROWS_PER_PAGE_DEFAULT <= limits.ROWS_PER_PAGE_MAX
    assert limits.ATTEMPTS_DEFAULT <= limits.ATTEMPTS_MAX
    assert limits.PLAN_NODES_MAX <= limits.JOB_STEPS_MAX


def test_every_limit_is_a_whole_number() -> None:
    """Look at all public names."""
    named = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert named
    assert all(type(value) is int and value > 0 for value in named.values())


def test_the_last_instant_is_the_end_of_9999() -> None:
    """Show it."""
    assert to_iso(limits.INSTANT_US_MAX) == "9999-12-31T23:59:59.999999Z"
