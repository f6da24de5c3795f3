"""A worker's name proves its death, or nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidName
from holdfast.model.worker_identity import (
    Identity,
    ProcessStatus,
    identity_in,
    is_dead,
    short_name,
    worker_name,
)

HERE = Identity("0f3c-boot", 4026531836, 100, 5000)
DEAD = Identity("0f3c-boot", 4026531836, 4711, 88123)


def test_a_name_tells_who_it_is() -> None:
    assert worker_name("mail crew", DEAD) == "mail crew@0f3c-boot/4026531836/4711/88123"


@given(
    label=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40),
    pid=st.integers(1, 2**31),
    began=st.integers(0, 2**62),
)
def test_whatever_the_label_the_process_is_found_in_the_name(label: str, pid: int, began: int) -> None:
    who = Identity("6f1c2d3e-0000-4000-8000-000000000000", 4026531836, pid, began)
    assert identity_in(worker_name(label, who)) == who


@pytest.mark.parametrize(
    "name",
    [
        "worker",
        "worker-host-12",
        "a@b",
        "a@b/1/2",
        "a@b/1/2/x",
        "a@b/1/-2/3",
        "a@b c/1/2/3",
        "a@b/1/2/3\n",
        "",
    ],
)
def test_a_name_of_another_form_is_nobody(name: str) -> None:
    assert identity_in(name) is None


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidName):
        worker_name("x" * 200, DEAD)


@pytest.mark.parametrize(
    "here, seen, dead",
    [
        (HERE, ProcessStatus.GONE, True),
        (HERE, 88124, True),  # the pid is used again
        (HERE, 88123, False),  # that very process
        (HERE, ProcessStatus.UNKNOWN, False),
        (Identity("other-boot", HERE.space, 100, 5000), ProcessStatus.GONE, False),
        (
            Identity(HERE.boot, 4026532999, 100, 5000),
            ProcessStatus.GONE,
            False,
        ),  # another container counts other pids
    ],
)
def test_only_a_neighbour_is_proven_dead(here: Identity, seen: int | ProcessStatus, dead: bool) -> None:
    assert is_dead(DEAD, here, seen) is dead


def test_people_read_the_label_and_the_pid() -> None:
    assert (
        short_name(worker_name("mail-crew", Identity("boot-1", 4026531836, 4711, 88123))) == "mail-crew:4711"
    )
    assert short_name("chosen freely") == "chosen freely"
