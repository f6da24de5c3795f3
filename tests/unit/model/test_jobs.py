"""What makes two requests the same request, and which are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.errors import InvalidName, InvalidPayload, TooLarge
from holdfast.model.budget import Budget
from holdfast.model.events import JobCreated
from holdfast.model.hash_chain import Head
from holdfast.model.jobs import (
    JobDraft,
    JobHead,
    JobRecord,
    WorkItemRow,
    check_draft,
    make_created_event,
    request_digest,
)
from holdfast.model.limits import JSON_BYTES_MAX

DRAFT = JobDraft(
    kind="k",
    input={"n": 1},
    namespace="ns",
    queue="q",
    priority=7,
    request_key="r",
    parent_job_id="p",
    parent_step_key="1/spawn#1",
    session_id="s",
    ready_at=5,
    job_id="j",
    code_version="c",
    python_version="3.12",
)

# What is asked for, and what only says by whom, when, under which name or by which code.
COUNTS: dict[str, list[Any]] = {
    "kind": ["other"],
    "input": [None, {"n": 2}, {"n": 1.0}, {"n": True}, {"n": 1, "m": None}, [1]],
    "queue": ["default"],
    "priority": [5],
    "parent_job_id": [None, "other"],
    "session_id": [None, "other"],
    "forked_from": ["job", "other"],
    "forked_at_seq": [3, 4],
    "edited": [{"steps": {"0/look#1": "aa"}}, {"steps": {"0/look#1": "bb"}}],
}
DOES_NOT_COUNT: dict[str, Any] = {
    "namespace": "other",
    "request_key": None,
    "parent_step_key": None,
    "ready_at": 0,
    "job_id": None,
    "code_version": None,
    "python_version": None,
    "budget": Budget(usd=1),
    "budgets": ("job_above",),
    "depth": 2,
    "work": WorkItemRow(project="p", capability="c"),  # it says again what the input says
}


def changed(name: str, value: Any) -> JobDraft:
    return msgspec.structs.replace(DRAFT, **{name: value})


def test_every_field_is_decided_about() -> None:
    """Compare with the fields there are: a new one either counts or does not, and says so here."""
    assert COUNTS.keys() | DOES_NOT_COUNT.keys() == set(JobDraft.__struct_fields__)


@pytest.mark.parametrize("name", COUNTS)
def test_another_request_has_another_digest(name: str) -> None:
    """Change what is asked for, to several things: each is a request of its own."""
    digests = {request_digest(changed(name, value)) for value in COUNTS[name]}
    assert len(digests) == len(COUNTS[name])
    assert request_digest(DRAFT) not in digests


@pytest.mark.parametrize("name", DOES_NOT_COUNT)
def test_a_repeated_request_has_the_same_digest(name: str) -> None:
    """Change what may differ between two sends of one request."""
    assert request_digest(changed(name, DOES_NOT_COUNT[name])) == request_digest(DRAFT)


def test_neighbours_do_not_run_into_each_other() -> None:
    """Move a value into the next field."""
    assert request_digest(JobDraft(kind="k", parent_job_id="x")) != request_digest(
        JobDraft(kind="k", session_id="x")
    )


def test_the_order_of_keys_is_no_other_request() -> None:
    """Send the same object written the other way round."""
    one, other = JobDraft(kind="k", input={"a": 1, "b": 2}), JobDraft(kind="k", input={"b": 2, "a": 1})
    assert request_digest(one) == request_digest(other)


def test_digests_are_the_same_in_every_version() -> None:
    """Compare with digests that stores already hold: a retry after an upgrade must be recognised."""
    assert (
        request_digest(JobDraft(kind="k")).hex()
        == "6f7c20bbe23f158a11532576bd747596d3721c29ea16888f353e5c029b42e3fb"
    )
    assert request_digest(DRAFT).hex() == "bfce56defee6bc804a545abaac17cea144d7a27727ac03ef7c428a5267016300"


def test_an_input_that_is_not_json_has_no_digest() -> None:
    """Ask with what cannot be stored: refused before anything is."""
    with pytest.raises(InvalidPayload):
        request_digest(JobDraft(kind="k", input=object()))
    with pytest.raises(TooLarge):
        request_digest(JobDraft(kind="k", input="x" * JSON_BYTES_MAX))


@pytest.mark.parametrize("priority", [1, 5, 10])
def test_a_good_draft_is_taken_as_it_is(priority: int) -> None:
    """Check the smallest draft and one with everything."""
    smallest = JobDraft(kind="k", priority=priority)
    assert check_draft(smallest) is smallest
    assert check_draft(DRAFT) is DRAFT


@pytest.mark.parametrize(
    "fields, error, word",
    [
        ({"kind": ""}, InvalidName, "kind"),
        ({"kind": "a\0b"}, InvalidName, "kind"),
        ({"namespace": ""}, InvalidName, "namespace"),
        ({"queue": "\ud800"}, InvalidName, "queue"),
        ({"request_key": ""}, InvalidName, "request key"),
        ({"request_key": "x" * 201}, InvalidName, "request key"),
        ({"session_id": "a\nb"}, InvalidName, "session id"),
        ({"job_id": ""}, InvalidName, "job id"),
        ({"parent_job_id": "a\0b"}, InvalidName, "parent job id"),
        ({"parent_job_id": "j"}, InvalidPayload, "its own parent"),
        ({"priority": 0}, InvalidPayload, "priority 0 is outside 1 to 10"),
        ({"priority": 11}, InvalidPayload, "priority 11 is outside 1 to 10"),
        ({"ready_at": 2**63}, InvalidPayload, "ready_at"),
        ({"ready_at": True}, InvalidPayload, "ready_at"),
    ],
)
def test_a_bad_draft_is_refused_with_what_to_change(
    fields: dict[str, Any], error: type[Exception], word: str
) -> None:
    """Check drafts with one fault each."""
    with pytest.raises(error) as caught:
        check_draft(msgspec.structs.replace(DRAFT, **fields))
    assert word in str(caught.value)


def test_the_journal_begins_with_everything_that_was_asked_for() -> None:
    """Compare the first event with the draft, field by field: what both have is equal, and nothing of it is lost."""
    event = make_created_event(DRAFT)
    for name in JobCreated.__struct_fields__:
        assert getattr(event, name) == getattr(DRAFT, name), name
    kept_elsewhere = {"namespace", "job_id", "work"}
    assert set(JobDraft.__struct_fields__) - set(JobCreated.__struct_fields__) == kept_elsewhere


def test_a_head_knows_its_place_in_the_chain() -> None:
    """Ask a row for its head."""
    values: dict[str, Any] = dict.fromkeys(JobHead.__struct_fields__, None)
    assert JobHead(**{**values, "head_seq": 7, "head_hash": b"h"}).head == Head(7, b"h")


def test_a_record_carries_no_payload() -> None:
    """Look at the row that is listed: input and output live in the journal alone."""
    assert not {"input", "output", "error"} & set(JobRecord.__struct_fields__)
