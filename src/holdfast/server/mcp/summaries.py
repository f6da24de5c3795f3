"""Answers that a model can read: short enough, and open about what was left out."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

CHARACTERS_MAX: Final = 60_000
"""Of one answer: a good part of a page of anybody's context, and never all of it."""

_CUTS: Final = ((40_000, 100), (8_000, 60), (2_000, 30), (400, 12), (80, 4))
"""How long a text, and how long a list may be, from the most generous to the last resort."""


def brief(value: Any) -> str:
    """The value as JSON, cut where it must be: texts and lists say how much is missing."""
    plain = msgspec.to_builtins(value)
    said = _json(plain)
    for text_max, rows_max in _CUTS:
        if len(said) <= CHARACTERS_MAX:
            return said
        said = _json(_cut(plain, text_max, rows_max))
    return said if len(said) <= CHARACTERS_MAX else shorten_text(said, CHARACTERS_MAX)


def shorten_text(text: str, characters_max: int) -> str:
    left = len(text) - characters_max
    return text if left <= 0 else f"{text[:characters_max]}… ({left:,} more characters)"


def _cut(value: Any, text_max: int, rows_max: int) -> Any:
    if isinstance(value, str):
        return shorten_text(value, text_max)
    if isinstance(value, list | tuple):
        rows = [_cut(one, text_max, rows_max) for one in value[:rows_max]]
        return rows if len(value) <= rows_max else [*rows, f"… ({len(value) - rows_max:,} more)"]
    if isinstance(value, dict):
        kept = {key: _cut(one, text_max, rows_max) for key, one in list(value.items())[: 4 * rows_max]}
        left = len(value) - len(kept)
        return kept if not left else {**kept, "…": f"({left:,} more)"}
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()
