"""The worker's log has one line for an attempt that did not end well, and none for one that did."""

from __future__ import annotations

import pytest

from holdfast.model import events as e
from holdfast.model.replay_history import Recorded
from holdfast.model.states import WaitReason
from holdfast.worker.attempt_log import describe_end, format_delay

ERROR = {
    "type": "KeyError",
    "message": "'nope'",
    "traceback": [{"file": "/app/shop.py", "line": 12, "function": "pay", "code": "PRICES[item]"}],
}
PLACE = "KeyError: 'nope' at /app/shop.py:12 in pay"
CALL = Recorded("0/fax#1", "", name="fax", raised=ERROR)


@pytest.mark.parametrize(
    "event, line",
    [
        (
            e.JobRequeued("failed", error=ERROR),
            f"failed, attempt 2: {PLACE}; next attempt in 4 s",
        ),
        (
            e.JobDeadLettered(({"why": "'nope'", "error": ERROR},)),
            f"is a dead letter, failed after 2 attempts: {PLACE}",
        ),
        (e.JobDeadLettered(({"why": "its lease ran out"},)), "is a dead letter: its lease ran out"),
        (
            e.JobParked({"why": "pay is gone"}),
            "is parked, its code no longer matches its journal: pay is gone",
        ),
        (
            e.JobStalled({"why": "its tasks wait for each other", "tasks": []}),
            "is held, it makes no progress: its tasks wait for each other",
        ),
        (
            e.JobWaiting(WaitReason.RECONCILE),
            f"waits for a person: outcome unknown: fax raised {PLACE}",
        ),
        (e.JobWaiting(WaitReason.BUDGET), "waits for a person: its budget is used up"),
        (e.JobWaiting(WaitReason.SIGNAL), None),
        (e.JobCompleted("ok"), None),
        (e.JobReleased(), None),
        (e.JobRequeued("again", by="ada"), None),
        (None, None),
    ],
)
def test_one_line_for_what_needs_attention(event: e.Event | None, line: str | None) -> None:
    assert describe_end(event, 1, 4_000_000, [CALL]) == line


def test_delays_are_short_to_read() -> None:
    spans = [-5, 400_000, 4_200_000, 100_000_000, 600_000_000]
    assert [format_delay(us) for us in spans] == ["0.0 s", "0.4 s", "4 s", "100 s", "10 min"]
