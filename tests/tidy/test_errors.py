"""Each error finishes the conversation: a code of its own, a hint, and a place in the drawing and in the reference."""

from __future__ import annotations

import builtins
import inspect

import pytest

from holdfast import errors
from tools.make_errors_reference import TARGET, format_page, parse_tree

DEFINED = [
    kind for _name, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__
]
CLASSES = [kind for kind in DEFINED if issubclass(kind, errors.HoldfastError)]


def test_there_is_one_root() -> None:
    assert DEFINED == CLASSES, "everything in errors.py derives from HoldfastError"


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error_says_what_to_do(error: type[errors.HoldfastError]) -> None:
    assert "code" in vars(error), "every error has a code of its own; an inherited one says nothing new"
    assert error.code.replace("_", "").isalpha(), "a code is lower-case words joined by underscores"
    assert error.code == error.code.lower()
    assert error.default_hint.endswith((".", "!", "?")), "a hint is a sentence"
    assert not hasattr(builtins, error.__name__), "no name repeats a builtin"


def test_codes_are_unique() -> None:
    codes = [error.code for error in CLASSES]
    assert len(codes) == len(set(codes)), sorted(code for code in codes if codes.count(code) > 1)


def test_the_drawing_shows_every_error_under_its_parent() -> None:
    shown = {name: parent for name, parent, _meaning in parse_tree(errors.__doc__ or "")}
    assert shown == {error.__name__: error.__base__.__name__ if error.__base__ else "" for error in CLASSES}


def test_the_reference_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == format_page(), "run `make docs`"
