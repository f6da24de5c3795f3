"""What a model is told about tools: names, descriptions, and the JSON schema of their arguments.

    tools = hf.schemas(lookup, refund)                       # for messages.create of Anthropic
    tools = hf.schemas(lookup, refund, style="openai")       # for chat.completions.create
    tools = hf.schemas(lookup, refund, style="responses")    # for responses.create

Everything comes from the function as it is written: types from its hints, the description from the first paragraph of
its docstring, the words on a parameter from the docstring's `Args:` section or from `Annotated[int, "in cents"]`.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, overload

import msgspec

from holdfast.agents.agents import Agent
from holdfast.agents.signatures import Declared, plain
from holdfast.agents.text_limits import shorten
from holdfast.agents.tools import Tool
from holdfast.errors import HoldfastError, InvalidSetting

if TYPE_CHECKING:
    from anthropic.types import ToolParam
    from openai.types.chat import ChatCompletionFunctionToolParam
    from openai.types.responses import FunctionToolParam

Callee = Tool[..., Any] | Agent[..., Any]
"""Whatever a model may call."""

WIRE_NAME_MAX: Final = 64
"""The longest tool name that every provider takes."""

DESCRIPTION_BYTES_MAX: Final = 16_000
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_SECTION: Final = re.compile(
    r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?):\s*$", re.IGNORECASE
)
_ARGS: Final = re.compile(r"(args|arguments|parameters|params):\s*$", re.IGNORECASE)
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_REFS: Final = "#/$defs/"


@overload
def schemas(*tools: Callee, style: Literal["anthropic"] = "anthropic") -> list[ToolParam]: ...


@overload
def schemas(*tools: Callee, style: Literal["openai"]) -> list[ChatCompletionFunctionToolParam]: ...


@overload
def schemas(*tools: Callee, style: Literal["responses"]) -> list[FunctionToolParam]: ...


def schemas(*tools: Callee, style: str = "anthropic") -> Any:
    """The tools as a model's API wants to hear of them."""
    shape = _STYLES.get(style)
    if shape is None:
        msg = f"style={style!r} is not known"
        raise InvalidSetting(msg, hint=f"Say one of {', '.join(map(repr, _STYLES))}.")
    return [
        shape(name, describe_tool(tool), parameters_of(tool)) for name, tool in by_wire_name(tools).items()
    ]


_STYLES: Final[dict[str, Callable[[str, str, dict[str, Any]], dict[str, Any]]]] = {
    "anthropic": lambda name, description, schema: {
        "name": name,
        "description": description,
        "input_schema": schema,
    },
    "openai": lambda name, description, schema: {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    },
    "responses": lambda name, description, schema: {
        "type": "function",
        "name": name,
        "description": description,
        "parameters": schema,
        "strict": False,  # their strict mode forbids what most functions have: parameters with defaults
    },
}


def by_wire_name(tools: Iterable[Any]) -> dict[str, Callee]:
    """The tools under the names that a model calls them by. Two of one name would be two answers to one call."""
    named: dict[str, Callee] = {}
    for tool in tools:
        if not isinstance(tool, Tool | Agent):
            msg = f"{tool!r} is neither a tool nor an agent"
            raise InvalidSetting(msg, hint="Declare the function with @hf.tool(effect=…).")
        name = wire_name(tool.name)
        if name in named:
            msg = f"{named[name].name!r} and {tool.name!r} would both have the name {name!r} for a model"
            raise InvalidSetting(msg, hint="Give one of them another name with name=….")
        named[name] = tool
    return named


def wire_name(name: str) -> str:
    """The name as every provider takes it: letters, digits, `_` and `-`, not too long."""
    plain_name = _NOT_IN_NAMES.sub("_", name)
    if len(plain_name) <= WIRE_NAME_MAX:
        return plain_name
    return f"{plain_name[: WIRE_NAME_MAX - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def describe_tool(tool: Callee) -> str:
    """What the tool does, in its author's words; without any, what its name says."""
    written = inspect.cleandoc(tool.__doc__ or "")
    if written and isinstance(tool, Tool) and tool.schema is not None:
        return shorten(written, DESCRIPTION_BYTES_MAX)  # written for models, all of it
    first = " ".join(written.partition("\n\n")[0].split())
    if first and not _SECTION.match(first.partition(" ")[0]):
        return first
    words = " ".join(re.split(r"[_\W]+", tool.name)).strip()
    return f"{words[:1].upper()}{words[1:]}."


def parameters_of(tool: Callee) -> dict[str, Any]:
    """The JSON schema of the tool's arguments, as one object; or an error that names the parameter it cannot tell."""
    declared = tool.schema if isinstance(tool, Tool) else None
    if declared is not None:
        return declared
    said = _said_of_parameters(inspect.cleandoc(tool.__doc__ or ""))
    properties: dict[str, Any] = {}
    required: list[str] = []
    defs = _Definitions()
    more: Any = False
    for one in tool.signature.parameters():
        schema = _schema(tool, one, defs)
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            more = schema or True
            continue
        words = _annotated(one.hint) or said.get(one.name)
        if words and "description" not in schema:
            schema = {**schema, "description": words}
        if one.default is inspect.Parameter.empty:
            required.append(one.name)
        else:
            schema |= _default(one.default)
        properties[one.name] = schema
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": more}
    return {**whole, "$defs": defs.written} if defs.written else whole


def _schema(tool: Callee, one: Declared, defs: _Definitions) -> dict[str, Any]:
    where = f"the parameter {one.name!r} of {tool.name}"
    if one.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
        msg = f"{where} is positional-only, and a model passes arguments by name"
        raise InvalidSetting(msg, hint="Make it an ordinary parameter, or a list for many values.")
    if not one.is_read:
        msg = f"{where} has a type hint that does not resolve"
        raise InvalidSetting(
            msg,
            hint="Import the type where the function stands, outside of `if TYPE_CHECKING` and of functions.",
        )
    return _told(one.hint, where, defs)


def schema_of(hint: Any, what: str) -> dict[str, Any]:
    """The JSON schema of a type; or an error that says what of it cannot be told."""
    defs = _Definitions()
    schema = _told(hint, what, defs)
    return {**schema, "$defs": defs.written} if defs.written else schema


def _told(hint: Any, where: str, defs: _Definitions) -> dict[str, Any]:
    try:
        (found,), components = msgspec.json.schema_components(
            [hint], schema_hook=_by_its_own_rules, ref_template=_REFS + "{name}"
        )
    except (TypeError, ValueError) as error:
        msg = f"{where} has a type that JSON schema cannot express: {str(error).splitlines()[-1]}"
        raise InvalidSetting(
            msg, hint="Use JSON, dataclasses, msgspec structs, pydantic models, enums, literals or dates."
        ) from None
    schema: dict[str, Any] = defs.moved({"$defs": components, "schema": found}, {})["schema"]
    return schema


def _by_its_own_rules(kind: type) -> dict[str, Any]:
    """What a pydantic model, or anything that looks like one, says of itself."""
    tell = getattr(kind, "model_json_schema", None)
    if tell is None:
        raise NotImplementedError
    told: dict[str, Any] = tell()
    return told


class _Definitions:
    """Definitions of all parameters, at the root of one schema: references are counted from there."""

    def __init__(self) -> None:
        self.written: dict[str, Any] = {}
        self._as_given: dict[str, Any] = {}

    def moved(self, node: Any, names: Mapping[str, str]) -> Any:
        """The schema without definitions of its own: they are here now, and it refers to them here."""
        if isinstance(node, list):
            return [self.moved(one, names) for one in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$defs"), dict):
            names = {**names, **self._taken_in(node["$defs"])}
        return {
            key: _renamed(value, names) if key == "$ref" else self.moved(value, names)
            for key, value in node.items()
            if key != "$defs"
        }

    def _taken_in(self, given: dict[str, Any]) -> dict[str, str]:
        """Each definition's name here: its own, or with a number, if that one means something else already."""
        names: dict[str, str] = {}
        for name, definition in given.items():
            here, nth = name, 1
            while here in self._as_given and self._as_given[here] != definition:
                nth += 1
                here = f"{name}_{nth}"
            names[name] = here
        for name, definition in given.items():
            if names[name] not in self._as_given:
                self._as_given[names[name]] = definition
                self.written[names[name]] = self.moved(definition, names)
        return names


def _renamed(ref: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(ref, str) or not ref.startswith(_REFS):
        return ref
    name = ref.removeprefix(_REFS)
    return _REFS + names.get(name, name)


def _annotated(hint: Any) -> str | None:
    """The words in `Annotated[T, "…"]`."""
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    return next((one for one in hint.__metadata__ if isinstance(one, str)), None)


def _default(value: Any) -> dict[str, Any]:
    """What the model may leave out; told, if it can be said in JSON."""
    try:
        return {"default": plain(value, "a default")}
    except HoldfastError:
        return {}


def _said_of_parameters(written: str) -> dict[str, str]:
    """What the `Args:` section of a docstring says of each parameter."""
    said: dict[str, str] = {}
    lines = iter(written.splitlines())
    if not any(_ARGS.match(line) for line in lines):
        return said
    name, indent = "", 0
    for line in lines:
        inside = len(line) - len(line.lstrip())
        if line.strip() and inside == 0:
            break  # the next section
        indent = indent or inside
        entry = _ENTRY.match(line.strip()) if inside == indent else None
        if entry is not None:
            name = entry[1]
            said[name] = entry[2].strip()
        elif name and line.strip():
            said[name] = f"{said[name]} {line.strip()}".strip()
    return said
