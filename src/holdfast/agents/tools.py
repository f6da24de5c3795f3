"""Tools and steps: functions whose calls are recorded, with what their author said about repeating them.

    @hf.tool(effect="idempotent", key_lifetime="24h")
    async def refund(order: str, cents: int, *, key: hf.Key) -> Refund: ...

Called inside a job, the call is durable: recorded, found again, recovered by its class. Called anywhere else it is the
plain function, so that it can be tested and reused as one.
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
    """A probe found that the call had happened, and what it returned."""

    result: Any = None


class NotHappened(msgspec.Struct, frozen=True):
    """A probe is sure that the call had not happened."""


class CannotTell(msgspec.Struct, frozen=True):
    """A probe could not find out. A person will be asked."""


_TASK = frozenset({"resume", "task_key"})
"""What names a sub-agent's task beside its input: it does not make the call another one."""

Probe = Callable[[str, dict[str, Any]], Any]
"""`probe(key, args)`: the call's key and its arguments by name. Sync or async."""


_TOOL: Final = "__holdfast_tool__"
"""Under this name a tool's function has the tool."""


class _ToolType(type):
    """Metaclass of tools: `Tool(…)` returns a coroutine function, and `isinstance(function, Tool)` knows it."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return _make_function(super().__call__(*args, **options))

    def __instancecheck__(cls, instance: Any) -> bool:
        # A function that somebody wrapped around a tool has a copy of its attributes, and is not the tool.
        tool = getattr(instance, _TOOL, None) if isinstance(instance, FunctionType) else None
        return tool is not None and tool.made is instance and super().__instancecheck__(tool)


class Tool(Generic[P, R], metaclass=_ToolType):
    """A coroutine function with durable calls. Made by `hf.tool` and `hf.step`.

    It is a function for `inspect` and for every library that looks at functions: its signature has no key and no
    secrets, because these are not the caller's to give. What is declared here are attributes of that function.
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
        """What a model is told of the arguments, where that does not follow from the function's hints."""
        self.terms = self.declared = terms
        self.raises = raises
        self.made: Any = None
        """The function that this tool is for everybody else."""
        self._said_result = f"the result of {self.name}"
        self._is_async = inspect.iscoroutinefunction(function)

    if TYPE_CHECKING:

        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    def make_call(self) -> Callable[P, Awaitable[R]]:
        """A coroutine function that makes one call: durable inside a job, plain outside."""

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given = self.signature.bind(args, self._named(kwargs) if kwargs else kwargs)
            current = context.CURRENT.get()
            if current is None:
                value = await self.outcome(given)
            else:
                drive = current[0]
                met = drive.identify_call(self.name, self._same(given) if self.terms.relaunch else given)
                recorded = met[3]
                # What is simply handed back has nothing made for it.
                if recorded is not None and drive.deliver_recorded(recorded):
                    value = recorded.result
                else:
                    value = await drive.call(self._asked(given), met)
            result: R = self.signature.result(value)
            return result

        return call

    def check_arguments(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that somebody else named, as JSON, checked against the hints; nothing is called."""
        self.signature.no_secrets(named)
        given = self.signature.bind((), self._named(dict(named)))
        self.signature.call_with(given, "")
        return given

    def admit(self, named: Mapping[str, Any], unknown: AbstractSet[str]) -> None:
        """The tool can be called with arguments of these names; those that are not known yet are of any type."""
        self.signature.no_secrets(named)
        self.signature.admit(self._named(dict(named)), unknown)

    def outcome(self, given: dict[str, Any]) -> Awaitable[Any]:
        """The result of the call with these arguments, as JSON: from the record, or from doing it."""
        drive, asked = context.find_drive(), self._asked(given)
        return _here(asked) if drive is None else drive.call(asked)

    def _asked(self, given: dict[str, Any]) -> DurableCall:
        async def run(key: str) -> Any:
            bound = self.signature.call_with(given, key)
            if self._is_async:
                value = await self.function(*bound.args, **bound.kwargs)
            else:
                value = await in_thread(functools.partial(self.function, *bound.args, **bound.kwargs))
            try:
                return plain(value, self._said_result)
            except InvalidPayload as error:
                return Unstorable(error)

        same = self._same(given) if self.terms.relaunch else msgspec.UNSET
        return DurableCall(self.name, given, run, self.terms, self.raises, same)

    def answer(self, value: Any) -> tuple[Any, bool]:
        """What a model gets of the result, and whether it tells of a failure."""
        return value, False

    def with_terms(self, terms: CallPolicy) -> Tool[P, R]:
        """The same tool, with other terms."""
        other = copy.copy(self)
        other.terms = other.declared = terms
        made: Tool[P, R] = _make_function(other)
        return made

    def _same(self, given: dict[str, Any]) -> dict[str, Any]:
        """What makes it the same call again: not the name of the task, if it is launched anew."""
        return {name: value for name, value in given.items() if name not in _TASK}

    def _named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """A sub-agent that is asked to resume is asked for the same task: `resume` is another word for its key."""
        if not self.terms.relaunch or "resume" not in kwargs:
            return kwargs
        named = {name: value for name, value in kwargs.items() if name != "resume"}
        return {**named, "task_key": named.get("task_key") or kwargs["resume"]}


_ATTRIBUTES: Final = (
    *("name", "function", "signature", "schema", "terms", "raises"),
    *("check_arguments", "admit", "outcome", "answer", "with_terms"),
)
"""What a tool's function has of the tool."""


def _make_function(tool: Tool[P, R]) -> Any:
    """The function that makes the tool's calls. For `inspect`, it has the parameters that are a caller's to give."""
    function: Any = tool.make_call()
    function.__name__ = function.__qualname__ = tool.name
    functools.update_wrapper(function, tool.function)
    if type(tool.signature) is not Signature:
        del function.__wrapped__  # its parameters are ours, not a caller's
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
    """The calls of this tool are made on the terms that its author declared, changed like this."""
    tool: Tool[..., Any] = vars(function)[_TOOL]
    tool.terms = function.terms = change(tool.declared)


async def _here(asked: DurableCall) -> Any:
    """The result of a call outside a job, as JSON."""
    value = await asked.run("")
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
    """The terms that an author declared; or an error that says what does not fit together."""
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
    """What an author gets who says nothing. Errors that the code may catch are for the code, at once."""
    retry = PROBED_RETRY if effect is Effect.VERIFIABLE else CALL_RETRY
    return msgspec.structs.replace(retry, never=raises) if raises else retry


def _asks_leave(approve: Callable[..., bool] | bool | None) -> Callable[[Any], bool] | None:
    if callable(approve):
        return lambda args: bool(approve(**args))
    return (lambda _args: True) if approve else None


async def _probed(probe: Probe, key: str, args: Any) -> ProbeResult:
    """What the author's probe said, in the engine's words. Anything else than the three answers is no answer."""
    if inspect.iscoroutinefunction(probe):
        said = await probe(key, args)
    else:
        said = await in_thread(lambda: probe(key, args))
        if inspect.isawaitable(said):
            said = await asyncio.ensure_future(_awaited(said))
    match said:
        case Happened(result=result):
            return ProbeResult(ProbeAnswer.HAPPENED, plain(result, "the result that a probe found"))
        case NotHappened():
            return ProbeResult(ProbeAnswer.NOT_HAPPENED)
        case _:
            return ProbeResult(ProbeAnswer.CANNOT_TELL)


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said
