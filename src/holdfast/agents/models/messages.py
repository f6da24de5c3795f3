"""Messages: conversations in one form for all models, and their conversion to OpenAI's.

The common form is Anthropic's: a message has a role and content, which is text or a list of blocks (`text`, `image`,
`tool_use`, `tool_result`). It is the most expressive, and the others can be derived from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec

from holdfast.model import canonical

if TYPE_CHECKING:
    from anthropic.types import MessageParam

    Said: TypeAlias = MessageParam
    """A message as authors write it, and as Anthropic's client accepts it."""
else:
    Said = dict[str, Any]

Message: TypeAlias = dict[str, Any]


class Spoken(Protocol):
    """A model's reply as its client returns it."""

    @property
    def content(self) -> Any: ...


def user(content: str | list[Any]) -> Said:
    """A message of a person."""
    return cast("Said", {"role": "user", "content": content})


def assistant(content: str | list[Any] | Spoken) -> Said:
    """A message of the model: from text, blocks, or a reply."""
    return cast("Said", {"role": "assistant", "content": getattr(content, "content", content)})


def to_chat(messages: Iterable[Mapping[str, Any]], instructions: str) -> list[Message]:
    """The conversation in the form of OpenAI's chat completions."""
    chat = [{"role": "system", "content": instructions}] if instructions else []
    for message in messages:
        chat += _assistants(message) if message["role"] == "assistant" else _users(message)
    return chat


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
    """Splits off tool results: in OpenAI's form they are separate messages, and come first."""
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
    """The model's message, and its stop reason."""
    choice = (completion.get("choices") or [{}])[0]
    reply = choice.get("message") or {}
    content: list[Any] = [{"type": "text", "text": reply["content"]}] if reply.get("content") else []
    for number, call in enumerate(reply.get("tool_calls") or []):
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
    """The arguments that the model wrote. Text that is not JSON stays text: the runner of the tool reports what is
    wrong."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) and text.strip() else {}
    except msgspec.DecodeError:
        return text
