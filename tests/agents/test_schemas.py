"""What a model is told about a tool: from the function as it is written, and valid as JSON schema."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pydantic
import pytest

import holdfast as hf
from holdfast.errors import InvalidPayload, InvalidSetting

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers

NO_KEY = hf.Key("")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    id: str
    lines: list[Line]
    colour: Colour = Colour.RED


class Leaf(pydantic.BaseModel):
    size: int


class Tree(pydantic.BaseModel):
    leaf: Leaf
    below: list[Tree] = []


Shadow: Any = pydantic.create_model("Order", note=(str, ...))
"""A model of another library that has the same name as ours."""


@pytest.fixture
def app() -> hf.App:
    return hf.App(store="memory:")


def told(function: Callable[..., Any], app: hf.App) -> dict[str, Any]:
    """The schema of the function's arguments; it is one, by the rules of JSON schema."""
    (one,) = hf.schemas(app.tool(function))
    schema: Any = one["input_schema"]
    jsonschema_rs.meta.validate(schema)
    return dict(schema)


async def refund(
    order: str,
    cents: Annotated[int, msgspec.Meta(ge=1), "the amount, in cents"],
    reason: str = "none",
    *,
    notify: Literal["mail", "none"] | None = None,
    key: hf.Key = NO_KEY,
) -> str:
    """Pay money back to a customer,
    at once.

    It cannot be undone.

    Args:
        order (str): Which order: its number,
            as the customer says it.
        reason: Shown to the customer.

    Returns:
        order: not a parameter.
    """
    return order


REFUND = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "description": "Which order: its number, as the customer says it."},
        "cents": {"type": "integer", "minimum": 1, "description": "the amount, in cents"},
        "reason": {"type": "string", "description": "Shown to the customer.", "default": "none"},
        "notify": {"anyOf": [{"enum": ["mail", "none"]}, {"type": "null"}], "default": None},
    },
    "required": ["order", "cents"],
    "additionalProperties": False,
}


def test_a_function_is_told_in_three_styles(app: hf.App) -> None:
    tool = app.tool(refund)
    says = "Pay money back to a customer, at once."
    assert hf.schemas(tool) == [{"name": "refund", "description": says, "input_schema": REFUND}]
    function = {"name": "refund", "description": says, "parameters": REFUND}
    assert hf.schemas(tool, style="openai") == [{"type": "function", "function": function}]
    assert hf.schemas(tool, style="responses") == [{"type": "function", **function, "strict": False}]
    with pytest.raises(InvalidSetting, match="style='xml' is not known"):
        hf.schemas(tool, style="xml")  # type: ignore[call-overload]


def test_an_agent_is_told_like_a_tool(app: hf.App) -> None:
    @app.agent
    async def research(topic: str, depth: int = 2) -> str:
        """Find out about a topic."""
        return topic

    (one,) = hf.schemas(research)
    assert (one["name"], one["description"]) == ("research", "Find out about a topic.")
    assert one["input_schema"]["required"] == ["topic"]


def test_types_that_stand_for_themselves(app: hf.App) -> None:
    """Nested structs, dataclasses, enums, recursive pydantic models, two definitions of one name: all in one schema,
    and what it accepts is what the tool accepts."""

    def place(
        order: Order, tree: Tree, shadow: Shadow, at: dt.date, tags: list[str] | None = None
    ) -> None: ...

    place.__annotations__["shadow"] = Shadow
    schema = told(place, app)
    assert sorted(schema["$defs"]) == ["Colour", "Leaf", "Line", "Order", "Tree"]
    assert schema["properties"]["order"] == {"$ref": "#/$defs/Order"}
    assert schema["properties"]["shadow"]["properties"] == {"note": {"title": "Note", "type": "string"}}
    assert "$defs" not in schema["properties"]["tree"]
    good: dict[str, Any] = {
        "order": {"id": "o", "lines": [{"sku": "s"}], "colour": "blue"},
        "tree": {"leaf": {"size": 1}, "below": [{"leaf": {"size": 2}}]},
        "shadow": {"note": "n"},
        "at": "2026-11-16",
    }
    tool = app.tools["place"]
    check = jsonschema_rs.validator_for(schema)
    check.validate(good)
    assert tool.check_arguments(good)["tags"] is None
    wrong = [
        good | {"order": {"id": "o", "lines": [{}]}},
        good | {"order": {"id": "o", "lines": [], "colour": "green"}},
        good | {"tree": {"leaf": {"size": 1}, "below": [{"leaf": {}}]}},
        good | {"shadow": {}},
        good | {"more": 1},
        {name: value for name, value in good.items() if name != "at"},
    ]
    for bad in wrong:
        assert not check.is_valid(bad), bad
        with pytest.raises(InvalidPayload):
            tool.check_arguments(bad)


def test_definitions_of_one_name_are_kept_apart(app: hf.App) -> None:
    def pair(ours: Order, theirs: list[Any]) -> None: ...

    wood: Any = pydantic.create_model("Wood", order=(Shadow, ...))
    pair.__annotations__["theirs"] = list[wood]
    schema = told(pair, app)
    assert sorted(schema["$defs"]) == ["Colour", "Line", "Order", "Order_2"]
    check = jsonschema_rs.validator_for(schema)
    ours = {"id": "o", "lines": []}
    assert check.is_valid({"ours": ours, "theirs": [{"order": {"note": "n"}}]})
    assert not check.is_valid({"ours": ours, "theirs": [{"order": ours}]})
    assert not check.is_valid({"ours": {"note": "n"}, "theirs": []})


def test_without_hints_and_words_there_is_still_a_schema(app: hf.App) -> None:
    def look_it_up(what, **more):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN003, ANN202
        return what

    tool = app.tool(look_it_up)
    assert hf.schemas(tool) == [
        {
            "name": "look_it_up",
            "description": "Look it up.",
            "input_schema": {
                "type": "object",
                "properties": {"what": {}},
                "required": ["what"],
                "additionalProperties": True,
            },
        }
    ]


def test_a_docstring_that_is_only_a_section_is_no_description(app: hf.App) -> None:
    def count(path: str) -> None:
        """Args:
        path: where.
        """

    (one,) = hf.schemas(app.tool(count))
    assert one["description"] == "Count."


def test_names_are_such_as_every_provider_takes(app: hf.App) -> None:
    async def call() -> None: ...

    dotted = app.tool(name="files.read file")(call)
    long = app.tool(name="x" * 100)(call)
    names = [one["name"] for one in hf.schemas(dotted, long)]
    assert names[0] == "files_read_file"
    assert (len(names[1]), names[1][:55]) == (64, "x" * 55)
    with pytest.raises(
        InvalidSetting, match=r"'files.read file' and 'files_read_file' would both have the name"
    ):
        hf.schemas(dotted, app.tool(name="files_read_file")(call))
    with pytest.raises(InvalidSetting, match="neither a tool nor an agent"):
        hf.schemas(call)  # type: ignore[call-overload]


def no_json(where: Path) -> None: ...
def unresolved(amount: OnlyForCheckers, *, key: hf.Key = NO_KEY) -> None: ...
def several(*lines: str) -> None: ...
def by_place(line: str, /) -> None: ...


@pytest.mark.parametrize(
    "function, says",
    [
        (no_json, "parameter 'where' of no_json has a type that JSON schema cannot express"),
        (unresolved, "parameter 'amount' of unresolved has a type hint that does not resolve"),
        (several, "parameter 'lines' of several is positional-only"),
        (by_place, "parameter 'line' of by_place is positional-only"),
    ],
)
def test_what_cannot_be_told_names_its_parameter(
    function: Callable[..., Any], says: str, app: hf.App
) -> None:
    """Declaring such a tool is fine, code may call it; only a model cannot be told of it."""
    tool = app.tool(function)
    with pytest.raises(InvalidSetting, match=says):
        hf.schemas(tool)


def test_one_hint_that_does_not_resolve_spares_the_others(app: hf.App) -> None:
    """The key is ours to give, whatever stands beside it."""
    assert app.tool(unresolved).signature.key_parameter == "key"
