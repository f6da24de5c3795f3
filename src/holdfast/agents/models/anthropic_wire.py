"""Anthropic's Messages API."""

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
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX

_OWN_TOOLS: Final = ("custom", None)
"""Tools that the caller runs. Any other type is run by the provider."""


class AnthropicWire:
    name = "anthropic.messages"
    provider = "anthropic"
    messages_field = "messages"
    ignored = frozenset({"metadata", "service_tier", "cache_control"})

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        params = {key: value for key, value in body.items() if key not in {"messages", "stream"}}
        return str(body.get("model", "")), params, list(body.get("messages") or [])

    def acts(self, body: Body) -> bool:
        tools = body.get("tools") or []
        return bool(body.get("mcp_servers")) or any(_runs_there(tool) for tool in tools)

    def usage(self, response: Body) -> TokenUsage:
        used = response.get("usage") or {}
        read, write = number(used, "cache_read_input_tokens"), number(used, "cache_creation_input_tokens")
        return TokenUsage(
            input=number(used, "input_tokens") + read + write,
            output=number(used, "output_tokens"),
            cache_read=read,
            cache_write=write,
        )

    def gathering(self, body: Body) -> AnthropicGathering:
        return AnthropicGathering()

    def to_stream(self, response: Body, body: Body) -> Iterator[tuple[str, Any]]:
        content = response.get("content") or []
        begun = response | {"content": [], "stop_reason": None, "stop_sequence": None}
        yield "message_start", {"type": "message_start", "message": begun}
        for index, block in enumerate(content):
            empty, deltas = _taken_apart(block)
            yield (
                "content_block_start",
                {"type": "content_block_start", "index": index, "content_block": empty},
            )
            for delta in deltas:
                yield (
                    "content_block_delta",
                    {"type": "content_block_delta", "index": index, "delta": delta},
                )
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        ended = {key: response.get(key) for key in ("stop_reason", "stop_sequence")}
        usage = response.get("usage") or {"output_tokens": 0}
        yield "message_delta", {"type": "message_delta", "delta": ended, "usage": usage}
        yield "message_stop", {"type": "message_stop"}


def _runs_there(tool: Any) -> bool:
    """Whether a declared tool is one that the provider runs itself. The caller's editors, shells and screens have types
    too; those come back as calls."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    return kind not in _OWN_TOOLS and str(kind).startswith(("web_", "code_execution", "mcp_toolset"))


def _taken_apart(block: Body) -> tuple[Body, list[Body]]:
    """A block as it begins, and the pieces that fill it."""
    match block.get("type"):
        case "text":
            empty: Body = block | {"text": ""}
            cites = [{"type": "citations_delta", "citation": one} for one in block.get("citations") or []]
            empty = empty | ({"citations": []} if cites else {})
            return empty, [*cites, {"type": "text_delta", "text": block.get("text", "")}]
        case "thinking":
            said = {"type": "thinking_delta", "thinking": block.get("thinking", "")}
            signed = {"type": "signature_delta", "signature": block.get("signature", "")}
            return block | {"thinking": "", "signature": ""}, [said, signed]
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            given = canonical.encode(block.get("input") or {}, bytes_max=BLOB_BYTES_MAX).decode()
            return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": given}]
        case _:
            return block, []


class AnthropicGathering:
    def __init__(self) -> None:
        self.error: Any = None
        self.whole = False
        self._message: Body = {"type": "message", "role": "assistant", "content": []}
        self._blocks: dict[int, Body] = {}
        self._given: dict[int, str] = {}

    def take(self, name: str, data: str) -> StreamedPiece | None:
        event = read_event(data)
        match event.get("type") or name:
            case "message_start":
                self._message = {**(event.get("message") or {}), "content": []}
            case "content_block_start":
                self._blocks[event.get("index", 0)] = dict(event.get("content_block") or {})
            case "content_block_delta":
                return self._fill(event.get("index", 0), event.get("delta") or {})
            case "message_delta":
                self._message |= event.get("delta") or {}
                used = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                self._message["usage"] = {**(self._message.get("usage") or {}), **used}
            case "message_stop":
                self.whole = True
            case "error":
                self.error = event
            case _:
                pass
        return None

    def _fill(self, index: int, delta: Body) -> StreamedPiece | None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "text_delta":
                join_deltas(block, {"text": delta.get("text", "")})
                return StreamedPiece(delta.get("text", ""), TEXT)
            case "thinking_delta":
                join_deltas(block, {"thinking": delta.get("thinking", "")})
                return StreamedPiece(delta.get("thinking", ""), THOUGHTS)
            case "signature_delta":
                join_deltas(block, {"signature": delta.get("signature", "")})
            case "input_json_delta":
                self._given[index] = self._given.get(index, "") + delta.get("partial_json", "")
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
            case _:
                pass
        return None

    @property
    def complete(self) -> bool:
        return self.whole

    def message(self) -> Body:
        blocks = {index: dict(block) for index, block in sorted(self._blocks.items())}
        for index, given in self._given.items():
            blocks[index]["input"] = _input(given)
        return {**self._message, "content": list(blocks.values())}


def _input(given: str) -> Any:
    """The arguments of a call, if the model has written them to the end."""
    return read_event(given) if given.strip() else {}
