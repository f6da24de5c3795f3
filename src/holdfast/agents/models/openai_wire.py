"""OpenAI's chat completions, as many other servers speak them too, and its responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.agents.models.wire_format import (
    TEXT,
    THOUGHTS,
    Body,
    StreamedPiece,
    TokenUsage,
    join_deltas,
    number,
    read_event,
)

_DONE: Final = "[DONE]"

_IGNORED: Final = frozenset(
    {"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user", "metadata", "service_tier"}
)
"""Fields that say whose request it is, and how it is cached, counted and billed."""


class ChatWire:
    name = "openai.chat"
    provider = "openai"
    messages_field = "messages"
    ignored = _IGNORED

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        left_out = {"messages", "stream", "stream_options"}
        params = {key: value for key, value in body.items() if key not in left_out}
        return str(body.get("model", "")), params, list(body.get("messages") or [])

    def acts(self, body: Body) -> bool:
        return bool(body.get("web_search_options"))

    def usage(self, response: Body) -> TokenUsage:
        used = response.get("usage") or {}
        return TokenUsage(
            input=number(used, "prompt_tokens"),
            output=number(used, "completion_tokens"),
            cache_read=number(used, "prompt_tokens_details", "cached_tokens"),
        )

    def gathering(self, body: Body) -> ChatGathering:
        return ChatGathering()

    def to_stream(self, response: Body, body: Body) -> Iterator[tuple[str, Any]]:
        head = {key: value for key, value in response.items() if key not in {"choices", "usage"}}
        head["object"] = "chat.completion.chunk"
        for choice in response.get("choices") or []:
            said = dict(choice.get("message") or {})
            if said.get("tool_calls"):
                said["tool_calls"] = [
                    {**call, "index": index} for index, call in enumerate(said["tool_calls"])
                ]
            rest = {key: value for key, value in choice.items() if key not in {"message", "finish_reason"}}
            yield "", {**head, "choices": [{**rest, "delta": said, "finish_reason": None}]}
            ended = {**rest, "delta": {}, "finish_reason": choice.get("finish_reason")}
            yield "", {**head, "choices": [ended]}
        if (body.get("stream_options") or {}).get("include_usage"):
            yield "", {**head, "choices": [], "usage": response.get("usage")}
        yield "", _DONE


class ChatGathering:
    def __init__(self) -> None:
        self.error: Any = None
        self.whole = False
        self._head: Body = {}
        self._choices: dict[int, Body] = {}
        self._calls: dict[int, dict[int, Body]] = {}

    def take(self, name: str, data: str) -> StreamedPiece | None:
        if data.strip() == _DONE:
            self.whole = True
            return None
        chunk = read_event(data)
        if chunk.get("error"):
            self.error = chunk
            return None
        self._head |= {key: value for key, value in chunk.items() if key != "choices" and value is not None}
        heard = [self._fill(choice) for choice in chunk.get("choices") or []]
        return next((one for one in heard if one is not None), None)

    def _fill(self, piece: Body) -> StreamedPiece | None:
        index = piece.get("index", 0)
        choice = self._choices.setdefault(
            index, {"index": index, "message": {"role": "assistant", "content": None}}
        )
        choice |= {
            key: value for key, value in piece.items() if key not in {"delta", "index"} and value is not None
        }
        delta = dict(piece.get("delta") or {})
        for call in delta.pop("tool_calls", None) or []:
            self._call(index, call)
        delta.pop("role", None)
        join_deltas(choice["message"], delta)
        if delta.get("content"):
            return StreamedPiece(delta["content"], TEXT)
        if delta.get("reasoning_content"):
            return StreamedPiece(delta["reasoning_content"], THOUGHTS)
        return None

    def _call(self, index: int, piece: Body) -> None:
        calls = self._calls.setdefault(index, {})
        call = calls.setdefault(piece.get("index", len(calls)), {"type": "function", "function": {}})
        given = piece.get("function") or {}
        call |= {key: piece[key] for key in ("id", "type") if piece.get(key)}
        join_deltas(call["function"], given)

    @property
    def complete(self) -> bool:
        """Some servers forget to say that they are done."""
        choices = self._choices.values()
        return self.whole or (bool(choices) and all(choice.get("finish_reason") for choice in choices))

    def message(self) -> Body:
        choices = []
        for index, choice in sorted(self._choices.items()):
            message = dict(choice["message"])
            if index in self._calls:
                message["tool_calls"] = [call for _, call in sorted(self._calls[index].items())]
            choices.append({"finish_reason": None, **choice, "message": message})
        return {**self._head, "object": "chat.completion", "choices": choices}


class ResponsesWire:
    name = "openai.responses"
    provider = "openai"
    messages_field = "input"
    ignored = _IGNORED | {"stream_options"}

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        params = {key: value for key, value in body.items() if key not in {"input", "stream"}}
        said = body.get("input") or []
        return str(body.get("model", "")), params, said if isinstance(said, list) else [said]

    def acts(self, body: Body) -> bool:
        kinds = {tool.get("type") for tool in body.get("tools") or [] if isinstance(tool, dict)}
        return bool(body.get("background")) or bool(kinds - {"function", "custom", "file_search", None})

    def usage(self, response: Body) -> TokenUsage:
        used = response.get("usage") or {}
        return TokenUsage(
            input=number(used, "input_tokens"),
            output=number(used, "output_tokens"),
            cache_read=number(used, "input_tokens_details", "cached_tokens"),
        )

    def gathering(self, body: Body) -> ResponsesGathering:
        return ResponsesGathering()

    def to_stream(self, response: Body, body: Body) -> Iterator[tuple[str, Any]]:
        for number_, (kind, rest) in enumerate(_responses_events(response)):
            yield kind, {"type": kind, "sequence_number": number_, **rest}


def _responses_events(response: Body) -> Iterator[tuple[str, Body]]:
    output = response.get("output") or []
    yield (
        "response.created",
        {"response": {**response, "status": "in_progress", "output": [], "usage": None}},
    )
    for index, item in enumerate(output):
        at = {"output_index": index}
        yield "response.output_item.added", {**at, "item": {**item, **_emptied(item)}}
        at["item_id"] = item.get("id", "")
        if item.get("type") == "function_call":
            given = item.get("arguments", "")
            yield "response.function_call_arguments.delta", {**at, "delta": given}
            yield (
                "response.function_call_arguments.done",
                {**at, "name": item.get("name", ""), "arguments": given},
            )
        for place, part in enumerate(item.get("content") or [] if item.get("type") == "message" else []):
            within = {**at, "content_index": place}
            emptied = {**part, "text": ""} if "text" in part else part
            yield "response.content_part.added", {**within, "part": emptied}
            if part.get("type") == "output_text":
                said = part.get("text", "")
                yield "response.output_text.delta", {**within, "delta": said, "logprobs": []}
                yield "response.output_text.done", {**within, "text": said, "logprobs": []}
            yield "response.content_part.done", {**within, "part": part}
        yield "response.output_item.done", {"output_index": index, "item": item}
    status = response.get("status") or "completed"
    yield f"response.{status}", {"response": response}


def _emptied(item: Body) -> Body:
    match item.get("type"):
        case "message":
            return {"content": [], "status": "in_progress"}
        case "function_call":
            return {"arguments": "", "status": "in_progress"}
        case _:
            return {}


class ResponsesGathering:
    def __init__(self) -> None:
        self.error: Any = None
        self.whole = False
        self._response: Body = {}
        self._items: dict[int, Body] = {}

    def take(self, name: str, data: str) -> StreamedPiece | None:
        event = read_event(data)
        match event.get("type") or name:
            case "response.created" | "response.in_progress":
                self._response = event.get("response") or {}
            case "response.completed" | "response.incomplete" | "response.failed":
                self._response, self.whole = event.get("response") or {}, True
                self._items = {}
            case "response.output_item.added" | "response.output_item.done":
                self._items[event.get("output_index", 0)] = event.get("item") or {}
            case "response.output_text.delta":
                return StreamedPiece(event.get("delta", ""), TEXT)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return StreamedPiece(event.get("delta", ""), THOUGHTS)
            case "error":
                self.error = event
            case _:
                pass
        return None

    @property
    def complete(self) -> bool:
        return self.whole

    def message(self) -> Body:
        if not self._items:
            return self._response
        return {**self._response, "output": [item for _, item in sorted(self._items.items())]}
