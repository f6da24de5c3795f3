"""What a JSON schema says of a value, as far as questions use it: judged as an independent validator does."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from holdfast.model.json_schema import find_fault

TREE = {
    "$ref": "#/$defs/Tree",
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "left": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
SCHEMAS: list[Any] = [
    {},
    {"type": "boolean"},
    {"type": "integer"},
    {"type": "number", "minimum": 1, "exclusiveMaximum": 5},
    {"type": ["string", "null"]},
    {"type": "string", "minLength": 2, "maxLength": 3},
    {"enum": ["a", 1, None]},
    {"const": True},
    {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": 0}}, "required": ["a"]},
    {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    {"allOf": [{"type": "integer"}, {"maximum": 3}]},
    TREE,
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.0,
    1.5,
    4,
    5,
    "",
    "a",
    "ab",
    "abcd",
    [],
    [1],
    [1, 2, 3],
    ["a"],
    {},
    {"a": 1},
    {"a": 0},
    {"a": "x"},
    {"name": "x"},
    {"name": "x", "left": {"name": "y", "left": None}},
    {"name": "x", "left": {"name": 1}},
    {"name": "x", "right": 1},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_verdict_is_that_of_a_validator(schema: Any) -> None:
    validator = jsonschema_rs.validator_for(schema)
    for value in VALUES:
        assert (find_fault(value, schema) is None) == validator.is_valid(value), (
            value,
            find_fault(value, schema),
        )


@pytest.mark.parametrize(
    "schema, value, words",
    [
        ({"type": "boolean"}, "perhaps", "it is not a boolean"),
        ({"type": ["integer", "null"]}, "x", "it is not an integer or null"),
        ({"enum": ["red", "blue"]}, "green", "it is none of red, blue"),
        ({"type": "array", "items": {"type": "string"}}, ["a", 1], "item 1 of it is not a string"),
        (TREE, {"name": "x", "left": {}}, "'left' is none of what is allowed"),
        (TREE, {}, "it has no 'name'"),
        (TREE, {"name": "x", "up": 1}, "'up' is not expected"),
        ({"type": "integer", "minimum": 3}, 2, "it is less than 3"),
    ],
)
def test_what_is_wrong_is_said_in_words(schema: Any, value: Any, words: str) -> None:
    assert find_fault(value, schema) == words


def test_what_it_does_not_know_passes() -> None:
    assert find_fault("x", None) is None
    assert find_fault("x", {"format": "date", "pattern": "^y"}) is None
    endless = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert find_fault("x", endless) is None
