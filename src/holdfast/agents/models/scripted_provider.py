"""A script as a provider: it answers in Anthropic's words, whole or as a stream, slowly if it is told to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from holdfast.agents.models import sse
from holdfast.agents.models.anthropic_wire import AnthropicWire
from holdfast.agents.models.script import Script, ScriptLine
from holdfast.agents.models.wire_format import Body
from holdfast.model import canonical
from holdfast.model.limits import BLOB_BYTES_MAX
from holdfast.model.time import SECOND, parse_duration


class ScriptedWire(AnthropicWire):
    name = "scripted"
    provider = "scripted"


WIRE: Final = ScriptedWire()


class Provider:
    """Answers requests as a script says. It counts only how often it has refused."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._refused: Counter[str] = Counter()

    async def send(self, body: Body) -> _Reply:
        messages = list(body.get("messages") or [])
        found = self._script.find(messages)
        if found is None:
            return _Reply(400, _error("no_reply", "no reply of the script fits this conversation"))
        number, line = found
        status = self._refusal(number, line, messages)
        if status is not None:
            return _Reply(status, _error("scripted", f"the script says {status}"))
        await pause(parse_duration(line.delay))
        message = self._answer(line, body, messages)
        if not body.get("stream"):
            return _Reply(200, canonical.encode(message, bytes_max=BLOB_BYTES_MAX))
        return _Reply(200, b"", _stream(message, body, parse_duration(line.pace)))

    def _refusal(self, number: int, line: ScriptLine, messages: list[Any]) -> int | None:
        if not line.fail:
            return None
        place = f"{number}/{canonical.digest_of(messages).hex()}"
        self._refused[place] += 1
        nth = self._refused[place] - 1
        return line.fail[nth] if nth < len(line.fail) else None

    def _answer(self, line: ScriptLine, body: Body, messages: list[Any]) -> Body:
        message = self._script.message(line, messages)
        calls = any(block["type"] == "tool_use" for block in message["content"])
        heard = sum(map(_size, messages))
        return {
            "id": f"msg_{canonical.digest_of([len(messages), messages[-1:]]).hex()[:24]}",
            "type": "message",
            "model": body.get("model", "scripted"),
            **message,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": heard // 4,
                "output_tokens": _size(message) // 4,
            },
        }


class _Reply:
    def __init__(self, status: int, body: bytes, stream: AsyncIterator[bytes] | None = None) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._body = body
        self._stream = stream

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._stream is None:
            yield self._body
            return
        async for piece in self._stream:
            yield piece

    async def close(self) -> None: ...


async def _stream(message: Body, body: Body, pace_us: int) -> AsyncIterator[bytes]:
    """The message as events, its texts word by word."""
    for name, data in WIRE.to_stream(message, body):
        delta = data.get("delta") or {}
        if name != "content_block_delta" or delta.get("type") != "text_delta":
            yield sse.encode_event(name, data)
            continue
        for word in _words(delta["text"]):
            await pause(pace_us)
            yield sse.encode_event(name, {**data, "delta": {**delta, "text": word}})


def _size(message: Any) -> int:
    """About how much is said in it."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"text": content}]
    return sum(len(value) for block in blocks for value in block.values() if isinstance(value, str))


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [f"{word} " for word in words[:-1]] + words[-1:]


async def pause(duration_us: int) -> None:
    """So much time has passed. A model's slowness is not the job's: nothing of it is recorded."""
    if duration_us > 0:
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        timer = loop.call_later(duration_us / SECOND, over.set_result, None)
        try:
            await over
        finally:
            timer.cancel()


def _error(kind: str, message: str) -> bytes:
    return canonical.encode({"type": "error", "error": {"type": kind, "message": message}})
