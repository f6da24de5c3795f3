"""Every planted bug is found by generated programs: a generator that cannot find known bugs finds no new ones."""

from __future__ import annotations

import pytest

from tests.kill.programs.generator import FIRST_DEADLY, FIRST_LATE
from tests.kill.programs.planted_bugs import FOUND_BY, MUSEUM
from tests.kill.programs.runner import find_failure, find_program

pytestmark = pytest.mark.timeout(600)  # a busy machine decides nothing

ENOUGH = 2_000
"""A bug that so many programs do not notice is not found."""


SLOW = {"tasks_hash_by_their_address"}
"""Noticed only after minutes of one core and gigabytes of memory, whichever program plays it: for `make chaos`."""


@pytest.mark.store("memory")
@pytest.mark.parametrize("name", sorted(MUSEUM.keys() - SLOW))
def test_a_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the programs can see each bug that replay ever had. Method: the bug is planted, and a program that has
    noticed it before is played again."""
    program = find_program(FOUND_BY[name])
    MUSEUM[name](monkeypatch)
    assert find_failure(program) is not None, f"program {FOUND_BY[name]} does not notice it"


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.store("memory")
@pytest.mark.parametrize("name", sorted(MUSEUM))
def test_programs_find_a_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plays programs from the first on and prints how many it took."""
    MUSEUM[name](monkeypatch)
    first = max(one for one in (0, FIRST_LATE, FIRST_DEADLY) if FOUND_BY[name] >= one)
    for number in range(first, first + ENOUGH):
        found = find_failure(find_program(number))
        if found is not None:
            print(f"{name}: noticed by program {number}, {found}")
            return
    pytest.fail(f"{ENOUGH} programs do not notice it")
