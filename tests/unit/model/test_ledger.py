"""The idempotency key: the same on every attempt, worker and restore; another for every other call."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.ledger import CallRow, idempotency_key

# Names as `check_name` lets them through; a step key is put together from names and may hold anything.
names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=5)
step_keys = st.text(st.characters(codec=None, exclude_categories=()), max_size=8)
places = st.tuples(names, names, step_keys, st.integers(0, 50))


@given(places)
def test_a_key_is_derived_and_never_random(place: tuple[str, str, str, int]) -> None:
    """Ask twice, and look at the form: it goes into headers as it is."""
    key = idempotency_key(*place)
    assert key == idempotency_key(*place)
    assert re.fullmatch(r"hf_[0-9a-f]{40}", key)


@given(places, places)
def test_another_call_has_another_key(
    one: tuple[str, str, str, int], other: tuple[str, str, str, int]
) -> None:
    """Compare two places: equal keys mean equal namespace, job, step and generation."""
    assert (idempotency_key(*one) == idempotency_key(*other)) == (one == other)


def test_names_do_not_run_into_each_other() -> None:
    """Put the same letters into neighbouring places, and separators into step keys."""
    places = [
        ("a", "b", "c", 0),
        ("ab", "c", "", 0),
        ("a", "bc", "", 0),
        ("", "ab", "c", 0),
        ("a", "b", "c\0" + "1", 0),
        ("a", "b", "c", 10),
        ("a", "b", "c\0" + "1", 10),
        ("a", "b", "c1", 0),
        ("a", "b", "\ud800", 0),
        ("a", "b", "\udc00", 0),
    ]
    assert len({idempotency_key(*place) for place in places}) == len(places)


def test_a_new_generation_is_a_new_key() -> None:
    """Open a thousand generations of one step."""
    keys = {idempotency_key("default", "job_1", "1/send#1", generation) for generation in range(1000)}
    assert len(keys) == 1000


def test_keys_are_the_same_in_every_version() -> None:
    """Compare with keys that receivers already know: after an upgrade or a restore they must recognise us."""
    assert idempotency_key("default", "job_1", "1/send#1", 0) == "hf_06e5764aa423b96f8c8610e2772cb8042682dc7e"
    assert idempotency_key("default", "job_1", "1/send#1", 1) == "hf_600dd4a4dff09d803e1372d382b48c186a59e395"
    assert idempotency_key("Größe", "日本", "1/scope/é#2", 7) == "hf_3e2d8f9dbac734ef48fae16cde1774615d8ecf68"


def test_the_columns_a_person_may_query_are_there() -> None:
    """Compare the row with the names that the acceptance documents use in SQL."""
    promised = """
        tool_call_id job_id step_key tool_name raw_tool_name side_effect_class status idempotency_key
        args_digest attempt
    """
    assert set(promised.split()) <= set(CallRow.__struct_fields__)
