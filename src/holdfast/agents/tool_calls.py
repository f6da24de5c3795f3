"""Tool calls of a model's reply: executed in parallel, durably, with errors as answers.

    reply = await llm.messages.create(model=M, messages=messages, tools=hf.schemas(lookup, refund))
    messages += [assistant(reply), await hf.run_tools(reply, [lookup, refund])]

A call is identified by its place: this `run_tools`, and the index of the call in the reply. The provider's own id
goes back with the answer and means nothing else, because servers repeat ids and leave them out.

The model gets its own mistakes as an answer, before anything is recorded or done: an unknown tool, arguments that are
not JSON or not of the declared types. It also gets the failure of a tool whose outcome is known. A call with an
*unknown* outcome is no answer for a model to work with: the engine recovers it by its class first. Errors that end or
park the run pass through unchanged.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, overload

from holdfast.agents import context
from holdfast.agents.schemas import Callee, by_wire_name, wire_name
from holdfast.agents.text_limits import shorten, text_of
from holdfast.agents.tools import Tool
from holdfast.engine.durable_call import encode_result
from holdfast.engine.task_scopes import place_by_name
from holdfast.errors import (
    CallFailed,
    Denied,
    HoldfastError,
    InvalidMove,
    InvalidPayload,
    Misuse,
    Refused,
)
from holdfast.model import canonical
from holdfast.model.limits import RESULT_BYTES_MAX

if TYPE_CHECKING:
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionToolMessageParam
    from openai.types.responses.response_input_param import FunctionCallOutput

ANSWER_BYTES_MAX: Final = 100_000
"""The default limit for one result: a long page, and far from a whole context."""

_SAID_BYTES_MAX: Final = 2_000
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TRY_ANOTHER_WAY: Final = "Correct the call, try another way, or say that it did not work."

Fault = Literal["unknown_tool", "invalid_arguments", "tool_failed", "denied"]


class AnthropicReply(Protocol):
    """A `Message` of Anthropic."""

    @property
    def content(self) -> Sequence[Any]: ...

    @property
    def stop_reason(self) -> Any: ...


class ChatReply(Protocol):
    """A `ChatCompletion` of OpenAI or of a compatible server."""

    @property
    def choices(self) -> Sequence[Any]: ...


class ChatMessage(Protocol):
    """The message in a `ChatCompletion`."""

    @property
    def tool_calls(self) -> Any: ...


class ResponsesReply(Protocol):
    """A `Response` of OpenAI."""

    @property
    def output(self) -> Sequence[Any]: ...


class ModelToolCall(NamedTuple):
    """One tool call of a reply. `arguments` are JSON, or text that should be."""

    id: str
    name: Any
    arguments: Any


class Answer(NamedTuple):
    """The answer to a call, for the model."""

    text: str
    is_error: bool = False


@overload
async def run_tools(
    reply: AnthropicReply, tools: Iterable[Callee], *, answer_max: int = ANSWER_BYTES_MAX
) -> MessageParam: ...


@overload
async def run_tools(
    reply: ChatReply | ChatMessage, tools: Iterable[Callee], *, answer_max: int = ANSWER_BYTES_MAX
) -> list[ChatCompletionToolMessageParam]: ...


@overload
async def run_tools(
    reply: ResponsesReply, tools: Iterable[Callee], *, answer_max: int = ANSWER_BYTES_MAX
) -> list[FunctionCallOutput]: ...


@overload
async def run_tools(
    reply: Mapping[str, Any], tools: Iterable[Callee], *, answer_max: int = ANSWER_BYTES_MAX
) -> Any: ...


async def run_tools(reply: Any, tools: Iterable[Callee], *, answer_max: int = ANSWER_BYTES_MAX) -> Any:
    """Executes every tool call of the reply; returns what follows the reply in the conversation.

    For a message of Anthropic that is one message with all results, for OpenAI a list: of tool messages (chat
    completions) or of outputs (responses). Answers are in the order of the calls. An agent among the tools is
    spawned, as a separate job. answer_max: bytes of one result that the model gets; a longer one is shortened and
    says how much is left out.
    """
    callees = by_wire_name(tools)
    calls, write = _understood(reply)
    callees = {**{tool.name: tool for tool in callees.values()}, **callees}
    return write(calls, await _answered(calls, callees, answer_max))


async def _answered(
    calls: list[ModelToolCall], callees: Mapping[str, Callee], answer_max: int
) -> list[Answer]:
    execution = context.find_drive()
    if execution is None:
        return await _together([_answer(call, callees, answer_max) for call in calls])
    with execution.scope("run_tools"):
        if len(calls) != 1:
            return await _together(
                [_placed(_answer(call, callees, answer_max), nth) for nth, call in enumerate(calls)]
            )
        with execution.scope("call-0"):  # the same step key as in a task, without the task
            return [await _answer(calls[0], callees, answer_max)]


def _placed(answer: Any, nth: int) -> Coroutine[Any, Any, Answer]:
    """The coroutine of a call, named by its index: a replay finds its task again by this name."""
    place_by_name(answer, f"call-{nth}")
    placed: Coroutine[Any, Any, Answer] = answer
    return placed


async def _together(answers: list[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """Waits until all calls have ended before it raises: none is left running, and none is cut off by another's
    error."""
    ended = await asyncio.gather(*answers, return_exceptions=True)
    results: list[Answer] = []
    for result in ended:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results


async def _answer(call: ModelToolCall, callees: Mapping[str, Callee], answer_max: int) -> Answer:
    callee = callees.get(call.name) if isinstance(call.name, str) else None
    if callee is None:
        tool_names = ", ".join(sorted({wire_name(tool.name) for tool in callees.values()}))
        return _fault(
            "unknown_tool", f"there is no tool {call.name!r}", f"Call one of: {tool_names or 'none'}."
        )
    try:
        checked_arguments = _checked(callee, call.arguments)
    except HoldfastError as error:
        return _fault("invalid_arguments", str(error), error.hint)
    except Exception as error:  # a type may check its values with any code
        return _fault("invalid_arguments", f"{type(error).__name__}: {error}", _TRY_ANOTHER_WAY)
    try:
        value, is_error = await callee.outcome(checked_arguments), False
        if isinstance(callee, Tool):
            value, is_error = callee.answer(value)
        text = text_of(value)
    except Denied as error:
        return _fault("denied", str(error), error.hint)
    except CallFailed as error:
        return _fault("tool_failed", str(error), _TRY_ANOTHER_WAY)
    except HoldfastError as error:
        if not isinstance(error, Refused | Misuse) or isinstance(error, InvalidMove):
            raise  # for the run or the author of the agent, not for the model
        return _fault("tool_failed", str(error), error.hint)
    except Exception as error:  # any error of a tool that the engine raises is its answer
        return _fault("tool_failed", f"{type(error).__name__}: {error}", _TRY_ANOTHER_WAY)
    if is_error:
        return _fault("tool_failed", text, _TRY_ANOTHER_WAY, answer_max)
    return Answer(shorten(text, answer_max))


def _fault(kind: Fault, message: str, hint: str, most: int = _SAID_BYTES_MAX) -> Answer:
    error = {"type": kind, "message": shorten(message, most), "hint": shorten(hint, _SAID_BYTES_MAX)}
    return Answer(text_of({"error": error}), is_error=True)


def _checked(callee: Callee, arguments: Any) -> dict[str, Any]:
    """The arguments, checked against the tool's declaration and in a form that a journal can store."""
    arguments_by_name = _parsed(arguments) if isinstance(arguments, str) else arguments
    if arguments_by_name is None:
        arguments_by_name = {}
    if not isinstance(arguments_by_name, Mapping):
        msg = f"the arguments of {callee.name} are not a JSON object"
        raise InvalidPayload(msg, hint='Send an object with the arguments by name: {"name": value}.')
    encode_result(dict(arguments_by_name))
    checked = callee.check_arguments(arguments_by_name)
    encode_result(checked)  # including defaults
    return checked


def _parsed(text: str) -> Any:
    """The JSON in the text. Servers write missing arguments as empty text; models write lone surrogates."""
    if not text.strip():
        return {}
    return canonical.decode(
        _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode(), bytes_max=RESULT_BYTES_MAX
    )


# ── replies, by their shape ───────────────────────────────────────────────────────────────────────


def _understood(reply: Any) -> tuple[list[ModelToolCall], Any]:
    """The calls in the reply, and the function that writes their answers; raises an error if it is no known kind of
    reply."""
    if choices := _of(reply, "choices"):
        reply = _of(choices[0], "message")
    content, output = _of(reply, "content"), _of(reply, "output")
    if isinstance(output, list | tuple):
        items = [item for item in output if _of(item, "type") == "function_call"]
        return [_call(nth, item, "call_id", "arguments") for nth, item in enumerate(items)], _as_outputs
    if isinstance(content, list | tuple) and not _of(reply, "tool_calls"):
        blocks = [item for item in content if _of(item, "type") == "tool_use"]
        return [_call(nth, item, "id", "input") for nth, item in enumerate(blocks)], _as_message
    if _has(reply, "tool_calls") or _of(reply, "role") == "assistant":
        tool_calls = _of(reply, "tool_calls") or []
        return [_chat_call(nth, item) for nth, item in enumerate(tool_calls)], _as_tool_messages
    msg = f"a {type(reply).__name__} is not the response of a model"
    raise InvalidPayload(
        msg, hint="Give run_tools the Message, ChatCompletion or Response itself, or the same as a dict."
    )


def _of(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _has(thing: Any, name: str) -> bool:
    return name in thing if isinstance(thing, Mapping) else hasattr(thing, name)


def _call(nth: int, item: Any, id_name: str, arguments_name: str) -> ModelToolCall:
    return ModelToolCall(_id(nth, _of(item, id_name)), _of(item, "name"), _of(item, arguments_name))


def _chat_call(nth: int, item: Any) -> ModelToolCall:
    function = _of(item, "function")
    if function is None:
        custom = _of(item, "custom")
        return ModelToolCall(_id(nth, _of(item, "id")), _of(custom, "name"), _of(custom, "input"))
    return ModelToolCall(_id(nth, _of(item, "id")), _of(function, "name"), _of(function, "arguments"))


def _id(nth: int, provider_id: Any) -> str:
    """The provider's id. If a server leaves it out, an id by index: the answer has to name one."""
    return provider_id if isinstance(provider_id, str) and provider_id else f"call_{nth}"


def _as_message(calls: list[ModelToolCall], answers: list[Answer]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": answer.text}
        | ({"is_error": True} if answer.is_error else {})
        for call, answer in zip(calls, answers, strict=True)
    ]
    # Providers reject a message without content: this answers a reply that announced a call and has none.
    return {"role": "user", "content": blocks or [{"type": "text", "text": "There was no tool call."}]}


def _as_tool_messages(calls: list[ModelToolCall], answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": call.id, "content": answer.text}
        for call, answer in zip(calls, answers, strict=True)
    ]


def _as_outputs(calls: list[ModelToolCall], answers: list[Answer]) -> list[dict[str, Any]]:
    return [
        {"type": "function_call_output", "call_id": call.id, "output": answer.text}
        for call, answer in zip(calls, answers, strict=True)
    ]
