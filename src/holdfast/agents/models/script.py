"""A model that is a small file: what it answers follows from what it is asked, and from nothing else.

    [[reply]]
    when = "order 42"                                     # in what the person said last; upper and lower case alike
    calls = [{ tool = "lookup", args = { order = "42" } }]

    [[reply]]
    after = "lookup"                                      # the last message is this tool's result
    text = "It is on its way: {result}"

    [[reply]]
    text = "I do not know."

The first reply that fits is given. There is no counter and no chance in it, so a job that is resumed elsewhere gets the
same answers, and a demonstration needs no network. `turn` fits when the model has spoken so often before. In texts
`{result}` is the last tool's result, `{said}` what the person said last and `{first}` first, `{turn}` the turn.

`delay` and `pace` make it slow: before it begins, and between words. `fail = [529, 529]` makes it refuse that often
before it answers, in one process.
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
    """A tool that the model asks for."""

    tool: str
    args: dict[str, Any] = {}


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One reply and when it fits; without conditions it always does."""

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
    """What a scripted model says."""

    lines: tuple[ScriptLine, ...]

    def find(self, messages: list[Any]) -> tuple[int, ScriptLine] | None:
        """The first reply that fits this conversation, and its number."""
        asked = _Asked(messages)
        return next((found for found in enumerate(self.lines) if asked.fits(found[1])), None)

    def message(self, line: ScriptLine, messages: list[Any]) -> dict[str, Any]:
        """The reply as a message of the model."""
        asked = _Asked(messages)
        content: list[dict[str, Any]] = []
        if line.text:
            content.append({"type": "text", "text": _PLACEHOLDER.sub(asked.filled, line.text)})
        for number, call in enumerate(line.calls):
            args = {name: asked.filled_in(value) for name, value in call.args.items()}
            name = f"call_{asked.turn}_{number}"
            content.append({"type": "tool_use", "id": name, "name": call.tool, "input": args})
        return {"role": "assistant", "content": content}


class _Asked:
    """What of a conversation a reply may depend on."""

    def __init__(self, messages: list[Any]) -> None:
        self.turn = sum(message.get("role") == "assistant" for message in messages)
        people = [message for message in messages if message.get("role") == "user"]
        said = [text for message in people if (text := _text(message.get("content")))]
        self.said = said[-1] if said else ""
        self.first = said[0] if said else ""
        self.after, self.result = _last_result(messages)

    def fits(self, line: ScriptLine) -> bool:
        return (
            (line.when is None or (line.when.lower() in self.said.lower() and self.after is None))
            and (line.after is None or line.after == self.after)
            and (line.turn is None or line.turn == self.turn)
        )

    def filled(self, found: re.Match[str]) -> str:
        return str(getattr(self, found[1]))

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
                said = block.get("content")
                last = (names.get(block["tool_use_id"]), said if isinstance(said, str) else _text(said))
    return last


def script_of(lines: Any) -> Script:
    """A script from lines as Python has them: texts, or tables as a file would hold."""
    told = [{"text": line} if isinstance(line, str) else line for line in lines]
    return _checked({"reply": told}, "the script")


def read_script(path: str | Path) -> Script:
    """The script in a TOML file."""
    file = Path(path)
    try:
        told = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        msg = f"there is no script at {file}"
        raise InvalidSetting(msg, hint="Name a file: scripted:answers.toml. " + _HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        msg = f"the script {file} cannot be read: {error}"
        raise InvalidSetting(msg, hint=_HINT) from None
    return _checked(told, f"the script {file}")


def _checked(told: Any, what: str) -> Script:
    try:
        return Script(msgspec.convert(told, _File).reply)
    except msgspec.ValidationError as error:
        msg = f"{what} does not fit: {error}"
        raise InvalidSetting(msg, hint=_HINT) from None
