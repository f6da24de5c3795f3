"""What a provider's requests, answers and streams look like, as far as a journal needs to know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

Body: TypeAlias = dict[str, Any]


class TokenUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an answer used up, in tokens. `input` includes what was read from and written to the provider's cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output


class StreamedPiece(msgspec.Struct, frozen=True):
    """A piece of a stream that people can read: the text, or what the model thinks."""

    text: str
    stream: str


class Gathering(Protocol):
    """Puts a streamed answer together."""

    error: Any
    """What the provider said in the middle of the stream against going on."""

    def take(self, name: str, data: str) -> StreamedPiece | None:
        """One more event. What of it is there to be read."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the provider said that this was all."""
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, if no more comes."""
        ...

    def message(self) -> Body:
        """The answer so far, as if it had not been streamed."""
        ...


class Wire(Protocol):
    """One kind of endpoint."""

    name: str
    """What a step is called that asks it."""

    provider: str

    messages_field: str
    """The field of a request that has its messages."""

    ignored: frozenset[str]
    """Fields of a request that do not change the question: they are sent, and are not part of its identity."""

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        """The model, the request without its messages, and the messages."""
        ...

    def acts(self, body: Body) -> bool:
        """Whether the provider would do things on its own: run code, call other servers."""
        ...

    def usage(self, response: Body) -> TokenUsage: ...

    def gathering(self, body: Body) -> Gathering: ...

    def to_stream(self, response: Body, body: Body) -> Iterator[tuple[str, Any]]:
        """The answer as a stream again: the same events, in fewer pieces."""
        ...


class PlainWire:
    """An endpoint that answers in one piece and changes nothing: embeddings, token counts."""

    ignored = frozenset({"user", "metadata"})

    def __init__(self, name: str, provider: str, messages_field: str = "input") -> None:
        self.name = name
        self.provider = provider
        self.messages_field = messages_field

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        params = {key: value for key, value in body.items() if key != self.messages_field}
        said = body.get(self.messages_field, [])
        return str(body.get("model", "")), params, said if isinstance(said, list) else [said]

    def acts(self, body: Body) -> bool:
        return False

    def usage(self, response: Body) -> TokenUsage:
        used = response.get("usage") or {}
        return TokenUsage(input=number(used, "prompt_tokens"))

    def gathering(self, body: Body) -> Gathering:
        raise NotImplementedError

    def to_stream(self, response: Body, body: Body) -> Iterator[tuple[str, Any]]:
        raise NotImplementedError


def number(table: Mapping[str, Any], *path: str) -> int:
    """A whole number at this place; 0 where there is none. Providers leave out, and send null."""
    value: Any = table
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if type(value) is int and value > 0 else 0


def join_deltas(whole: Body, piece: Mapping[str, Any]) -> None:
    """Text is appended to text, everything else replaces what was there."""
    for key, value in piece.items():
        if value is None and key in whole:
            continue
        before = whole.get(key)
        whole[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


def read_event(data: str) -> Body:
    """An event's data; nothing, if it is not an object: what a stream says beside its events is passed over."""
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError:
        event = _halves(data)
    return event if isinstance(event, dict) else {}


def _halves(data: str) -> Any:
    """The same, of data in which a model wrote half of a character: the quick reader refuses those."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


TEXT: Final = "text"
THOUGHTS: Final = "thoughts"
