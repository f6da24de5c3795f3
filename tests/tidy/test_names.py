"""One name, one class; and module names in the field's words.

A reader who knows durable execution searches for the term that they know. A class that is defined twice, a participle
or a metaphor as the name of a module costs them the search. What is open is listed below; the lists only shrink.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.support.project import PACKAGE, modules, parsed

# Names that two classes still have.
STILL_TWICE: frozenset[str] = frozenset()

# Words that say nothing to a reader who does not know our story: metaphors, and participles that leave out of what.
UNWANTED = frozenset(
    "afar asked carried conductor courier desk drive heard herald house hung kept known lately letterbox"
    " memo met museum opened outwork patience pen places pulse purse raised said scribe shown shortly talk"
    " tending told troubles turnstile voices wired words written".split()
)

# "-ing" and "-ed" at the end of a name is a participle, but for these, which the field has as nouns or as one term.
TERMS = frozenset("embedded feed intercepted listing seed signing skipping testing tracing wiring".split())

# Modules that still have such a name.
STILL_UNWANTED = frozenset("cli/isolated  kit/packing server/serving".split())


def find_twice(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Public class names that more than one class has, and where these are."""
    places = defaultdict(list)
    for file, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{file}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def is_unwanted(module: str) -> bool:
    words = module.removeprefix("test_").split("_")
    return not UNWANTED.isdisjoint(words) or (words[-1].endswith(("ing", "ed")) and words[-1] not in TERMS)


def find_unwanted(paths: Iterable[Path]) -> set[str]:
    """Modules and packages with a name that we do not want."""
    names = {part for path in paths for part in (path.with_suffix(""), *path.parents)}
    return {name.as_posix() for name in names if is_unwanted(name.name)}


def test_no_class_name_is_defined_twice() -> None:
    found = find_twice({path.relative_to(PACKAGE).as_posix(): parsed(path) for path in modules()})
    new = [f"{name}: {', '.join(places)}" for name, places in found.items() if name not in STILL_TWICE]
    assert not new, "give each class a name of its own:\n" + "\n".join(new)
    assert not (gone := sorted(STILL_TWICE - found.keys())), f"unique by now, take out of STILL_TWICE: {gone}"


def test_module_names_are_nouns_of_the_field() -> None:
    found = find_unwanted(path.relative_to(PACKAGE) for path in modules())
    assert not (new := sorted(found - STILL_UNWANTED)), (
        f"name the thing by the term that a reader would search for: {new}"
    )
    assert not (gone := sorted(STILL_UNWANTED - found)), f"renamed by now, take out of STILL_UNWANTED: {gone}"


def test_a_class_that_is_defined_twice_is_found() -> None:
    """Also one inside a function; a private one may repeat."""
    first = ast.parse("class A: ...\nclass _P: ...\nclass B: ...")
    second = ast.parse("def f():\n    class A: ...\nclass _P: ...")
    assert find_twice({"x.py": first, "y.py": second}) == {"A": ["x.py:1", "y.py:2"]}


@pytest.mark.parametrize(
    "name", ["told", "desk", "side_told", "listening", "carried", "test_words", "replayed"]
)
def test_an_unwanted_name_is_found(name: str) -> None:
    assert find_unwanted([Path("engine") / f"{name}.py"]) == {f"engine/{name}"}


@pytest.mark.parametrize(
    "name", ["lease_renewal", "configured_agents", "scripted_provider", "tracing", "job_feed"]
)
def test_a_term_of_the_field_is_none(name: str) -> None:
    assert not find_unwanted([Path("engine") / f"{name}.py"])
