"""Arguments and results as plain JSON and back, by the function's own type hints.

A journal holds JSON; people write dataclasses, msgspec structs, pydantic models, enums, dates. In between stand the
hints of the function: arguments are bound by name, written as JSON, and what comes out of the journal is read back as
what the hint says. A function without hints gets plain JSON.

JSON read as a type, again and again: what msgspec finds out about the type is found out once.

A resumed job reads every result that it ever had, and `msgspec.convert` examines a hint such as `dict[str, int]` anew
at every call, which takes longer than the reading. It keeps what it knows of a struct, though. So the hint becomes the
one field of a struct made for it, and a value is read as that struct.

What does not fit is read once more the plain way: there the error says the place in the value that the user gave, and
hints that msgspec cannot read are what they always were, no hints.
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
"""A tool's parameter of this type gets the call's idempotency key: the same over attempts, workers and restores."""

KEY: Final = Key("")
"""The default of such a parameter, so that type checkers let callers leave it out: `key: hf.Key = hf.KEY`."""
_HINT_ARGUMENTS: Final = "Pass the arguments that the function names."
_HINT_KEY: Final = (
    'The idempotency key is passed by Holdfast where the parameter says so: key: hf.Key = hf.Key("").'
)


class Signature:
    """The parameters and the result of one function."""

    secret_parameters: frozenset[str] = frozenset()
    """Not a model's to give, nor to know of."""

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
        self._said = {name: f"argument {name!r} of {self.name}" for name in self._types}
        said_result = f"the result of {self.name}"
        self._reader = TypeReader(
            self._result, lambda value: convert_value(value, self._result, said_result), _read_model
        )
        self._plain = _plain_parameters(self._signature, self.key_parameter)

    @property
    def names(self) -> tuple[str, ...]:
        """What is given to it, by name."""
        return tuple(self._types)

    def for_callers(self) -> inspect.Signature:
        """The signature as a caller sees it: no key and no secrets, hints resolved as far as they can be."""
        injected = {self.key_parameter, *self.secret_parameters}
        parameters = [
            parameter.replace(annotation=self._hints.get(name, parameter.annotation))
            for name, parameter in self._signature.parameters.items()
            if name not in injected
        ]
        returned = self._hints.get("return", self._signature.return_annotation)
        return self._signature.replace(parameters=parameters, return_annotation=returned)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as JSON. Those left out are there with their defaults, so that a default that changes
        is seen as a changed call."""
        if not kwargs and self._plain is not None and len(args) == self._plain.all_in_order:
            given, names = {}, iter(self._plain.order)  # as `match` would, in a fraction of the time
            for value in args:
                name = next(names)
                given[name] = value if type(value) in SCALARS else plain(value, self._said[name])
            return given
        if self.key_parameter in kwargs:
            msg = f"{self.name} was called with an idempotency key"
            raise InvalidSetting(
                msg, hint=f"Leave `{self.key_parameter}` out: Holdfast makes the key and hands it over."
            )
        matched = None if self._plain is None else self._plain.match(args, kwargs)
        given = self._bound(args, kwargs) if matched is None else matched
        for name, value in given.items():
            if type(value) not in SCALARS:
                given[name] = plain(value, self._said[name])
        return given

    def no_secrets(self, named: Mapping[str, Any]) -> None:
        """None of these says which secret the call uses: that is for the program's own code."""
        if taken := sorted(named.keys() & self.secret_parameters):
            msg = f"{self.name} has no parameter {', '.join(map(repr, taken))} that a caller may give"
            raise InvalidPayload(msg, hint="Leave it out. In code, give it a default: = hf.secret(…).")

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as Python itself binds them; or an error that says why it cannot."""
        try:
            extra = {} if self.key_parameter is None else {self.key_parameter: ""}
            bound = self._signature.bind(*args, **kwargs, **extra)
        except TypeError as error:
            msg = f"{self.name} was called with wrong arguments: {error}"
            raise InvalidPayload(msg, hint=_HINT_KEY if "'key'" in msg else _HINT_ARGUMENTS) from None
        bound.apply_defaults()
        return {name: value for name, value in bound.arguments.items() if name != self.key_parameter}

    def call_with(self, stored: Mapping[str, Any], key: str | None = None) -> Arguments:
        """Arguments to call the function with, read back from JSON by their hints."""
        if self._plain is not None and stored.keys() == self._types.keys():
            named = dict(stored)
            for name, kind in self._types.items():
                value = stored[name]
                if type(value) is not kind or kind not in SCALARS:
                    named[name] = convert_value(value, kind, self._said[name])
            if self.key_parameter is not None:
                named[self.key_parameter] = key
            return Arguments((), named)
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

    def admit(self, named: Mapping[str, Any], unknown: AbstractSet[str]) -> None:
        """The function can be called with arguments of these names. Values that are not known yet are of any type."""
        given = self.bind((), {name: None if name in unknown else value for name, value in named.items()})
        for name, value in given.items():
            if self._variable.get(name) is inspect.Parameter.VAR_KEYWORD:
                self._read(name, {key: one for key, one in value.items() if key not in unknown})
            elif name not in unknown:
                self._read(name, value)

    def _read(self, name: str, value: Any) -> Any:
        kind = self._types[name]
        if self._variable.get(name) is inspect.Parameter.VAR_POSITIONAL:
            return tuple(convert_value(one, kind, self._said[name]) for one in value)
        if self._variable.get(name) is inspect.Parameter.VAR_KEYWORD:
            return {
                key: convert_value(one, kind, f"argument {key!r} of {self.name}")
                for key, one in value.items()
            }
        return convert_value(value, kind, self._said[name])

    def parameters(self) -> Iterator[Declared]:
        """What a model may give, in the order of the function. The key is ours to give and secrets are the author's."""
        for name, hint in self._types.items():
            if name in self.secret_parameters:
                continue
            parameter = self._signature.parameters[name]
            yield Declared(name, hint, parameter.kind, parameter.default, name not in self._unread)

    def result(self, stored: Any) -> Any:
        """The result as the function's hint says it is. A person who settled the call may have said nothing: None."""
        return None if stored is None else self._reader.read(stored)


class Declared(NamedTuple):
    """One parameter, as it is written. `is_read`: its hint is one that we could resolve, or there is none."""

    name: str
    hint: Any
    kind: Any
    default: Any
    is_read: bool


class Arguments(msgspec.Struct, frozen=True):
    """What a function is called with."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Plain(msgspec.Struct, frozen=True):
    """Parameters that may all be given by name: most functions have no others, and binding them takes no `inspect`."""

    order: tuple[str, ...]
    names: frozenset[str]
    defaults: dict[str, Any]
    all_in_order: int
    """How many arguments are all of them, if they may all be given in order; -1, if some may not."""

    def match(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
        """The arguments by name; None: they do not fit, or not in this simple way."""
        if len(args) > len(self.order):
            return None
        given = {**self.defaults, **dict(zip(self.order, args, strict=False)), **kwargs}
        twice = bool(kwargs) and not kwargs.keys().isdisjoint(self.order[: len(args)])
        return None if twice or given.keys() != self.names else given


def _plain_parameters(signature: inspect.Signature, key: str | None) -> _Plain | None:
    named = {name: parameter for name, parameter in signature.parameters.items() if name != key}
    simple = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    if key is not None and signature.parameters[key].kind is not inspect.Parameter.KEYWORD_ONLY:
        return None
    if any(parameter.kind not in simple for parameter in named.values()):
        return None
    order = tuple(name for name, one in named.items() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return _Plain(
        order,
        frozenset(named),
        {name: one.default for name, one in named.items() if one.default is not inspect.Parameter.empty},
        len(order) if len(order) == len(named) else -1,
    )


def plain(value: Any, what: str) -> Any:
    """The value as JSON; or an error that says what cannot be written."""
    if type(value) in SCALARS:
        return value
    try:
        written = msgspec.to_builtins(value, enc_hook=_write_object, str_keys=True)
        if value == written:  # almost always; `payloads` says what else there is
            return written
    except Exception:  # noqa: S110 - whatever it is, also of somebody's own class that was compared
        pass
    # Imported here: few values come this way, and every process would load it.
    from holdfast.agents.payloads import to_json

    return to_json(value, what, _write)


def _write(value: Any, order: Literal["deterministic"] | None) -> Any:
    return msgspec.to_builtins(value, enc_hook=_write_object, str_keys=True, order=order)


def convert_value(value: Any, kind: Any, what: str) -> Any:
    """JSON read as a type; or an error that says what does not fit."""
    if is_anything(kind):
        return value
    if type(value) is kind and kind in SCALARS:
        return value
    try:
        return msgspec.convert(value, kind, dec_hook=_read_model)
    except msgspec.ValidationError as error:
        msg = f"{what} does not match its type: {error}"
        raise InvalidPayload(msg, hint="Correct the value, or the type hint.") from None
    except TypeError:
        return value  # a hint that only a type checker understands


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The hints that can be resolved; one that cannot (a name that only a type checker sees) is no hint."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # any code may stand in an annotation
        names = getattr(inspect.unwrap(function), "__globals__", {})
        written = getattr(function, "__annotations__", {})
        return {name: hint for name, text in written.items() for hint in _hint(name, text, names)}


def _hint(name: str, written: Any, names: dict[str, Any]) -> list[Any]:
    try:
        alone = types.SimpleNamespace(__annotations__={name: written})
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
"""Hints that ask no more of a value than JSON promises: their value is copied, as msgspec would."""


def is_anything(kind: Any) -> bool:
    """Whether the hint asks nothing of a value."""
    return kind is Any or kind is None or kind is inspect.Parameter.empty


class TypeReader:
    """Reads values as one type. `plainly` is the way for those that do not fit; `hook` reads what msgspec cannot."""

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
        """The value as the type says; or what the plain way makes of it."""
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
    """A struct whose one field is of this kind; None, if there can be none. Made late: many tools are never called."""
    try:
        return msgspec.defstruct("Box", [("value", kind)])
    except (TypeError, ValueError, NameError):
        return None
