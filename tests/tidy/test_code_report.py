"""What `tools/code_report.py` counts stays at zero: module cycles, class names defined twice, public functions that are
participles, docstrings that leave open who acts."""

from __future__ import annotations

import ast

import pytest

from tools.code_report import find_cycles, find_duplicate_classes, find_participles, find_words, load_modules


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return load_modules()


def test_there_is_no_module_cycle(trees: dict[str, ast.Module]) -> None:
    assert find_cycles(trees) == []


def test_no_class_name_is_defined_twice(trees: dict[str, ast.Module]) -> None:
    assert find_duplicate_classes(trees) == {}


def test_public_functions_are_verbs(trees: dict[str, ast.Module]) -> None:
    assert find_participles(trees) == []


def test_docstrings_say_who_acts(trees: dict[str, ast.Module]) -> None:
    assert find_words(trees) == []


def test_what_is_counted_is_found() -> None:
    source = '"""Nobody knows."""\n\n\ndef told() -> None: ...\n\n\nclass Twice: ...\n\n\nclass Twice: ...\n'
    trees = {"holdfast.a": ast.parse(source), "holdfast.b": ast.parse("import holdfast.c")}
    trees["holdfast.c"] = ast.parse("import holdfast.b")
    assert find_cycles(trees) == [["holdfast.b", "holdfast.c"]]
    assert list(find_duplicate_classes(trees)) == ["Twice"]
    assert find_participles(trees) == ["holdfast.a:4 told"]
    assert find_words(trees) == ["holdfast.a:1 Nobody"]
