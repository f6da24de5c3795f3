"""References: how the arguments of one node of a plan name the output of another.

They are plain data, so a plan survives JSON and a model can write it:

    {"$ref": "fetch"}                                the whole output of node fetch
    {"$ref": "fetch", "path": ["items", 0, "id"]}    one place in it; a list, so that keys may hold any text
    {"$literal": {"$ref": "#/definitions/x"}}        the inner value unchanged, for data that looks like a reference

In Python write `Ref("fetch", "items", 0, "id")`; it becomes the second form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import InvalidPlan
from holdfast.model.limits import JSON_DEPTH_MAX

_REF: Final = "$ref"
_PATH: Final = "path"
_LITERAL: Final = "$literal"
_FORM_HINT: Final = (
    'Write {"$ref": "node"} or {"$ref": "node", "path": ["key", 0]}; '
    'wrap data that only looks like it in {"$literal": …}.'
)


@dataclass(frozen=True, slots=True, init=False)
class Ref:
    """The output of another node, or one place in it."""

    node: str
    path: tuple[str | int, ...]

    def __init__(self, node: str, *path: str | int) -> None:
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "path", path)

    def __str__(self) -> str:
        return "/".join(map(str, (self.node, *self.path)))

    def to_json(self) -> dict[str, Any]:
        return {_REF: self.node, _PATH: list(self.path)} if self.path else {_REF: self.node}


def find_references(args: object) -> Iterator[Ref]:
    """Yield the references in arguments, in document order."""
    if isinstance(args, Mapping):
        if (ref := _as_ref(args)) is not None:
            yield ref
        elif not _is_literal(args):
            for item in args.values():
                yield from find_references(item)
    elif isinstance(args, list | tuple):
        for item in args:
            yield from find_references(item)


def resolve(args: Any, outputs: Mapping[str, Any]) -> Any:
    """Return arguments with every reference replaced by what it refers to. Outputs are not copied.

    Raises:
        InvalidPlan: A node has no output yet, or its output has no such place.
    """
    if isinstance(args, Mapping):
        if (ref := _as_ref(args)) is not None:
            return _look_up(ref, outputs)
        if _is_literal(args):
            return args[_LITERAL]
        return {key: resolve(item, outputs) for key, item in args.items()}
    if isinstance(args, list | tuple):
        return [resolve(item, outputs) for item in args]
    return args


def _look_up(ref: Ref, outputs: Mapping[str, Any]) -> Any:
    if ref.node not in outputs:
        raise InvalidPlan(f"{str(ref)!r} refers to node {ref.node!r}, which has no output yet")
    value = outputs[ref.node]
    for depth, step in enumerate(ref.path):
        fits = isinstance(value, dict) if isinstance(step, str) else isinstance(value, list | tuple)
        try:
            if not fits:
                raise LookupError
            value = value[step]
        except LookupError:
            place = str(Ref(ref.node, *ref.path[:depth]))
            raise InvalidPlan(
                f"{str(ref)!r} refers to nothing: {place!r} has no {step!r}",
                hint="Look at the output of that node; the path must follow its keys and positions.",
            ) from None
    return value


def _as_ref(value: Mapping[str, Any]) -> Ref | None:
    if _REF not in value:
        return None
    node, path = value[_REF], value.get(_PATH, [])
    steps_fit = isinstance(path, list | tuple) and all(
        isinstance(step, str) or (type(step) is int and step >= 0) for step in path
    )
    if value.keys() - {_REF, _PATH} or not isinstance(node, str) or not steps_fit:
        raise InvalidPlan("a reference is malformed", hint=_FORM_HINT)
    return Ref(node, *path)


def _is_literal(value: Mapping[str, Any]) -> bool:
    if _LITERAL not in value:
        return False
    if len(value) != 1:
        raise InvalidPlan(f"{_LITERAL} stands beside other keys", hint=_FORM_HINT)
    return True


def to_plain(args: Any, depth: int = 0) -> Any:
    """Return arguments with every `Ref` in its JSON form."""
    if depth > JSON_DEPTH_MAX:
        return args  # too deep to be stored, and perhaps cyclic: the encoder raises the error
    if isinstance(args, Ref):
        return args.to_json()
    if isinstance(args, Mapping):
        return {key: to_plain(item, depth + 1) for key, item in args.items()}
    if isinstance(args, list | tuple):
        return [to_plain(item, depth + 1) for item in args]
    return args
