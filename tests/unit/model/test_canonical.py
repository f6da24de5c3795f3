"""Canonical JSON: one value, one sequence of bytes, and back."""

from __future__ import annotations

import enum
import json
import math
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.errors import InvalidPayload, TooLarge
from holdfast.model import canonical, canonical_fallback
from holdfast.model.limits import INTEGER_MAX, JSON_BYTES_MAX, JSON_DEPTH_MAX

# Every code point, lone surrogates included.
anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=12)
text = st.one_of(st.text(max_size=12), anything)
numbers = st.integers(-INTEGER_MAX, INTEGER_MAX) | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | text
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5),
    max_leaves=20,
)


class Colour(enum.StrEnum):
    RED = "red"


class Torn(enum.StrEnum):
    HALF = "\ud83d"


class Level(enum.IntEnum):
    HIGH = 3


class Huge(enum.IntEnum):
    TOO = 2**70


class Plain(enum.Enum):
    ONE = "one"


class Half(float, enum.Enum):
    ONE = 0.5


class Masked(str):
    """Text that shows another text than it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return "***"


class Count(int):
    pass


class Ratio(float):
    pass


class Rows(list[Any]):
    pass


class Record(dict[str, Any]):
    pass


class Point(NamedTuple):
    x: int
    y: int


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


def joined(value: Any) -> Any:
    """What must come back: the same, with surrogate pairs as the character they stand for."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, list):
        return [joined(item) for item in value]
    if isinstance(value, dict):
        return {joined(key): joined(item) for key, item in value.items()}
    return value


def collides(value: Any) -> bool:
    """Whether two keys of one object become one when their surrogates are joined."""
    if isinstance(value, dict):
        return len(joined(value)) < len(value) or any(map(collides, value.values()))
    return isinstance(value, list) and any(map(collides, value))


def exact(value: Any) -> Any:
    """Equality that tells 1 from 1.0 and True, and 0.0 from -0.0."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    return (type(value), repr(value))


@given(values)
def test_what_goes_in_comes_out(value: Any) -> None:
    """Write and read random values, with surrogates, and compare exactly, types and signs of zero included."""
    if collides(value):
        with pytest.raises(InvalidPayload, match="two keys are the same text"):
            canonical.encode(value)
        return
    data = canonical.encode(value)
    assert exact(canonical.decode(data)) == exact(joined(value))
    assert exact(canonical.decode_stored(data)) == exact(joined(value))


@given(values)
def test_canonical_bytes_are_a_fixed_point(value: Any) -> None:
    """Whatever spaces, escapes and order of keys a document has, reading and writing it gives the same bytes."""
    value = joined(value)
    data = canonical.encode(value)
    assert canonical.encode(canonical.decode(data)) == data
    spaced = json.dumps(_backwards(value), indent=1).encode()
    assert canonical.encode(canonical.decode(spaced)) == data


def _backwards(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _backwards(value[key]) for key in reversed(value)}
    return [_backwards(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_the_slow_way_writes_the_same_bytes(value: Any) -> None:
    """Compare both writers on values that both can write, so that a surrogate elsewhere changes no other byte."""
    try:
        expected = msgspec.json.encode(value, order="deterministic")
    except UnicodeEncodeError:
        assume(False)
        raise
    assert canonical_fallback.write(value) == expected
    assert exact(canonical_fallback.read(expected)) == exact(value)


@given(st.binary(max_size=40) | values.map(lambda value: json.dumps(value).encode()), st.data())
def test_garbage_is_refused_or_understood(data: bytes, chance: st.DataObject) -> None:
    """Feed random and damaged bytes: either a typed error, or a value that our own rules let us write again."""
    if data:
        place = chance.draw(st.integers(0, len(data) - 1))
        data = data[:place] + chance.draw(st.binary(max_size=2)) + data[place + 1 :]
    try:
        value = canonical.decode(data)
    except InvalidPayload:
        return
    assert exact(canonical.decode(canonical.encode(value))) == exact(value)


@pytest.mark.parametrize(
    "value, data",
    [
        ({"b": 1, "a": [True, None, 1.0, -0.0]}, b'{"a":[true,null,1.0,-0.0],"b":1}'),
        ({"\U0001f600": 1, "\uffff": 2, "z": 3}, '{"z":3,"\uffff":2,"\U0001f600":1}'.encode()),
        ('\x00\x1f\x7f"\\/\n', b'"\\u0000\\u001f\x7f\\"\\\\/\\n"'),
        ([1e16, 1e-7, 5e-324, 0.1], b"[1e16,1e-7,5e-324,0.1]"),
        ([INTEGER_MAX, -INTEGER_MAX], b"[9223372036854775807,-9223372036854775807]"),
        ((1, (2,)), b"[1,[2]]"),
        ([Colour.RED, Level.HIGH], b'["red",3]'),
        ({"a\ud800": "\udfff", "é": 1.5}, '{"a\\ud800":"\\udfff","é":1.5}'.encode()),
        ({"\ue000": 1, "\ud800": 2, "\U00010000": 3}, '{"\\ud800":2,"\ue000":1,"\U00010000":3}'.encode()),
        ("\ud83d\ude00", '"\U0001f600"'.encode()),
        ([Colour.RED, "\udc00"], b'["red","\\udc00"]'),
        ([Torn.HALF, {"b": Torn.HALF}], b'["\\ud83d",{"b":"\\ud83d"}]'),
        ([Masked("abc"), Count(3), Ratio(0.5), Half.ONE], b'["abc",3,0.5,0.5]'),
        (Record(b=Rows([Point(1, 2)]), **{Masked("a"): 1}), b'{"a":1,"b":[[1,2]]}'),
        ({Masked("a"): Masked("\ud800")}, b'{"a":"\\ud800"}'),
        ({Masked("a"): "\ud800"}, b'{"a":"\\ud800"}'),
        ("", b'""'),
        ({}, b"{}"),
    ],
)
def test_the_form_is_fixed(value: object, data: bytes) -> None:
    """Stored digests depend on these bytes for ever: compare with literals."""
    assert canonical.encode(value) == data


@pytest.mark.parametrize(
    "value, place",
    [
        ({"a": [0, math.nan]}, "at /a/1"),
        (math.inf, "at the top"),
        ({"a": {"b/c~d": -math.inf}}, "at /a/b~1c~0d"),
        ({"a": {1: 2}}, "int, not text (at /a)"),
        ({"a": {None: 2}}, "NoneType, not text (at /a)"),
        ([b"bytes"], "builtins.bytes is not a JSON type (at /0)"),
        ({"s": {1}}, "at /s"),
        ([Plain.ONE], "at /0"),
        ([Huge.TOO], "at /0"),
        ([INTEGER_MAX + 1], "64 bits"),
        ([Count(INTEGER_MAX + 1)], "64 bits"),
        ({"a": Rows([Ratio("nan")])}, "nan is not a number we store (at /a/0)"),
        ({"a": {1: 2}}, "the key 1 is int"),
        ([-INTEGER_MAX - 1], "at /0"),
        ({"\x1b[31m": math.nan}, "at /\\x1b[31m"),
        (nested(JSON_DEPTH_MAX + 1), "nested deeper than 64"),
        ({"\ud83d\ude00": 1, "\U0001f600": 2}, "two keys"),
    ],
)
def test_encode_refuses_and_says_where(value: object, place: str) -> None:
    """Write what JSON cannot hold; the error must hold the pointer and be safe to print."""
    with pytest.raises(InvalidPayload) as caught:
        canonical.encode(value)
    assert place in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "data, word",
    [
        (b'{"a":1,"a":2}', "twice (at /a)"),
        (b'[{"x":{"b":1,"c":2,"b":3}}]', "twice (at /0/x/b)"),
        (b'{"a":[NaN]}', "NaN is not a number we store (at /a/0)"),
        (b"[-Infinity]", "at /0"),
        (b"1e400", "at the top"),
        (b"[9223372036854775808]", "at /0"),
        (b"-9223372036854775808", "at the top"),
        (b"1" * 5000, "not a number we store"),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b'"\xed\xa0\x80"', "not UTF-8"),
        (b"\xef\xbb\xbf1", "not JSON"),
        (b"1 2", "not JSON"),
        (b"1\x00", "not JSON"),
        (b"", "not JSON"),
        (b"[1,]", "not JSON"),
        (b"'a'", "not JSON"),
        (b'"\x01"', "not JSON"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64"),
        (b"[" * 100_000, "nested deeper than 64"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested deeper than 64"),
        (b"[ " * 65 + b"]" * 65, "nested deeper than 64"),
        ('{"\\ud83d\\ude00":1,"\U0001f600":2}'.encode(), "twice"),
    ],
)
def test_decode_refuses_and_says_why(data: bytes, word: str) -> None:
    """Read documents that are not JSON or not ours."""
    with pytest.raises(InvalidPayload) as caught:
        canonical.decode(data)
    assert word in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("depth", [0, 1, JSON_DEPTH_MAX])
def test_depth_is_allowed_up_to_the_limit(depth: int) -> None:
    """Stand exactly on the limit, alone and beside enough brackets that only a real count can tell."""
    wide = [nested(depth - 1), *([] for _ in range(100))] if depth else 1
    for value in (nested(depth), wide):
        assert canonical.decode(canonical.encode(value)) == value
        assert canonical.decode(json.dumps(value).encode()) == value


def test_size_is_allowed_up_to_the_limit() -> None:
    """Stand exactly on the limit and one byte beyond it, when writing and when reading."""
    fits = "x" * (JSON_BYTES_MAX - 2)
    data = canonical.encode(fits)
    assert len(data) == JSON_BYTES_MAX
    assert canonical.decode(data) == fits
    for attempt in (
        lambda: canonical.encode(fits + "x"),
        lambda: canonical.encode(["\n" * (JSON_BYTES_MAX // 2)]),
        lambda: canonical.decode(data + b" "),
        lambda: canonical.encode([1, 2, 3], bytes_max=6),
    ):
        with pytest.raises(TooLarge, match="than the limit of"):
            attempt()
    assert canonical.encode([1, 2, 3], bytes_max=7) == b"[1,2,3]"


def test_a_value_that_contains_itself_is_refused_quickly() -> None:
    """Write a cycle, and values that would fill the memory if they were written before they are measured."""
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(InvalidPayload, match="contains itself: what is at /0 is also at the top"):
        canonical.encode(cycle)
    record: dict[str, Any] = {"a": [1]}
    record["a"].append((record,))
    with pytest.raises(InvalidPayload, match="contains itself: what is at /a/1/0 is also at the top"):
        canonical.encode(record)
    shared = [1]
    assert canonical.encode([shared, shared]) == b"[[1],[1]]", "twice is not within itself"
    doubled: Any = []
    for _ in range(60):
        doubled = [doubled, doubled]
    with pytest.raises(TooLarge):
        canonical.encode(doubled)
    with pytest.raises(TooLarge):
        canonical.encode(["x" * 1_000_000] * 1_000_000)


def test_nineteen_digits_are_not_too_many() -> None:
    """Read long numbers that fit: nanoseconds since 1970 have nineteen digits."""
    for number in (1_800_000_000_000_000_000, INTEGER_MAX, -INTEGER_MAX):
        assert canonical.decode(b'{"at":%d}' % number) == {"at": number}


def test_digests_agree() -> None:
    """Compare the three forms with a digest computed elsewhere (`printf '{"a":1}' | sha256sum`)."""
    known = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert canonical.hex_digest(b'{"a":1}') == known
    assert canonical.digest(b'{"a":1}').hex() == known
    assert canonical.digest_of({"a": 1}).hex() == known
    assert (
        canonical.digest_of({"a": 1}) != canonical.digest_of({"a": 1.0}) != canonical.digest_of({"a": True})
    )
