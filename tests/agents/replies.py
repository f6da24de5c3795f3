"""Replies of models that ask for tools, as the clients give them: their own classes, and the same as dicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

Asks = list[tuple[str, Any]]
"""Names of tools, with their arguments: JSON, or the text that a model wrote instead."""


def claude(asks: Asks) -> Message:
    content = [
        {"type": "text", "text": "Let me look."},
        *(
            {"type": "tool_use", "id": f"toolu_{nth}", "name": name, "input": given}
            for nth, (name, given) in enumerate(asks)
        ),
    ]
    return Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": content,
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    )


def chat(asks: Asks) -> ChatCompletion:
    calls = [
        {"id": f"call_{nth}", "type": "function", "function": {"name": name, "arguments": written(given)}}
        for nth, (name, given) in enumerate(asks)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return ChatCompletion.model_validate(
        {
            "id": "chat_1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        }
    )


def responses(asks: Asks) -> Response:
    output = [
        {"type": "function_call", "call_id": f"fc_{nth}", "name": name, "arguments": written(given)}
        for nth, (name, given) in enumerate(asks)
    ]
    return Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "scripted",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )


def written(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


REPLIES: dict[str, Callable[[Asks], Any]] = {
    "claude": claude,
    "chat": chat,
    "responses": responses,
    "claude_dict": lambda asks: claude(asks).model_dump(mode="json"),
    "chat_dict": lambda asks: chat(asks).model_dump(mode="json"),
    "chat_message": lambda asks: chat(asks).choices[0].message,
    "responses_dict": lambda asks: responses(asks).model_dump(mode="json"),
}


def answers(given: Any) -> list[tuple[str, str]]:
    """The ids and texts of what `run_tools` gives back, whoever it is for."""
    if isinstance(given, dict):
        assert given["role"] == "user"
        return [(one["tool_use_id"], one["content"]) for one in given["content"]]
    if given and "role" in given[0]:
        assert {one["role"] for one in given} == {"tool"}
        return [(one["tool_call_id"], one["content"]) for one in given]
    assert {one["type"] for one in given} <= {"function_call_output"}
    return [(one["call_id"], one["output"]) for one in given]


def texts(given: Any) -> list[str]:
    return [text for _id, text in answers(given)]


def faults(given: Any) -> list[str | None]:
    """For each answer the type of the error it tells, if it does."""
    found: list[str | None] = []
    for text in texts(given):
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        found.append(told["error"]["type"] if isinstance(told, dict) and "error" in told else None)
    return found
