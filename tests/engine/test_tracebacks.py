"""Tracebacks of recorded errors: the author's frames, bounded and without secrets; and what is told of dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.engine.children import make_final_mail
from holdfast.engine.failures import from_recorded_error, record_error
from holdfast.engine.recovery import causes_of, summarize_causes
from holdfast.engine.tracebacks import (
    BYTES_MAX,
    FRAMES_MAX,
    format_error,
    format_traceback,
    locate_error,
)
from holdfast.errors import CallFailed
from holdfast.model import events as e
from holdfast.model.states import Status

TOKEN = "sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2"


def catch(raising: Callable[[], Any]) -> Exception:
    try:
        raising()
    except Exception as error:
        return error
    raise AssertionError("it did not raise")


def fail() -> None:
    raise LookupError("no such page")


def test_the_frames_of_libraries_are_left_out() -> None:
    """A call through asyncio and json: of these no frame is recorded, of the author's each with its source line."""

    async def parse() -> Any:
        return json.loads("{")

    record = record_error(catch(lambda: asyncio.run(parse())))
    frames = record["traceback"]
    assert {frame["file"] for frame in frames} == {__file__}
    assert frames[-1]["code"] == 'return json.loads("{")'
    assert frames[-1]["function"].endswith("parse")
    assert locate_error(record) == f"{__file__}:{frames[-1]['line']} in {frames[-1]['function']}"


def test_a_deep_traceback_is_bounded() -> None:
    def dive(depth: int) -> None:
        if depth == 0:
            fail()
        dive(depth - 1)

    frames = record_error(catch(lambda: dive(200)))["traceback"]
    assert len(frames) == FRAMES_MAX
    assert frames[0]["skipped"] == 203 - FRAMES_MAX + 1
    assert frames[-1]["code"] == 'raise LookupError("no such page")'
    assert len(json.dumps(frames)) <= 2 * BYTES_MAX
    assert format_traceback({"traceback": frames})[0].endswith("frames are left out")


def test_secrets_are_redacted_in_source_lines_and_messages() -> None:
    def leak() -> None:
        raise ValueError("sk-ant-api03-Zm9vYmFyYmF6cXV4MTIzNDU2")

    record = record_error(catch(leak))
    assert TOKEN not in json.dumps(record)
    assert record["traceback"][-1]["code"] == 'raise ValueError("[redacted:api-key]")'


def test_the_error_behind_an_error_is_told() -> None:
    def wrap() -> None:
        try:
            fail()
        except LookupError as error:
            raise RuntimeError("the shop is closed") from error

    record = record_error(catch(wrap))
    assert (record["cause"]["type"], record["cause"]["message"]) == ("LookupError", "no such page")
    lines = format_traceback(record)
    assert lines.index("  LookupError: no such page") < lines.index("  which led to")
    group = record_error(ExceptionGroup("two", [catch(fail), catch(fail)]))
    assert format_error(group) == "ExceptionGroup: two (2 sub-exceptions): LookupError: no such page"
    assert locate_error(group).endswith("in fail")


def test_a_replay_does_not_depend_on_the_traceback() -> None:
    """The same error is made from a record with a traceback, without one, and with one that cannot be read."""
    record = record_error(catch(fail))
    for traceback in (record["traceback"], [], None, "rubbish", [1, {}]):
        again = from_recorded_error(record | {"traceback": traceback, "cause": 3})
        assert (type(again), again.args) == (LookupError, ("no such page",))
        assert isinstance(format_traceback(record | {"traceback": traceback}), list)
    wrapped = CallFailed("Mine: no", error_type="Mine")
    wrapped.__cause__ = catch(fail)
    assert record_error(wrapped)["traceback"][-1]["function"] == "fail"


ERROR = {"type": "KeyError", "message": "'nope'", "traceback": [{"file": "a.py", "line": 1}]}


@pytest.mark.parametrize(
    "facts, causes, summary",
    [
        (
            [
                e.JobClaimed("one"),
                e.JobRequeued("failed", error=ERROR),
                e.JobClaimed("two"),
                e.JobDeadLettered(({"why": "'nope'", "error": ERROR, "takeovers": 0, "attempts": 1},)),
            ],
            [("failed", 1, "one"), ("failed", 3, "two")],
            "Failed after 2 attempts: KeyError: 'nope'",
        ),
        (
            [
                e.JobClaimed("one"),
                e.JobRequeued("its lease ran out", takeover=True, holder="one"),
                e.JobClaimed("two"),
                e.JobClaimed("three", takeover=True),
                e.JobDeadLettered(({"why": "too often", "error": None, "takeovers": 2, "attempts": 0},)),
            ],
            [
                ("its holder was not heard of again", 1, "one"),
                ("its holder was not heard of again", 3, "two"),
            ],
            "Lost its worker 2 times: its holder was not heard of again",
        ),
        (
            [
                e.JobClaimed("one"),
                e.JobRequeued("failed", error=ERROR),
                e.JobClaimed("two"),
                e.JobDeadLettered(({"why": "its lease ran out", "holder": "two"},)),
            ],
            [("failed", 1, "one"), ("its lease ran out", 3, "two")],
            "Failed after 1 attempt and 1 lost worker: KeyError: 'nope'",
        ),
        (
            [
                e.JobClaimed("one"),
                e.JobDeadLettered(({"why": "its journal cannot be read", "error": ERROR},)),
            ],
            [("its journal cannot be read", 1, "one")],
            "Its journal cannot be read: KeyError: 'nope'",
        ),
        (
            [
                e.JobClaimed("one"),
                e.JobRequeued("failed", error=ERROR),
                e.JobDeadLettered(
                    ({"why": "failed", "holder": "one", "error": ERROR}, {"why": "gone", "holder": "two"})
                ),
            ],
            [("failed", 1, "one"), ("gone", 2, "two")],
            "Failed after 1 attempt and 1 lost worker: KeyError: 'nope'",
        ),
    ],
)
def test_a_dead_letter_lists_each_failure_and_each_death(
    facts: list[e.Event], causes: list[tuple[str, int, str]], summary: str
) -> None:
    """Each with its time and its worker, whoever wrote the dead letter and however much it knew."""
    found = causes_of(enumerate(facts))
    assert [(cause["why"], cause["at"], cause["holder"]) for cause in found] == causes
    assert summarize_causes(found) == summary


def test_a_failed_child_tells_its_parent_type_and_message() -> None:
    """The parent's code gets a sentence and the name of the class, not the text of a record."""
    created = e.JobCreated("research", parent_job_id="job_parent", parent_step_key="0/research#1")
    error = {"type": "ValueError", "message": "no kelp", "traceback": []}
    (letter,) = make_final_mail("job_child", created, (), e.JobFailure(error), Status.FAILED).letters
    raised = from_recorded_error(letter.body["error"])
    assert isinstance(raised, CallFailed)
    assert (str(raised), raised.error_type) == ("the child job failed: ValueError: no kelp", "ValueError")
