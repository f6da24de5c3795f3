"""Whatever lies in a journal can be shown: a timeline is for the moment when something is wrong."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from holdfast.api.trace import split, trace_of
from holdfast.cli.trace import draw
from holdfast.model.events import (
    EVENTS,
    Event,
    JobClaimed,
    JobCreated,
    JobReleased,
    JobRequeued,
    StepFinished,
)
from holdfast.model.hash_chain import EMPTY, SealedEvent, seal
from holdfast.model.jobs import JobHead
from holdfast.model.states import Status
from tests.support.project import ROOT

CORPUS: list[dict[str, Any]] = json.loads((ROOT / "tests" / "golden" / "events_v1.json").read_text("utf-8"))
KNOWN = [msgspec.convert(entry["fields"], EVENTS[entry["type"]]) for entry in CORPUS]


def head(status: Status) -> JobHead:
    place = ("j", "default", "default", "kind", 5, status, None, None, 0, None, None)
    return JobHead(*place, 1, b"", 1, "", "", "", 0, 0, 0, 0)


def sealed(events: list[Event], steps: list[int]) -> list[SealedEvent]:
    """The events one after the other, each so much later and under the next fence if it is a claim."""
    lies, at, fence, end = [], 1_000_000, 1, EMPTY
    for event, step in zip(events, steps, strict=True):
        at += step
        fence += event.type == "job_claimed"
        (one,), end = seal("j", end, fence, at, [event])
        lies.append(one)
    return lies


JOURNALS = st.lists(
    st.tuples(st.sampled_from(KNOWN), st.integers(-5, 10_000_000)), min_size=1, max_size=30
).map(lambda pairs: sealed([event for event, _ in pairs], [step for _, step in pairs]))


@given(JOURNALS, st.sampled_from(Status))
def test_any_sequence_of_facts_has_a_trace(journal: list[SealedEvent], status: Status) -> None:
    """Random facts, in no order that makes sense, with a clock that also goes back."""
    life = trace_of(head(status), journal, now=journal[-1].at)
    assert life.over == (status in {"completed", "failed", "cancelled"})
    assert all(note.text.endswith(".") for note in life.notes), "each is a sentence"
    assert {span.scope for span in life.spans} == {split(span.step_key)[0] for span in life.spans}


@given(JOURNALS, st.sampled_from([40, 80, 200]))
def test_any_trace_can_be_drawn(journal: list[SealedEvent], width: int) -> None:
    """The same on a terminal, however narrow: every call has its line, and no bar leaves the screen."""
    life = trace_of(head(Status.RUNNING), journal, now=journal[-1].at)
    screen = StringIO()
    draw(Console(file=screen, width=width, highlight=False, markup=False), life)
    lines = screen.getvalue().splitlines()
    bars = [line for line in lines if any(mark in line for mark in "━╌┣→") and "↳" not in line]
    assert len(bars) == len(life.spans)
    assert max(map(len, bars), default=0) <= width


def test_a_fact_of_the_future_and_an_erased_one_are_shown_as_such() -> None:
    journal = sealed(KNOWN[:4], [0, 1, 1, 1])
    journal[2] = msgspec.structs.replace(journal[2], type="job_teleported")
    journal[3] = msgspec.structs.replace(journal[3], body=None)
    said = [seam.text for seam in trace_of(head(Status.PENDING), journal, now=0).seams]
    assert "job_teleported cannot be read: event 3 is job_teleported version 1" in said[2]
    assert "was erased" in said[3]


def test_a_worker_that_a_sweep_found_dead_is_a_takeover_too() -> None:
    """Whether the next worker finds the lease over or a sweep does before it, the story is the same."""
    ant, bee = JobClaimed(worker="ant"), JobClaimed(worker="bee")
    swept = JobRequeued("its lease ran out", "the server", takeover=True, holder="ant")
    done = StepFinished(step_key="0/read#1", args_digest="d", result=1)
    begun: list[Event] = [JobCreated(kind="report"), ant, done]
    life = trace_of(head(Status.RUNNING), sealed([*begun, swept, bee], [0, 1, 1, 1, 1]), now=0)
    straight = sealed([*begun, JobClaimed(worker="bee", takeover=True)], [0, 1, 1, 1])
    assert [(seam.kind, seam.text) for seam in life.seams[-2:]] == [
        ("requeued", "the lease of ant expired"),
        ("takeover", "bee took over from ant"),
    ]
    same = trace_of(head(Status.RUNNING), straight, now=0)
    assert [note.text for note in life.notes] == [note.text for note in same.notes]
    assert "1 recorded outcome was replayed, not called again" in life.notes[-1].text
    again = trace_of(
        head(Status.RUNNING), sealed([*begun, swept, bee, JobReleased(), ant], [0, 1, 1, 1, 1, 1, 1]), now=0
    )
    assert again.seams[-1].kind == "claimed", "it was given back in between"
