"""Step keys: the same for the same place in the program, and names that the store takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.ids import check_name
from holdfast.model.step_keys import StepScope

NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=300)


def test_calls_and_scopes_are_counted_for_themselves() -> None:
    scope = StepScope("2")
    assert [scope.key("fetch"), scope.key("save"), scope.key("fetch")] == [
        "2/fetch#1",
        "2/save#1",
        "2/fetch#2",
    ]
    assert [scope.inner("fetch").path, scope.inner("fetch").path] == ["2/fetch#1", "2/fetch#2"]
    assert scope.inner("main.<locals>.branch").key("fetch") == "2/branch#1/fetch#1"


def test_what_separates_parts_cannot_be_smuggled_in() -> None:
    """Two places that are not the same have two keys, whatever people call things."""
    assert StepScope("0").key("a/b#1") != StepScope("0").inner("a").key("b")
    assert StepScope("0").inner("a/b").path != StepScope("0").inner("a").inner("b").path


@given(st.lists(NAMES, max_size=12), NAMES)
def test_every_key_is_a_name(scopes: list[str], name: str) -> None:
    """However deep and however long: the store takes it, and doing the same again gives the same."""

    def key() -> str:
        scope = StepScope("17")
        for one in scopes:
            scope = scope.inner(one)
        return scope.key(name)

    assert check_name(key(), "step key") == key()
    assert key().startswith("17/")
