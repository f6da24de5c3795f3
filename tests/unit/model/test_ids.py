"""Ids sort by time, and names people choose are checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidPayload
from holdfast.model.ids import IdSource, RandomIds, SequentialIds, base32, check_integer, check_name
from holdfast.model.limits import INTEGER_MAX, NAME_LENGTH_MAX


@pytest.mark.parametrize(
    "source", [RandomIds(), SequentialIds(), SequentialIds(2**64 - 1)], ids=["random", "0", "max"]
)
def test_ids_are_unique_and_in_order(source: IdSource) -> None:
    """Draw many and compare with their sorted set."""
    drawn = [source.new("job") for _ in range(5_000)]
    assert drawn == sorted(set(drawn))
    assert all(len(one) == 30 and one.startswith("job_") for one in drawn)
    assert all(check_name(one, "id").isascii() for one in drawn[:10])


def test_a_seed_gives_the_same_ids_again() -> None:
    """Draw from equal and different seeds: the simulation replays from a number."""
    one, same, other = SequentialIds(7), SequentialIds(7), SequentialIds(8)
    first = [one.new("job") for _ in range(10)]
    assert first == [same.new("job") for _ in range(10)]
    assert not set(first) & {other.new("job") for _ in range(10)}


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_base32_keeps_the_order_of_numbers(a: int, b: int) -> None:
    """Compare texts and numbers, and read the text back with Python's own base 32."""
    assert (base32(a) < base32(b)) == (a < b)
    plain = base32(a).translate(
        str.maketrans("0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv")
    )
    assert int(plain, 32) == a


@pytest.mark.parametrize(
    "name", ["a", "ticket-81", "Größe 5/3", "日本語", "e\u0301", " ", "\u202e", "x" * NAME_LENGTH_MAX]
)
def test_names_of_any_script_are_kept_as_they_are(name: str) -> None:
    """Check names that look odd but are legal: nothing is normalised, trimmed or refused for taste."""
    assert check_name(name, "job id") is name


@pytest.mark.parametrize(
    "name, word",
    [
        ("", "0 characters"),
        ("x" * (NAME_LENGTH_MAX + 1), "201 characters"),
        ("ab\0c", "U+0000 at position 2"),
        ("a\n", "U+000A at position 1"),
        ("\x7f", "U+007F at position 0"),
        ("\x9b31m", "U+009B at position 0"),
        ("ok\ud800", "U+D800 at position 2"),
        (7, "text, not int"),
        (None, "text, not NoneType"),
        (b"bytes", "text, not bytes"),
    ],
)
def test_other_names_are_refused_with_the_place(name: object, word: str) -> None:
    """Check what cannot be a name; the error says what it is called, what is wrong, and where."""
    with pytest.raises(InvalidName) as caught:
        check_name(name, "job id")
    assert str(caught.value).startswith("job id ")
    assert word in str(caught.value)
    assert str(caught.value).isprintable()


@given(st.characters(codec=None, exclude_categories=()))
def test_only_control_characters_and_surrogates_are_refused(char: str) -> None:
    """Try any single character and compare with its Unicode category."""
    import unicodedata

    refused = unicodedata.category(char) in {"Cc", "Cs"}
    try:
        assert check_name(char, "key") == char
    except InvalidName:
        assert refused
    else:
        assert not refused


@pytest.mark.parametrize("number", [0, -1, INTEGER_MAX, -INTEGER_MAX])
def test_a_number_that_fits_a_column_is_kept(number: int) -> None:
    """Check numbers up to both ends."""
    assert check_integer(number, "ready_at") == number


@pytest.mark.parametrize("number", [INTEGER_MAX + 1, -INTEGER_MAX - 1, 10**400, True, 1.0, "1", None])
def test_other_numbers_are_refused_before_a_database_sees_them(number: object) -> None:
    """Check what is too large, and what only looks like an integer; the error says what it was for."""
    with pytest.raises(InvalidPayload, match="ready_at must be an integer"):
        check_integer(number, "ready_at")
