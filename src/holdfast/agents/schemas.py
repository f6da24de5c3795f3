"""Tool schemas for models: names, descriptions, and the JSON schema of their arguments.

    tools = hf.schemas(lookup, refund)                       # for messages.create of Anthropic
    tools = hf.schemas(lookup, refund, style="openai")       # for chat.completions.create
    tools = hf.schemas(lookup, refund, style="responses")    # for responses.create

They are derived from the function: types from its hints, the description from the first paragraph of its docstring,
the description of a parameter from the docstring's `Args:` section or from `Annotated[int, "in cents"]`.
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
"""What a model may call."""

WIRE_NAME_MAX: Final = 64
"""The longest tool name that every provider accepts."""

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
    """The tools in the format of a model's API."""
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
        "strict": False,  # their strict mode forbids parameters with defaults, which most functions have
    },
}


def by_wire_name(tools: Iterable[Any]) -> dict[str, Callee]:
    """The tools by the names that a model uses. Names are unique: a call must select one tool."""
    tools_by_name: dict[str, Callee] = {}
    for tool in tools:
        if not isinstance(tool, Tool | Agent):
            msg = f"{tool!r} is neither a tool nor an agent"
            raise InvalidSetting(msg, hint="Declare the function with @hf.tool(effect=…).")
        name = wire_name(tool.name)
        if name in tools_by_name:
            msg = f"{tools_by_name[name].name!r} and {tool.name!r} would both have the name {name!r} for a model"
            raise InvalidSetting(msg, hint="Give one of them another name with name=….")
        tools_by_name[name] = tool
    return tools_by_name


def wire_name(name: str) -> str:
    """The name in a form that every provider accepts: letters, digits, `_` and `-`, not too long."""
    plain_name = _NOT_IN_NAMES.sub("_", name)
    if len(plain_name) <= WIRE_NAME_MAX:
        return plain_name
    return f"{plain_name[: WIRE_NAME_MAX - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def describe_tool(tool: Callee) -> str:
    """The tool's description from its docstring; without one, from its name."""
    docstring = inspect.cleandoc(tool.__doc__ or "")
    if docstring and isinstance(tool, Tool) and tool.schema is not None:
        return shorten(docstring, DESCRIPTION_BYTES_MAX)  # written for models as a whole
    first = " ".join(docstring.partition("\n\n")[0].split())
    if first and not _SECTION.match(first.partition(" ")[0]):
        return first
    words = " ".join(re.split(r"[_\W]+", tool.name)).strip()
    return f"{words[:1].upper()}{words[1:]}."


def parameters_of(tool: Callee) -> dict[str, Any]:
    """The JSON schema of the tool's arguments, as one object; raises an error that names the parameter without a
    schema."""
    declared = tool.schema if isinstance(tool, Tool) else None
    if declared is not None:
        return declared
    descriptions = _said_of_parameters(inspect.cleandoc(tool.__doc__ or ""))
    properties: dict[str, Any] = {}
    required: list[str] = []
    defs = _Definitions()
    more: Any = False
    for parameter in tool.signature.parameters():
        schema = _schema(tool, parameter, defs)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            more = schema or True
            continue
        words = _annotated(parameter.hint) or descriptions.get(parameter.name)
        if words and "description" not in schema:
            schema = {**schema, "description": words}
        if parameter.default is inspect.Parameter.empty:
            required.append(parameter.name)
        else:
            schema |= _default(parameter.default)
        properties[parameter.name] = schema
    whole = {"type": "object", "properties": properties, "required": required, "additionalProperties": more}
    return {**whole, "$defs": defs.written} if defs.written else whole


def _schema(tool: Callee, parameter: Declared, defs: _Definitions) -> dict[str, Any]:
    where = f"the parameter {parameter.name!r} of {tool.name}"
    if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY}:
        msg = f"{where} is positional-only, and a model passes arguments by name"
        raise InvalidSetting(msg, hint="Make it an ordinary parameter, or a list for many values.")
    if not parameter.is_read:
        msg = f"{where} has a type hint that does not resolve"
        raise InvalidSetting(
            msg,
            hint="Import the type where the function stands, outside of `if TYPE_CHECKING` and of functions.",
        )
    return _told(parameter.hint, where, defs)


def schema_of(hint: Any, subject: str) -> dict[str, Any]:
    """The JSON schema of a type; raises an error that names the part without one."""
    defs = _Definitions()
    schema = _told(hint, subject, defs)
    return {**schema, "$defs": defs.written} if defs.written else schema


def _told(hint: Any, where: str, defs: _Definitions) -> dict[str, Any]:
    try:
        (schema_found,), components = msgspec.json.schema_components(
            [hint], schema_hook=_by_its_own_rules, ref_template=_REFS + "{name}"
        )
    except (TypeError, ValueError) as error:
        msg = f"{where} has a type that JSON schema cannot express: {str(error).splitlines()[-1]}"
        raise InvalidSetting(
            msg, hint="Use JSON, dataclasses, msgspec structs, pydantic models, enums, literals or dates."
        ) from None
    schema: dict[str, Any] = defs.moved({"$defs": components, "schema": schema_found}, {})["schema"]
    return schema


def _by_its_own_rules(kind: type) -> dict[str, Any]:
    """The schema that a pydantic model, or a similar class, declares itself."""
    make_schema = getattr(kind, "model_json_schema", None)
    if make_schema is None:
        raise NotImplementedError
    schema: dict[str, Any] = make_schema()
    return schema


class _Definitions:
    """Definitions of all parameters, at the root of one schema: references are resolved from there."""

    def __init__(self) -> None:
        self.written: dict[str, Any] = {}
        self._as_given: dict[str, Any] = {}

    def moved(self, node: Any, names: Mapping[str, str]) -> Any:
        """The schema without its own definitions: they move here, and its references point here."""
        if isinstance(node, list):
            return [self.moved(item, names) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(node.get("$defs"), dict):
            names = {**names, **self._taken_in(node["$defs"])}
        return {
            key: _renamed(value, names) if key == "$ref" else self.moved(value, names)
            for key, value in node.items()
            if key != "$defs"
        }

    def _taken_in(self, definitions: dict[str, Any]) -> dict[str, str]:
        """The name of each definition here: its own, or with a number if that name has another meaning already."""
        names: dict[str, str] = {}
        for name, definition in definitions.items():
            new_name, nth = name, 1
            while new_name in self._as_given and self._as_given[new_name] != definition:
                nth += 1
                new_name = f"{name}_{nth}"
            names[name] = new_name
        for name, definition in definitions.items():
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
    """The description in `Annotated[T, "…"]`."""
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    return next((annotation for annotation in hint.__metadata__ if isinstance(annotation, str)), None)


def _default(value: Any) -> dict[str, Any]:
    """The default of an optional parameter, if it can be written as JSON."""
    try:
        return {"default": plain(value, "a default")}
    except HoldfastError:
        return {}


def _said_of_parameters(docstring: str) -> dict[str, str]:
    """The description of each parameter in the `Args:` section of a docstring."""
    descriptions: dict[str, str] = {}
    lines = iter(docstring.splitlines())
    if not any(_ARGS.match(line) for line in lines):
        return descriptions
    name, indent = "", 0
    for line in lines:
        inside = len(line) - len(line.lstrip())
        if line.strip() and inside == 0:
            break  # the next section
        indent = indent or inside
        entry = _ENTRY.match(line.strip()) if inside == indent else None
        if entry is not None:
            name = entry[1]
            descriptions[name] = entry[2].strip()
        elif name and line.strip():
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
    return descriptions
