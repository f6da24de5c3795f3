"""Which jobs may be let go: every reason against it, one at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.errors import InvalidSetting
from holdfast.model.events import EVENTS
from holdfast.model.retention import (
    ERASABLE,
    PruneMode,
    RetentionPolicy,
    RetentionRow,
    check_policy,
    find_reason_to_keep,
)
from holdfast.model.states import MOVES, Status
from holdfast.model.time import DAY

NOW = 1000 * DAY
ERASE = RetentionPolicy(older_than_us=30 * DAY)
REMOVE = RetentionPolicy(older_than_us=30 * DAY, how=PruneMode.REMOVE)
FREE = RetentionRow(
    job_id="job",
    namespace="default",
    kind="errand",
    status=Status.COMPLETED,
    head_seq=5,
    head_hash=bytes(32),
    created_at=0,
    ended_at=NOW - 30 * DAY,
    request_key=None,
    request_digest=bytes(32),
    parent_status=None,
    children=0,
    calls=3,
    open_calls=0,
    pruned=None,
)


@pytest.mark.parametrize("policy", [ERASE, REMOVE])
def test_a_job_that_nobody_needs_may_go(policy: RetentionPolicy) -> None:
    assert find_reason_to_keep(FREE, policy, now=NOW) is None
    over = msgspec.structs.replace(FREE, parent_status=Status.FAILED)
    assert find_reason_to_keep(over, policy, now=NOW) is None


@pytest.mark.parametrize(
    "change, why",
    [
        ({"status": Status.PENDING}, "not over"),
        ({"status": Status.RUNNING}, "not over"),
        ({"status": Status.WAITING}, "not over"),
        ({"ended_at": NOW - 30 * DAY + 1}, "too young"),
        ({"ended_at": NOW + DAY}, "too young"),
        ({"parent_status": Status.RUNNING}, "parent"),
        ({"parent_status": Status.WAITING}, "parent"),
        ({"open_calls": 1}, "unknown outcome"),
    ],
)
@pytest.mark.parametrize("policy", [ERASE, REMOVE])
def test_a_job_that_somebody_needs_is_kept(policy: RetentionPolicy, change: dict[str, Any], why: str) -> None:
    job = msgspec.structs.replace(FREE, **change)
    assert why in (find_reason_to_keep(job, policy, now=NOW) or "")


def test_removing_asks_for_more_than_erasing() -> None:
    """Children hang on the row, and receivers on the keys; neither minds that a body is erased."""
    parent = msgspec.structs.replace(FREE, children=1)
    assert find_reason_to_keep(parent, ERASE, now=NOW) is None
    assert "children" in (find_reason_to_keep(parent, REMOVE, now=NOW) or "")
    hasty = msgspec.structs.replace(REMOVE, older_than_us=0)
    young = msgspec.structs.replace(FREE, ended_at=NOW - 7 * DAY + 1)
    assert "keys" in (find_reason_to_keep(young, hasty, now=NOW) or "")
    assert find_reason_to_keep(msgspec.structs.replace(young, calls=0), hasty, now=NOW) is None


def test_what_was_done_is_not_done_again() -> None:
    erased = msgspec.structs.replace(FREE, pruned=PruneMode.ERASE)
    assert find_reason_to_keep(erased, ERASE, now=NOW) == "done before"
    assert find_reason_to_keep(erased, REMOVE, now=NOW) is None


def test_what_is_erased_moves_no_job() -> None:
    """The order of a job's states is read from the types alone: no end, no beginning and no decision is erased."""
    assert EVENTS.keys() >= ERASABLE
    assert ERASABLE & MOVES.keys() == {"job_parked", "job_stalled"}
    assert not ERASABLE & {"tool_reconciled", "approval_decided", "cancel_requested"}


@pytest.mark.parametrize("change", [{"older_than_us": -1}, {"batch": 0}, {"blob_grace_us": -1}])
def test_nonsense_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(InvalidSetting):
        check_policy(msgspec.structs.replace(ERASE, **change))
