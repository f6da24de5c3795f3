"""Conversations in one form for all models, and in OpenAI's.

The one form is Anthropic's: a message has a role and content, which is text or a list of blocks (`text`, `image`,
`tool_use`, `tool_result`). It says most, and the others can be made of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec

from holdfast.model import canonical

if TYPE_CHECKING:
    from anthropic.types import MessageParam

    Said: TypeAlias = MessageParam
    """A message as people write it, and as the client of Anthropic takes it."""
else:
    Said = dict[str, Any]

Message: TypeAlias = dict[str, Any]


class Spoken(Protocol):
    """A reply of a model, as its client gives it."""

    @property
    def content(self) -> Any: ...


def user(content: str | list[Any]) -> Said:
    """What a person says."""
    return cast("Said", {"role": "user", "content": content})


def assistant(content: str | list[Any] | Spoken) -> Said:
    """What the model said: its words, its blocks, or the reply itself."""
    return cast("Said", {"role": "assistant", "content": getattr(content, "content", content)})


def to_chat(messages: Iterable[Mapping[str, Any]], instructions: str) -> list[Message]:
    """The conversation as OpenAI's chat completions have it."""
    said = [{"role": "system", "content": instructions}] if instructions else []
    for message in messages:
        said += _assistants(message) if message["role"] == "assistant" else _users(message)
    return said


def _assistants(message: Mapping[str, Any]) -> Iterator[Message]:
    blocks = _blocks(message)
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": canonical.encode(block["input"]).decode()},
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    yield {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}


def _users(message: Mapping[str, Any]) -> Iterator[Message]:
    """Results of tools are messages of their own there, and come first."""
    blocks = _blocks(message)
    for block in blocks:
        if block["type"] == "tool_result":
            content = block.get("content", "")
            text = content if isinstance(content, str) else _texts(content)
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
    parts = [part for block in blocks if (part := _part(block)) is not None]
    if parts:
        alone = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
        yield {"role": message["role"], "content": alone}


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _texts(blocks: list[Any]) -> str:
    return "".join(block.get("text", "") for block in blocks)


def _part(block: dict[str, Any]) -> dict[str, Any] | None:
    match block:
        case {"type": "text", "text": text}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}:
            return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}}
        case {"type": "image", "source": {"type": "url", "url": url}}:
            return {"type": "image_url", "image_url": {"url": url}}
        case _:
            return None


def from_chat(completion: dict[str, Any]) -> tuple[Message, str]:
    """The model's message, and why it stopped."""
    choice = (completion.get("choices") or [{}])[0]
    said = choice.get("message") or {}
    content: list[Any] = [{"type": "text", "text": said["content"]}] if said.get("content") else []
    for number, call in enumerate(said.get("tool_calls") or []):
        function = call.get("function") or {}
        content.append(
            {
                "type": "tool_use",
                "id": call.get("id") or f"call_{number}",
                "name": function.get("name", ""),
                "input": _arguments(function.get("arguments")),
            }
        )
    return {"role": "assistant", "content": content}, choice.get("finish_reason") or ""


def _arguments(text: Any) -> Any:
    """What the model wrote. Where it is not JSON it is kept as text: whoever runs the tool says what is wrong."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) and text.strip() else {}
    except msgspec.DecodeError:
        return text
