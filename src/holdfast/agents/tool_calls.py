"""The tool calls of a model's reply, carried out: in parallel, durably, and never by exception.

    reply = await llm.messages.create(model=M, messages=messages, tools=hf.schemas(lookup, refund))
    messages += [assistant(reply), await hf.run_tools(reply, [lookup, refund])]

A call is known by its place: this `run_tools`, and the index of the call in the reply. The provider's own id goes back
with the answer and means nothing else, because servers repeat ids and leave them out.

What a model gets wrong is told to the model, before anything is recorded or done: a tool that is not there, arguments
that are no JSON or not of the declared types. So is what went wrong in a tool whose outcome is known. A call whose
outcome is *not* known is no answer for a model to work with: the engine recovers it by its class first. And what ends
or parks the run passes through here untouched.
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
"""What a model gets of one result, unless somebody says otherwise: a long page, and far from a whole context."""

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
    """A `ChatCompletion` of OpenAI, or of whoever speaks like it."""

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
    """What a model gets for a call."""

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
    """Every tool call of the reply has its answer; what is returned goes into the conversation behind the reply.

    For a message of Anthropic that is one message with all results, for OpenAI a list: of tool messages (chat
    completions) or of outputs (responses). Answers stand in the order of the calls. An agent among the tools is
    spawned, as a job of its own. answer_max: bytes of one result that the model gets; where more is left out, it says
    how much.
    """
    known = by_wire_name(tools)
    calls, write = _understood(reply)
    known = {**{tool.name: tool for tool in known.values()}, **known}
    return write(calls, await _answered(calls, known, answer_max))


async def _answered(calls: list[ModelToolCall], known: Mapping[str, Callee], answer_max: int) -> list[Answer]:
    drive = context.find_drive()
    if drive is None:
        return await _together([_answer(call, known, answer_max) for call in calls])
    with drive.scope("run_tools"):
        if len(calls) != 1:
            return await _together(
                [_placed(_answer(call, known, answer_max), nth) for nth, call in enumerate(calls)]
            )
        with drive.scope("call-0"):  # the same key as a task would have, without the task
            return [await _answer(calls[0], known, answer_max)]


def _placed(answer: Any, nth: int) -> Coroutine[Any, Any, Answer]:
    """The task that runs this is found again by the index of its call."""
    place_by_name(answer, f"call-{nth}")
    placed: Coroutine[Any, Any, Answer] = answer
    return placed


async def _together(answers: list[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All of them have ended before anything is raised: none is left running, and none is cut off for another's
    fault."""
    ended = await asyncio.gather(*answers, return_exceptions=True)
    given: list[Answer] = []
    for one in ended:
        if isinstance(one, BaseException):
            raise one
        given.append(one)
    return given


async def _answer(call: ModelToolCall, known: Mapping[str, Callee], answer_max: int) -> Answer:
    callee = known.get(call.name) if isinstance(call.name, str) else None
    if callee is None:
        named = ", ".join(sorted({wire_name(tool.name) for tool in known.values()}))
        return _fault("unknown_tool", f"there is no tool {call.name!r}", f"Call one of: {named or 'none'}.")
    try:
        given = _checked(callee, call.arguments)
    except HoldfastError as error:
        return _fault("invalid_arguments", str(error), error.hint)
    except Exception as error:  # a type may check its values with any code
        return _fault("invalid_arguments", f"{type(error).__name__}: {error}", _TRY_ANOTHER_WAY)
    try:
        value, is_error = await callee.outcome(given), False
        if isinstance(callee, Tool):
            value, is_error = callee.answer(value)
        text = text_of(value)
    except Denied as error:
        return _fault("denied", str(error), error.hint)
    except CallFailed as error:
        return _fault("tool_failed", str(error), _TRY_ANOTHER_WAY)
    except HoldfastError as error:
        if not isinstance(error, Refused | Misuse) or isinstance(error, InvalidMove):
            raise  # not the model's to deal with: the run's, or whoever wrote the agent
        return _fault("tool_failed", str(error), error.hint)
    except Exception as error:  # whatever a tool raises, and the engine hands over, is its answer
        return _fault("tool_failed", f"{type(error).__name__}: {error}", _TRY_ANOTHER_WAY)
    if is_error:
        return _fault("tool_failed", text, _TRY_ANOTHER_WAY, answer_max)
    return Answer(shorten(text, answer_max))


def _fault(kind: Fault, message: str, hint: str, most: int = _SAID_BYTES_MAX) -> Answer:
    said = {"type": kind, "message": shorten(message, most), "hint": shorten(hint, _SAID_BYTES_MAX)}
    return Answer(text_of({"error": said}), is_error=True)


def _checked(callee: Callee, arguments: Any) -> dict[str, Any]:
    """The arguments as the tool declares them and a journal can keep them."""
    named = _parsed(arguments) if isinstance(arguments, str) else arguments
    if named is None:
        named = {}
    if not isinstance(named, Mapping):
        msg = f"the arguments of {callee.name} are not a JSON object"
        raise InvalidPayload(msg, hint='Send an object with the arguments by name: {"name": value}.')
    encode_result(dict(named))
    given = callee.check_arguments(named)
    encode_result(given)  # defaults come on top
    return given


def _parsed(text: str) -> Any:
    """The JSON in the text. Servers write no arguments as nothing at all; models write halves of characters."""
    if not text.strip():
        return {}
    return canonical.decode(
        _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode(), bytes_max=RESULT_BYTES_MAX
    )


# ── replies, by their shape ───────────────────────────────────────────────────────────────────────


def _understood(reply: Any) -> tuple[list[ModelToolCall], Any]:
    """The calls in the reply, and how their answers are written; or an error, if it is nobody's reply."""
    if choices := _of(reply, "choices"):
        reply = _of(choices[0], "message")
    content, output = _of(reply, "content"), _of(reply, "output")
    if isinstance(output, list | tuple):
        items = [one for one in output if _of(one, "type") == "function_call"]
        return [_call(nth, one, "call_id", "arguments") for nth, one in enumerate(items)], _as_outputs
    if isinstance(content, list | tuple) and not _of(reply, "tool_calls"):
        blocks = [one for one in content if _of(one, "type") == "tool_use"]
        return [_call(nth, one, "id", "input") for nth, one in enumerate(blocks)], _as_message
    if _has(reply, "tool_calls") or _of(reply, "role") == "assistant":
        asked = _of(reply, "tool_calls") or []
        return [_chat_call(nth, one) for nth, one in enumerate(asked)], _as_tool_messages
    msg = f"a {type(reply).__name__} is not the response of a model"
    raise InvalidPayload(
        msg, hint="Give run_tools the Message, ChatCompletion or Response itself, or the same as a dict."
    )


def _of(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _has(thing: Any, name: str) -> bool:
    return name in thing if isinstance(thing, Mapping) else hasattr(thing, name)


def _call(nth: int, one: Any, id_name: str, arguments_name: str) -> ModelToolCall:
    return ModelToolCall(_id(nth, _of(one, id_name)), _of(one, "name"), _of(one, arguments_name))


def _chat_call(nth: int, one: Any) -> ModelToolCall:
    function = _of(one, "function")
    if function is None:
        custom = _of(one, "custom")
        return ModelToolCall(_id(nth, _of(one, "id")), _of(custom, "name"), _of(custom, "input"))
    return ModelToolCall(_id(nth, _of(one, "id")), _of(function, "name"), _of(function, "arguments"))


def _id(nth: int, given: Any) -> str:
    """The provider's id. Where a server leaves it out, the answer has to name something nevertheless."""
    return given if isinstance(given, str) and given else f"call_{nth}"


def _as_message(calls: list[ModelToolCall], answers: list[Answer]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": call.id, "content": answer.text}
        | ({"is_error": True} if answer.is_error else {})
        for call, answer in zip(calls, answers, strict=True)
    ]
    # A message without content is refused; a reply that promised a call and has none is answered like this.
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
