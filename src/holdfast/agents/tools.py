"""Tools and steps: functions whose calls are recorded, with a declared effect class.

    @hf.tool(effect="idempotent", key_lifetime="24h")
    async def refund(order: str, cents: int, *, key: hf.Key) -> Refund: ...

Inside a job the call is durable: recorded, replayed, recovered by its class. Outside a job it is a call of the plain
function, so that it can be tested and reused as one.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

import msgspec

from holdfast.agents import context
from holdfast.agents.signatures import Signature, plain
from holdfast.agents.threads import in_thread
from holdfast.engine.durable_call import CallPolicy, DurableCall, ProbeResult, Unstorable
from holdfast.errors import InvalidPayload, InvalidSetting
from holdfast.model.ids import check_name
from holdfast.model.retry import CALL_RETRY, PROBED_RETRY, Retry
from holdfast.model.side_effects import Effect, ProbeAnswer, parse_effect
from holdfast.model.time import MINUTE, Duration, parse_duration

P = ParamSpec("P")
R = TypeVar("R")


class Happened(msgspec.Struct, frozen=True):
    """Result of a probe: the call happened, and returned this."""

    result: Any = None


class NotHappened(msgspec.Struct, frozen=True):
    """Result of a probe: the call certainly did not happen."""


class CannotTell(msgspec.Struct, frozen=True):
    """Result of a probe: unknown. A person has to decide."""


_TASK = frozenset({"resume", "task_key"})
"""Arguments that name a sub-agent's task beside its input: they are not part of the call's identity."""

Probe = Callable[[str, dict[str, Any]], Any]
"""`probe(key, args)`: the call's key and its arguments by name. Sync or async."""


_TOOL: Final = "__holdfast_tool__"
"""The attribute of a tool's function that holds the tool."""


class _ToolType(type):
    """Metaclass of tools: `Tool(…)` returns a coroutine function, and `isinstance(function, Tool)` recognises it."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return _make_function(super().__call__(*args, **options))

    def __instancecheck__(cls, instance: Any) -> bool:
        # A wrapper around a tool has a copy of its attributes, and is not the tool.
        tool = getattr(instance, _TOOL, None) if isinstance(instance, FunctionType) else None
        return tool is not None and tool.made is instance and super().__instancecheck__(tool)


class Tool(Generic[P, R], metaclass=_ToolType):
    """A coroutine function with durable calls. Made by `hf.tool` and `hf.step`.

    For `inspect` and for every library that examines functions it is a function: its signature has no key and no
    secrets, because callers do not pass these. The members of this class are attributes of that function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        terms: CallPolicy,
        raises: tuple[type[Exception], ...] = (),
        signature: Signature | None = None,
        schema: dict[str, Any] | None = None,
    ) -> None:
        self.name = check_name(name, "tool name")
        self.function = function
        self.signature = Signature(function) if signature is None else signature
        self.schema = schema
        """The JSON schema of the arguments for a model, if it is not derived from the function's hints."""
        self.terms = self.declared = terms
        self.raises = raises
        self.made: Any = None
        """The function that represents this tool outside this module."""
        self._result_label = f"the result of {self.name}"
        self._is_async = inspect.iscoroutinefunction(function)

    if TYPE_CHECKING:

        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def make_call(self) -> Callable[P, Awaitable[R]]:
        """A coroutine function that makes one call: durable inside a job, plain outside."""

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            arguments = self.signature.bind(args, self._named(kwargs) if kwargs else kwargs)
            current = context.CURRENT.get()
            if current is None:
                value = await self.outcome(arguments)
            else:
                execution = current[0]
                matched = execution.identify_call(
                    self.name, self._same(arguments) if self.terms.relaunch else arguments
                )
                recorded = matched[3]
                # A recorded result is returned without building the call.
                if recorded is not None and execution.deliver_recorded(recorded):
                    value = recorded.result
                else:
                    value = await execution.call(self._asked(arguments), matched)
            result: R = self.signature.result(value)
            return result

        return call

    def check_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Checks arguments by name (from a model, a plan) against the type hints; returns them as JSON, and calls
        nothing."""
        self.signature.no_secrets(arguments)
        checked = self.signature.bind((), self._named(dict(arguments)))
        self.signature.call_with(checked, "")
        return checked

    def admit(self, arguments: Mapping[str, Any], unknown: AbstractSet[str]) -> None:
        """Checks that the tool accepts arguments of these names; those in `unknown` have no value yet, and may be of
        any type."""
        self.signature.no_secrets(arguments)
        self.signature.admit(self._named(dict(arguments)), unknown)

    def outcome(self, arguments: dict[str, Any]) -> Awaitable[Any]:
        """The result of the call with these arguments, as JSON: recorded, or from a new call."""
        execution, call = context.find_drive(), self._asked(arguments)
        return _here(call) if execution is None else execution.call(call)

    def _asked(self, arguments: dict[str, Any]) -> DurableCall:
        async def run(key: str) -> Any:
            bound = self.signature.call_with(arguments, key)
            if self._is_async:
                value = await self.function(*bound.args, **bound.kwargs)
            else:
                value = await in_thread(functools.partial(self.function, *bound.args, **bound.kwargs))
            try:
                return plain(value, self._result_label)
            except InvalidPayload as error:
                return Unstorable(error)

        same = self._same(arguments) if self.terms.relaunch else msgspec.UNSET
        return DurableCall(self.name, arguments, run, self.terms, self.raises, same)

    def answer(self, value: Any) -> tuple[Any, bool]:
        """The answer for a model, and whether it reports a failure."""
        return value, False

    def with_terms(self, terms: CallPolicy) -> Tool[P, R]:
        """The same tool, with another call policy."""
        other = copy.copy(self)
        other.terms = other.declared = terms
        function: Tool[P, R] = _make_function(other)
        return function

    def _same(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments that identify the call: without the name of the task, so that a relaunch is the same call."""
        return {name: value for name, value in arguments.items() if name not in _TASK}

    def _named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Treats `resume` of a sub-agent as an alias of its task key: a resumed sub-agent continues the same task."""
        if not self.terms.relaunch or "resume" not in kwargs:
            return kwargs
        others = {name: value for name, value in kwargs.items() if name != "resume"}
        return {**others, "task_key": others.get("task_key") or kwargs["resume"]}


_ATTRIBUTES: Final = (
    *("name", "function", "signature", "schema", "terms", "raises"),
    *("check_arguments", "admit", "outcome", "answer", "with_terms"),
)
"""The attributes that a tool's function has of the tool."""


def _make_function(tool: Tool[P, R]) -> Any:
    """The function that makes the tool's calls. For `inspect`, it has the parameters that callers pass."""
    function: Any = tool.make_call()
    function.__name__ = function.__qualname__ = tool.name
    functools.update_wrapper(function, tool.function)
    if type(tool.signature) is not Signature:
        del function.__wrapped__  # its parameters are internal
    function.__signature__ = tool.signature.for_callers()
    function.__annotations__ = {
        name: parameter.annotation
        for name, parameter in function.__signature__.parameters.items()
        if parameter.annotation is not inspect.Parameter.empty
    }
    if function.__signature__.return_annotation is not inspect.Signature.empty:
        function.__annotations__["return"] = function.__signature__.return_annotation
    vars(function).update({name: getattr(tool, name) for name in _ATTRIBUTES}, **{_TOOL: tool})
    tool.made = function
    return function


def override_terms(function: Any, change: Callable[[CallPolicy], CallPolicy]) -> None:
    """Changes the call policy of this tool, starting from the one that its author declared."""
    tool: Tool[..., Any] = vars(function)[_TOOL]
    tool.terms = function.terms = change(tool.declared)


async def _here(call: DurableCall) -> Any:
    """The result of a call outside a job, as JSON."""
    value = await call.run("")
    if isinstance(value, Unstorable):
        raise value.error
    return value


def terms_of(
    *,
    effect: str | None,
    key_lifetime: Duration | None,
    probe: Probe | None,
    timeout: Duration | None,
    receiver_delay: Duration,
    approve: Callable[..., bool] | bool | None,
    approval_lifetime: Duration,
    on_resume: str | None,
    output: Probe | None,
    retry: Retry | None = None,
    raises: tuple[type[Exception], ...] = (),
    sent_nothing: tuple[type[Exception], ...] = (),
) -> CallPolicy:
    """The call policy that an author declared; raises an error that says which settings conflict."""
    declared = parse_effect(effect)
    if declared is Effect.VERIFIABLE and probe is None:
        msg = "a verifiable tool needs a probe"
        raise InvalidSetting(
            msg,
            hint="Declare probe=…, a function that asks the receiver whether the call with a key happened.",
        )
    if on_resume not in {None, "relaunch"}:
        msg = f"on_resume={on_resume!r} is not known"
        raise InvalidSetting(msg, hint='Leave it out, or use on_resume="relaunch".')
    if output is not None and on_resume != "relaunch":
        msg = 'output= needs on_resume="relaunch"'
        raise InvalidSetting(msg, hint='Declare on_resume="relaunch", or use probe= instead.')
    asks = output if output is not None else probe
    return CallPolicy(
        effect=declared,
        key_lifetime_us=None if key_lifetime is None else parse_duration(key_lifetime),
        probe=None if asks is None else functools.partial(_probed, asks),
        longest_call_us=MINUTE if timeout is None else parse_duration(timeout),
        reads_within_us=None if timeout is None else parse_duration(timeout),
        receiver_delay_us=parse_duration(receiver_delay),
        relaunch=on_resume == "relaunch",
        approve=_asks_leave(approve),
        approval_lifetime_us=parse_duration(approval_lifetime),
        retry=_default_retry(declared, raises) if retry is None else retry,
        sent_nothing=tuple(sent_nothing),
    )


def _default_retry(effect: Effect, raises: tuple[type[Exception], ...]) -> Retry:
    """The default retry policy. Errors that the code may catch are raised at once."""
    retry = PROBED_RETRY if effect is Effect.VERIFIABLE else CALL_RETRY
    return msgspec.structs.replace(retry, never=raises) if raises else retry


def _asks_leave(approve: Callable[..., bool] | bool | None) -> Callable[[Any], bool] | None:
    if callable(approve):
        return lambda args: bool(approve(**args))
    return (lambda _args: True) if approve else None


async def _probed(probe: Probe, key: str, args: Any) -> ProbeResult:
    """The result of the author's probe for the engine. Any value other than the three results means unknown."""
    if inspect.iscoroutinefunction(probe):
        finding = await probe(key, args)
    else:
        finding = await in_thread(lambda: probe(key, args))
        if inspect.isawaitable(finding):
            finding = await asyncio.ensure_future(_awaited(finding))
    match finding:
        case Happened(result=result):
            return ProbeResult(ProbeAnswer.HAPPENED, plain(result, "the result that a probe found"))
        case NotHappened():
            return ProbeResult(ProbeAnswer.NOT_HAPPENED)
        case _:
            return ProbeResult(ProbeAnswer.CANNOT_TELL)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
