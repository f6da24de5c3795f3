"""The project speaks of itself alone: no machine's paths, no registry, no leftovers."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.project import ROOT, project_files, shown

# Put together from pieces, so that this file passes its own test.
_HOSTS = [
    "pypi" + ".org",
    "python" + "hosted",
    "test" + "pypi",
    "registry." + "npmjs",
    "art" + "ifactory",
    "j" + "frog",
]
_HOMES = ["work", "root", r"home/\w+", r"Users/\w+", "opt/pypi"]

PRIVATE = {
    "the path of one machine": re.compile(rf"(?<![\w}}.~-])/(?:{'|'.join(_HOMES)})/"),
    "a registry's address": re.compile("|".join(map(re.escape, _HOSTS))),
    # A mark may stay if it names its issue and says what is missing: "(#12): reason" behind the word.
    "a mark left behind": re.compile(
        r"\bTO" + r"DO\b(?!\(#\d+\): \w)|\b(?:" + "|".join(["FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b"
    ),
}

# Words that promise more than anybody can keep. docs/guarantees.md says what we promise instead.
BOASTS = re.compile(
    r"exactly[- ]once execution|zero duplicates|never fails|self-healing|guaranteed delivery", re.IGNORECASE
)

# A skipped test is a promise nobody checks. file → why it may skip.
MAY_SKIP: dict[str, str] = {}


def findings(text: str) -> list[str]:
    return [
        f"{number}: {what}: {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in PRIVATE.items()
        if (found := pattern.search(line))
    ]


def test_files_name_no_machine_and_no_registry() -> None:
    said = []
    for path in project_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        said += [f"{shown(path)}:{finding}" for finding in findings(text)]
    assert not said, "\n" + "\n".join(said)


def test_pages_do_not_boast() -> None:
    pages = [path for path in project_files() if path.suffix == ".md"]
    said = {
        shown(page): found.group()
        for page in pages
        if (found := BOASTS.search(page.read_text(encoding="utf-8")))
    }
    assert not said


@pytest.mark.parametrize("name", ["dev", "runtime"])
def test_locks_carry_hashes_and_no_address(name: str) -> None:
    """Every pinned package has a hash, and nothing but packages and hashes is in the file."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.strip())[1:]
    for entry in entries:
        assert re.match(
            r"[\w.-]+==[\w.]+( ; [^\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n?)+$", entry
        ), entry[:200]
    assert "://" not in text


def test_no_test_skips() -> None:
    """A missing server is an error that says the remedy. Looks for every way pytest has of not running a test."""
    skipping = {"skip", "skipif", "xfail", "importorskip", "exit"}
    offenders = [
        f"{shown(path)}:{node.lineno}"
        for path in project_files()
        if path.suffix == ".py" and shown(path).startswith("tests/") and shown(path) not in MAY_SKIP
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in skipping
        and ast.unparse(node).startswith("pytest.")
    ]
    assert not offenders, "these do not always run: " + ", ".join(offenders)


@pytest.mark.parametrize(
    "line",
    [
        "see /" + "work/main",
        "from /" + "root/x",
        "https://" + _HOSTS[0] + "/simple",
        "# TO" + "DO: later",
        "# TO" + "DO(#12)",
        "FIX" + "ME(#12): now",
    ],
)
def test_the_check_finds_private_things(line: str) -> None:
    assert findings(line)


@pytest.mark.parametrize(
    "line",
    ["POST /api/work/claim", "src/work/x", "/{id}/work/renew", "# TO" + "DO(#12): one loop instead of two"],
)
def test_the_check_lets_ordinary_paths_pass(line: str) -> None:
    assert not findings(line)
