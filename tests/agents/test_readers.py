"""Results are read by their hints the same quick way and plain way, whatever the hint."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any, Literal

import msgspec
import pydantic
import pytest

from holdfast.agents.signatures import Signature, convert_value
from holdfast.errors import InvalidPayload


class Colour(enum.StrEnum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Order:
    number: int
    placed: dt.date


class Model(pydantic.BaseModel):
    value: int


FITTING = [
    (Any, {"a": 1}),
    (int, 7),
    (float, 7),
    (str, "text"),
    (bool, True),
    (dict, {"a": [1]}),
    (dict[str, Any], {"a": [1]}),
    (dict[str, int], {"a": 1}),
    (list, [1, "a"]),
    (list[Any], [1, "a"]),
    (list[Point], [{"x": 1}, {"x": 2, "y": 3}]),
    (tuple[int, ...], [1, 2]),
    (Point, {"x": 1}),
    (Order, {"number": 1, "placed": "2026-11-16"}),
    (Colour, "red"),
    (Literal["a", "b"], "b"),
    (Point | None, {"x": 1}),
    (dt.date, "2026-11-16"),
    (Model, {"value": 4}),
    (list[Model], [{"value": 4}, {"value": 5}]),
]
UNFIT = [
    (int, "seven"),
    (int, True),
    (str, 7),
    (dict[str, int], {"a": "b"}),
    (dict[str, Any], [1]),
    (list[Any], {"a": 1}),
    (list[Point], [{"x": 1}, {"y": 1}]),
    (Point, {"x": "one"}),
    (Colour, "blue"),
    (Literal["a", "b"], "c"),
    (Model, {"value": "four"}),
]


def signature(kind: Any) -> Signature:
    async def function() -> None: ...

    function.__annotations__["return"] = kind
    return Signature(function)


def name(kind: Any) -> str:
    return str(getattr(kind, "__name__", kind))


@pytest.mark.parametrize("kind, value", FITTING, ids=lambda one: name(one)[:40])
def test_a_result_is_read_as_its_hint_says(kind: Any, value: Any) -> None:
    reading = signature(kind)
    expected = convert_value(value, kind, "the result")
    for _ in range(2):  # the second time nothing is found out any more
        found = reading.result(value)
        assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("kind, value", UNFIT, ids=lambda one: name(one)[:40])
def test_what_does_not_fit_is_refused_in_the_same_words(kind: Any, value: Any) -> None:
    reading = signature(kind)
    with pytest.raises(InvalidPayload) as plainly:
        convert_value(value, kind, f"the result of {reading.name}")
    for _ in range(2):
        with pytest.raises(InvalidPayload) as quickly:
            reading.result(value)
        assert str(quickly.value) == str(plainly.value)


@pytest.mark.parametrize("kind", [dict, dict[str, Any], dict[str, list[int]]], ids=name)
def test_code_that_changes_its_result_leaves_the_record_alone(kind: Any) -> None:
    recorded = {"a": [1]}
    signature(kind).result(recorded)["b"] = [2]
    assert recorded == {"a": [1]}


def test_a_hint_that_cannot_be_read_is_no_hint() -> None:
    reading = signature(list[int] | tuple[str, str])  # two kinds of one JSON: no library can tell them apart
    assert [reading.result(["a", 1]), reading.result(7)] == [["a", 1], 7]
