"""Scripted model: a small file whose replies depend on the conversation alone.

    [[reply]]
    when = "order 42"                                     # in the last message of the person; case-insensitive
    calls = [{ tool = "lookup", args = { order = "42" } }]

    [[reply]]
    after = "lookup"                                      # the last message is this tool's result
    text = "It is on its way: {result}"

    [[reply]]
    text = "I do not know."

The first matching reply is used. It involves no counter and no chance, so a job that is resumed elsewhere gets the
same replies, and a demonstration needs no network. `turn` matches when the model has replied so often before. In
texts `{result}` is the last tool's result, `{said}` the last message of the person and `{first}` the first one,
`{turn}` the turn.

`delay` and `pace` make it slow: before the first word, and between words. `fail = [529, 529]` makes it return these
errors before it replies, counted per process.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidSetting
from holdfast.model.time import parse_duration

_HINT: Final = "See docs/models.md for what a scripted model's file holds."
_PLACEHOLDER: Final = re.compile(r"\{(result|said|turn|first)\}")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call of the model."""

    tool: str
    args: dict[str, Any] = {}


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One reply and its conditions; without conditions it always matches."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    when: str | None = None
    after: str | None = None
    turn: int | None = None
    fail: tuple[int, ...] = ()
    delay: str | int = 0
    pace: str | int = 0

    def __post_init__(self) -> None:
        parse_duration(self.delay)
        parse_duration(self.pace)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reply: tuple[ScriptLine, ...]


class Script(msgspec.Struct, frozen=True):
    """The replies of a scripted model."""

    lines: tuple[ScriptLine, ...]

    def find(self, messages: list[Any]) -> tuple[int, ScriptLine] | None:
        """The first reply that matches this conversation, and its number."""
        conversation = _Asked(messages)
        return next(
            (numbered_line for numbered_line in enumerate(self.lines) if conversation.fits(numbered_line[1])),
            None,
        )

    def message(self, line: ScriptLine, messages: list[Any]) -> dict[str, Any]:
        """The reply as a message of the model."""
        conversation = _Asked(messages)
        content: list[dict[str, Any]] = []
        if line.text:
            content.append({"type": "text", "text": _PLACEHOLDER.sub(conversation.filled, line.text)})
        for number, call in enumerate(line.calls):
            args = {name: conversation.filled_in(value) for name, value in call.args.items()}
            name = f"call_{conversation.turn}_{number}"
            content.append({"type": "tool_use", "id": name, "name": call.tool, "input": args})
        return {"role": "assistant", "content": content}


class _Asked:
    """The parts of a conversation that a reply may depend on."""

    def __init__(self, messages: list[Any]) -> None:
        self.turn = sum(message.get("role") == "assistant" for message in messages)
        user_messages = [message for message in messages if message.get("role") == "user"]
        texts = [text for message in user_messages if (text := _text(message.get("content")))]
        self.said = texts[-1] if texts else ""
        self.first = texts[0] if texts else ""
        self.after, self.result = _last_result(messages)

    def fits(self, line: ScriptLine) -> bool:
        return (
            (line.when is None or (line.when.lower() in self.said.lower() and self.after is None))
            and (line.after is None or line.after == self.after)
            and (line.turn is None or line.turn == self.turn)
        )

    def filled(self, match: re.Match[str]) -> str:
        return str(getattr(self, match[1]))

    def filled_in(self, value: Any) -> Any:
        return _PLACEHOLDER.sub(self.filled, value) if isinstance(value, str) else value


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return " ".join(block.get("text", "") for block in blocks if block.get("type") == "text")


def _last_result(messages: list[Any]) -> tuple[str | None, str]:
    """The tool whose result ends the conversation, and that result."""
    names: dict[str, str] = {}
    last: tuple[str | None, str] = (None, "")
    for message in messages:
        last = (None, "")
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else []:
            if block.get("type") == "tool_use":
                names[block["id"]] = block["name"]
            elif block.get("type") == "tool_result":
                content = block.get("content")
                last = (
                    names.get(block["tool_use_id"]),
                    content if isinstance(content, str) else _text(content),
                )
    return last


def script_of(lines: Any) -> Script:
    """A script from Python values: texts, or tables as in a file."""
    replies = [{"text": line} if isinstance(line, str) else line for line in lines]
    return _checked({"reply": replies}, "the script")


def read_script(path: str | Path) -> Script:
    """The script in a TOML file."""
    file = Path(path)
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"there is no script at {file}"
        raise InvalidSetting(msg, hint="Name a file: scripted:answers.toml. " + _HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        msg = f"the script {file} cannot be read: {error}"
        raise InvalidSetting(msg, hint=_HINT) from None
    return _checked(table, f"the script {file}")


def _checked(table: Any, source: str) -> Script:
    try:
        return Script(msgspec.convert(table, _File).reply)
    except msgspec.ValidationError as error:
        msg = f"{source} does not fit: {error}"
        raise InvalidSetting(msg, hint=_HINT) from None
