"""Summaries: results short enough for a model, which say what was left out."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

CHARACTERS_MAX: Final = 60_000
"""The limit for one result: a good part of a model's context, and never all of it."""

_CUTS: Final = ((40_000, 100), (8_000, 60), (2_000, 30), (400, 12), (80, 4))
"""The most characters of a text and the most rows of a list, from generous to minimal."""


def brief(value: Any) -> str:
    """The value as JSON, shortened as needed: texts and lists say how much is missing."""
    plain = msgspec.to_builtins(value)
    text = _json(plain)
    for text_max, rows_max in _CUTS:
        if len(text) <= CHARACTERS_MAX:
            return text
        text = _json(_cut(plain, text_max, rows_max))
    return text if len(text) <= CHARACTERS_MAX else shorten_text(text, CHARACTERS_MAX)


def shorten_text(text: str, characters_max: int) -> str:
    excess = len(text) - characters_max
    return text if excess <= 0 else f"{text[:characters_max]}… ({excess:,} more characters)"


def _cut(value: Any, text_max: int, rows_max: int) -> Any:
    if isinstance(value, str):
        return shorten_text(value, text_max)
    if isinstance(value, list | tuple):
        rows = [_cut(item, text_max, rows_max) for item in value[:rows_max]]
        return rows if len(value) <= rows_max else [*rows, f"… ({len(value) - rows_max:,} more)"]
    if isinstance(value, dict):
        entries = {key: _cut(item, text_max, rows_max) for key, item in list(value.items())[: 4 * rows_max]}
        missing = len(value) - len(entries)
        return entries if not missing else {**entries, "…": f"({missing:,} more)"}
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
