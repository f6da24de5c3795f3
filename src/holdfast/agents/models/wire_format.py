"""Wire format of a provider's requests, responses and streams, as far as a journal needs it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol, TypeAlias

import msgspec

Body: TypeAlias = dict[str, Any]


class TokenUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens that a response used. `input` includes those read from and written to the provider's cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output


class StreamedPiece(msgspec.Struct, frozen=True):
    """A readable piece of a stream: text, or the model's thoughts."""

    text: str
    stream: str


class Gathering(Protocol):
    """Assembles a streamed response."""

    error: Any
    """The error that the provider sent in the middle of the stream."""

    def take(self, name: str, data: str) -> StreamedPiece | None:
        """Adds an event; returns its readable piece, if any."""
        ...

    @property
    def whole(self) -> bool:
        """Whether the provider marked the end of the response."""
        ...

    @property
    def complete(self) -> bool:
        """Whether the response is complete, if the stream ends here."""
        ...

    def message(self) -> Body:
        """The response so far, in the form of one that is not streamed."""
        ...


class Wire(Protocol):
    """The wire format of one kind of endpoint."""

    name: str
    """The step name of its requests."""

    provider: str

    messages_field: str
    """The field of a request that holds its messages."""

    ignored: frozenset[str]
    """Fields of a request that do not change its meaning: they are sent, and are not part of its identity."""

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        """The model, the request without its messages, and the messages."""
        ...

    def acts(self, body: Body) -> bool:
        """Whether the provider would act itself: run code, call other servers."""
        ...

    def usage(self, response: Body) -> TokenUsage: ...

    def gathering(self, body: Body) -> Gathering: ...

    def to_stream(self, response: Body, body: Body) -> Iterator[tuple[str, Any]]:
        """The response as a stream again: the same events, in fewer pieces."""
        ...


class PlainWire:
    """An endpoint with a whole response and no effects: embeddings, token counts."""

    ignored = frozenset({"user", "metadata"})

    def __init__(self, name: str, provider: str, messages_field: str = "input") -> None:
        self.name = name
        self.provider = provider
        self.messages_field = messages_field

    def split(self, body: Body) -> tuple[str, Body, list[Any]]:
        params = {key: value for key, value in body.items() if key != self.messages_field}
        messages = body.get(self.messages_field, [])
        return str(body.get("model", "")), params, messages if isinstance(messages, list) else [messages]

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
    """The whole number at this path; 0 if it is absent or null, as with some providers."""
    value: Any = table
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if type(value) is int and value > 0 else 0


def join_deltas(whole: Body, piece: Mapping[str, Any]) -> None:
    """Merges a delta: text is appended to text, any other value replaces the former one."""
    for key, value in piece.items():
        if value is None and key in whole:
            continue
        before = whole.get(key)
        whole[key] = before + value if isinstance(before, str) and isinstance(value, str) else value


def read_event(data: str) -> Body:
    """An event's data; empty if it is not an object: a stream may hold other lines beside its events, which are
    skipped."""
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError:
        event = _halves(data)
    return event if isinstance(event, dict) else {}


def _halves(data: str) -> Any:
    """The same for data with a lone surrogate, written by a model: the fast decoder rejects those."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


TEXT: Final = "text"
THOUGHTS: Final = "thoughts"
