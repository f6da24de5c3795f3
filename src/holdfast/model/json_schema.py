"""JSON Schema validation of the subset that describes Python types.

It validates an answer early and explains the fault in words. An unknown keyword accepts the value, because the code
that asked decodes it by its type again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_REFS: Final = "#/$defs/"
_DEPTH_MAX: Final = 64

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
}
_BOUNDS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "is less than"),
    "maximum": (lambda value, bound: value <= bound, "is more than"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "is not more than"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "is not less than"),
}
_LENGTHS: Final[dict[str, tuple[type[str | list[Any]], str, int]]] = {
    "minLength": (str, "is shorter than", 1),
    "maxLength": (str, "is longer than", -1),
    "minItems": (list, "has fewer items than", 1),
    "maxItems": (list, "has more items than", -1),
}


def find_fault(value: Any, schema: Any) -> str | None:
    """The fault of the value, in words; None if it matches the schema."""
    root = schema if isinstance(schema, Mapping) else {}
    return next(_find_faults(value, root, root, "it", 0), None)


def _find_faults(value: Any, schema: Any, root: Mapping[str, Any], where: str, depth: int) -> Iterator[str]:
    if schema is False:
        yield f"{where} is not expected"
    if not isinstance(schema, Mapping) or depth > _DEPTH_MAX:
        return
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith(_REFS):
        definition = root.get("$defs", {}).get(ref.removeprefix(_REFS), {})
        yield from _find_faults(value, definition, root, where, depth + 1)
    for keyword in ("anyOf", "oneOf"):
        choices = schema.get(keyword)
        if choices and not any(_fits(value, choice, root, depth) for choice in choices):
            yield f"{where} is none of what is allowed"
    for choice in schema.get("allOf", ()):
        yield from _find_faults(value, choice, root, where, depth + 1)
    yield from _check_kind(value, schema, where)
    yield from _check_bounds(value, schema, where)
    yield from _check_members(value, schema, root, where, depth)


def _fits(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> bool:
    return next(_find_faults(value, schema, root, "it", depth + 1), None) is None


def _check_kind(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    declared = schema.get("type")
    kinds = [declared] if isinstance(declared, str) else declared or []
    if kinds and not any(_TYPES[kind](value) for kind in kinds if kind in _TYPES):
        yield f"{where} is not {_format_kinds(kinds)}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and not any(_is_same(value, option) for option in allowed):
        yield f"{where} is none of {', '.join(map(str, allowed))}"


def _format_kinds(kinds: list[str]) -> str:
    return " or ".join(
        "null" if kind == "null" else f"a{'n' if kind[0] in 'aio' else ''} {kind}" for kind in kinds
    )


def _is_same(value: Any, other: Any) -> bool:
    """Whether two values are equal in JSON: true is not 1."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _check_bounds(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        for keyword, (holds, phrase) in _BOUNDS.items():
            if keyword in schema and not holds(value, schema[keyword]):
                yield f"{where} {phrase} {schema[keyword]}"
    for keyword, (kind, phrase, sign) in _LENGTHS.items():
        if keyword in schema and isinstance(value, kind) and sign * (len(value) - schema[keyword]) < 0:
            yield f"{where} {phrase} {schema[keyword]}"


def _check_members(
    value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], where: str, depth: int
) -> Iterator[str]:
    if isinstance(value, list | tuple) and "items" in schema:
        for nth, element in enumerate(value):
            yield from _find_faults(element, schema["items"], root, f"item {nth} of {where}", depth + 1)
    if not isinstance(value, Mapping):
        return
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where} has no {name!r}"
    for name, element in value.items():
        if name in properties:
            yield from _find_faults(element, properties[name], root, f"{name!r}", depth + 1)
        elif "additionalProperties" in schema:
            yield from _find_faults(element, schema["additionalProperties"], root, f"{name!r}", depth + 1)
