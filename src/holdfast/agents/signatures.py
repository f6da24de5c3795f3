"""Signatures: arguments and results as plain JSON and back, by the function's type hints.

A journal holds JSON; authors write dataclasses, msgspec structs, pydantic models, enums, dates. The hints of the
function connect the two: arguments are bound by name and written as JSON, and values from the journal are read back
as the hints say. A function without hints gets plain JSON.

Type information is computed once per hint. A resumed job reads every result that it ever got, and `msgspec.convert`
examines a hint such as `dict[str, int]` anew at every call, which takes longer than the conversion. It caches what it
knows of a struct, though. So each hint becomes the one field of a struct made for it, and a value is read as that
struct.

A value that does not fit is converted once more in the plain way: there the error names the place in the user's
value, and hints that msgspec cannot read count as no hints, as before.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Literal, NamedTuple, NewType

import msgspec

from holdfast.agents import secrets
from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.canonical import SCALARS

Key = NewType("Key", str)
"""A parameter of this type gets the call's idempotency key: the same over attempts, workers and restores."""

KEY: Final = Key("")
"""The default of such a parameter, so that type checkers let callers leave it out: `key: hf.Key = hf.KEY`."""
_HINT_ARGUMENTS: Final = "Pass the arguments that the function names."
_HINT_KEY: Final = (
    'The idempotency key is passed by Holdfast where the parameter says so: key: hf.Key = hf.Key("").'
)


class Signature:
    """The parameters and the result of one function."""

    secret_parameters: frozenset[str] = frozenset()
    """Parameters that a model can neither see nor set."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__qualname__", type(function).__qualname__)
        self._signature = inspect.signature(function)
        self._hints = hints = _hints(function)
        self.key_parameter = next((name for name, hint in hints.items() if hint is Key), None)
        self.secret_parameters = frozenset(name for name, hint in hints.items() if secrets.takes_secret(hint))
        self._types = {
            name: hints.get(name, Any) for name in self._signature.parameters if name != self.key_parameter
        }
        self._variable = {
            name: parameter.kind
            for name, parameter in self._signature.parameters.items()
            if parameter.kind in {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        }
        self._result = hints.get("return", Any)
        self._unread = {
            name
            for name, parameter in self._signature.parameters.items()
            if parameter.annotation is not inspect.Parameter.empty and name not in hints
        }
        self._labels = {name: f"argument {name!r} of {self.name}" for name in self._types}
        result_label = f"the result of {self.name}"
        self._reader = TypeReader(
            self._result, lambda value: convert_value(value, self._result, result_label), _read_model
        )
        self._plain = _plain_parameters(self._signature, self.key_parameter)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters that callers set."""
        return tuple(self._types)

    def for_callers(self) -> inspect.Signature:
        """The signature as a caller sees it: without key and secrets, hints resolved as far as possible."""
        injected = {self.key_parameter, *self.secret_parameters}
        parameters = [
            parameter.replace(annotation=self._hints.get(name, parameter.annotation))
            for name, parameter in self._signature.parameters.items()
            if name not in injected
        ]
        returned = self._hints.get("return", self._signature.return_annotation)
        return self._signature.replace(parameters=parameters, return_annotation=returned)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as JSON. Omitted ones are included with their defaults, so that a changed default
        counts as a changed call."""
        if not kwargs and self._plain is not None and len(args) == self._plain.all_in_order:
            arguments, names = {}, iter(self._plain.order)  # equals `match`, in a fraction of the time
            for value in args:
                name = next(names)
                arguments[name] = value if type(value) in SCALARS else plain(value, self._labels[name])
            return arguments
        if self.key_parameter in kwargs:
            msg = f"{self.name} was called with an idempotency key"
            raise InvalidSetting(
                msg, hint=f"Leave `{self.key_parameter}` out: Holdfast makes the key and hands it over."
            )
        matched = None if self._plain is None else self._plain.match(args, kwargs)
        arguments = self._bound(args, kwargs) if matched is None else matched
        for name, value in arguments.items():
            if type(value) not in SCALARS:
                arguments[name] = plain(value, self._labels[name])
        return arguments

    def no_secrets(self, arguments: Mapping[str, Any]) -> None:
        """Rejects arguments that name a secret: only the program's own code chooses the secret of a call."""
        if forbidden := sorted(arguments.keys() & self.secret_parameters):
            msg = f"{self.name} has no parameter {', '.join(map(repr, forbidden))} that a caller may give"
            raise InvalidPayload(msg, hint="Leave it out. In code, give it a default: = hf.secret(…).")

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as Python itself binds them; raises an error that says why it cannot."""
        try:
            extra = {} if self.key_parameter is None else {self.key_parameter: ""}
            bound = self._signature.bind(*args, **kwargs, **extra)
        except TypeError as error:
            msg = f"{self.name} was called with wrong arguments: {error}"
            raise InvalidPayload(msg, hint=_HINT_KEY if "'key'" in msg else _HINT_ARGUMENTS) from None
        bound.apply_defaults()
        return {name: value for name, value in bound.arguments.items() if name != self.key_parameter}

    def call_with(self, stored: Mapping[str, Any], key: str | None = None) -> Arguments:
        """The arguments for the function, read back from JSON by their hints."""
        if self._plain is not None and stored.keys() == self._types.keys():
            arguments = dict(stored)
            for name, kind in self._types.items():
                value = stored[name]
                if type(value) is not kind or kind not in SCALARS:
                    arguments[name] = convert_value(value, kind, self._labels[name])
            if self.key_parameter is not None:
                arguments[self.key_parameter] = key
            return Arguments((), arguments)
        unknown = stored.keys() - self._types.keys()
        if unknown:
            msg = f"{self.name} has no parameter {', '.join(map(repr, sorted(unknown)))}"
            raise InvalidPayload(msg, hint=f"Its parameters are {', '.join(self._types) or 'none'}.")
        bound = inspect.BoundArguments(self._signature, {})
        for name, parameter in self._signature.parameters.items():
            if name == self.key_parameter:
                bound.arguments[name] = key
            elif name in stored:
                bound.arguments[name] = self._read(name, stored[name])
            elif parameter.default is inspect.Parameter.empty and name not in self._variable:
                msg = f"{self.name} needs {name!r}"
                raise InvalidPayload(msg, hint="Give it in the job's input.")
        bound.apply_defaults()
        return Arguments(bound.args, bound.kwargs)

    def admit(self, arguments: Mapping[str, Any], unknown: AbstractSet[str]) -> None:
        """Checks that the function accepts arguments of these names. Values that are not known yet may be of any
        type."""
        bound = self.bind((), {name: None if name in unknown else value for name, value in arguments.items()})
        for name, value in bound.items():
            if self._variable.get(name) is inspect.Parameter.VAR_KEYWORD:
                self._read(name, {key: item for key, item in value.items() if key not in unknown})
            elif name not in unknown:
                self._read(name, value)

    def _read(self, name: str, value: Any) -> Any:
        kind = self._types[name]
        if self._variable.get(name) is inspect.Parameter.VAR_POSITIONAL:
            return tuple(convert_value(item, kind, self._labels[name]) for item in value)
        if self._variable.get(name) is inspect.Parameter.VAR_KEYWORD:
            return {
                key: convert_value(item, kind, f"argument {key!r} of {self.name}")
                for key, item in value.items()
            }
        return convert_value(value, kind, self._labels[name])

    def parameters(self) -> Iterator[Declared]:
        """The parameters that a model sets, in the order of the function. The runtime sets the key, and the author
        the secrets."""
        for name, hint in self._types.items():
            if name in self.secret_parameters:
                continue
            parameter = self._signature.parameters[name]
            yield Declared(name, hint, parameter.kind, parameter.default, name not in self._unread)

    def result(self, stored: Any) -> Any:
        """The result as the function's hint declares it. A person who settled the call may have given no result:
        None."""
        return None if stored is None else self._reader.read(stored)


class Declared(NamedTuple):
    """One declared parameter. `is_read`: its hint could be resolved, or it has none."""

    name: str
    hint: Any
    kind: Any
    default: Any
    is_read: bool


class Arguments(msgspec.Struct, frozen=True):
    """The arguments of one call of a function."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Plain(msgspec.Struct, frozen=True):
    """Parameters that can all be passed by name: most functions have no others, and binding them needs no `inspect`."""

    order: tuple[str, ...]
    names: frozenset[str]
    defaults: dict[str, Any]
    all_in_order: int
    """The number of arguments, if all may be passed in order; -1 if some may not."""

    def match(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arguments by name; None if they do not fit, or need the general way."""
        if len(args) > len(self.order):
            return None
        arguments = {**self.defaults, **dict(zip(self.order, args, strict=False)), **kwargs}
        twice = bool(kwargs) and not kwargs.keys().isdisjoint(self.order[: len(args)])
        return None if twice or arguments.keys() != self.names else arguments


def _plain_parameters(signature: inspect.Signature, key: str | None) -> _Plain | None:
    parameters = {name: parameter for name, parameter in signature.parameters.items() if name != key}
    simple = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    if key is not None and signature.parameters[key].kind is not inspect.Parameter.KEYWORD_ONLY:
        return None
    if any(parameter.kind not in simple for parameter in parameters.values()):
        return None
    order = tuple(
        name
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    )
    return _Plain(
        order,
        frozenset(parameters),
        {
            name: parameter.default
            for name, parameter in parameters.items()
            if parameter.default is not inspect.Parameter.empty
        },
        len(order) if len(order) == len(parameters) else -1,
    )


def plain(value: Any, subject: str) -> Any:
    """The value as JSON; raises an error that names what cannot be written."""
    if type(value) in SCALARS:
        return value
    try:
        converted = msgspec.to_builtins(value, enc_hook=_write_object, str_keys=True)
        if value == converted:  # almost always; `payloads` lists the exceptions
            return converted
    except Exception:  # noqa: S110 - any error, also one of a user's class in the comparison
        pass
    # Imported here: few values need it, and every process would load it.
    from holdfast.agents.payloads import to_json

    return to_json(value, subject, _write)


def _write(value: Any, order: Literal["deterministic"] | None) -> Any:
    return msgspec.to_builtins(value, enc_hook=_write_object, str_keys=True, order=order)


def convert_value(value: Any, kind: Any, subject: str) -> Any:
    """Reads JSON as a type; raises an error that says what does not fit."""
    if is_anything(kind):
        return value
    if type(value) is kind and kind in SCALARS:
        return value
    try:
        return msgspec.convert(value, kind, dec_hook=_read_model)
    except msgspec.ValidationError as error:
        msg = f"{subject} does not match its type: {error}"
        raise InvalidPayload(msg, hint="Correct the value, or the type hint.") from None
    except TypeError:
        return value  # a hint that only a type checker understands


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints that can be resolved; a hint that cannot (a name that only a type checker sees) is omitted."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # an annotation may contain any code
        names = getattr(inspect.unwrap(function), "__globals__", {})
        annotations = getattr(function, "__annotations__", {})
        return {name: hint for name, text in annotations.items() for hint in _hint(name, text, names)}


def _hint(name: str, annotation: Any, names: dict[str, Any]) -> list[Any]:
    try:
        alone = types.SimpleNamespace(__annotations__={name: annotation})
        return [typing.get_type_hints(alone, globalns=names, include_extras=True)[name]]
    except Exception:  # as above, for one of them
        return []


def _write_object(value: Any) -> Any:
    if isinstance(value, secrets.Secret):
        return str(value)
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    from holdfast.agents.payloads import to_base

    base = to_base(value)
    if base is value:
        msg = f"{type(value).__qualname__} cannot be encoded as JSON"
        raise TypeError(msg)
    return base


def _read_model(kind: type, value: Any) -> Any:
    if kind is secrets.Secret:
        return secrets.parse_reference(value)
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    from holdfast.agents.payloads import from_base

    value = from_base(kind, value)
    if isinstance(value, kind):
        return value
    msg = f"{kind.__qualname__} cannot be read back from JSON"
    raise ValueError(msg)


PLAIN: Final = {dict: (dict, dict[str, Any]), list: (list, list[Any])}
"""Hints that JSON always satisfies: their value is copied, as msgspec would."""


def is_anything(kind: Any) -> bool:
    """Whether the hint accepts any value."""
    return kind is Any or kind is None or kind is inspect.Parameter.empty


class TypeReader:
    """Reads values as one type. `plainly` converts those that do not fit; `hook` reads types that msgspec does not
    know."""

    __slots__ = ("_as_is", "_box", "_copied", "_hint", "_hook", "_plainly", "_scalar")

    def __init__(
        self, kind: Any, plainly: Callable[[Any], Any], hook: Callable[[type, Any], Any] | None = None
    ) -> None:
        self._plainly = plainly
        self._hook = hook
        self._as_is = is_anything(kind)
        self._scalar = kind if isinstance(kind, type) and kind in SCALARS else None
        self._copied: Any = next((plain for plain, hints in PLAIN.items() if kind in hints), None)
        self._hint = kind
        self._box: Any = msgspec.UNSET

    def read(self, value: Any) -> Any:
        """The value as the type; or the result of the plain conversion."""
        if self._as_is or type(value) is self._scalar:
            return value
        if type(value) is self._copied:
            return value.copy()
        if self._box is msgspec.UNSET:
            self._box = _box(self._hint)
        if self._box is None:
            return self._plainly(value)
        try:
            return msgspec.convert({"value": value}, self._box, dec_hook=self._hook).value
        except msgspec.ValidationError:
            pass
        except (TypeError, NameError):
            self._box = None
        return self._plainly(value)


def _box(kind: Any) -> Any:
    """A struct whose one field is of this type; None if msgspec cannot make one. Made at first use: many tools are
    never called."""
    try:
        return msgspec.defstruct("Box", [("value", kind)])
    except (TypeError, ValueError, NameError):
        return None
