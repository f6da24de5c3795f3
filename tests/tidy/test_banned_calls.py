"""Time and chance come in by the door, and stored bytes never become code.

The simulation replays a run from a number. It can only if the layers it drives read no clock, toss no coin and start
no thread on their own. So these names may not appear there at all, called or passed along.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.project import PACKAGE, modules, parsed, shown

GUARDED = ("model", "store", "engine", "agents", "worker", "registry")

# A dotted name, or a module with `.*` for everything in it.
BANNED = {
    "time.time": "take the time from the injected clock",
    "time.time_ns": "take the time from the injected clock",
    "time.monotonic": "take the time from the injected clock",
    "time.monotonic_ns": "take the time from the injected clock",
    "time.perf_counter": "take the time from the injected clock",
    "time.perf_counter_ns": "take the time from the injected clock",
    "time.clock_gettime": "take the time from the injected clock",
    "time.clock_gettime_ns": "take the time from the injected clock",
    "time.sleep": "wait on the injected clock",
    "datetime.datetime.now": "take the time from the injected clock",
    "datetime.datetime.utcnow": "take the time from the injected clock",
    "datetime.datetime.today": "take the time from the injected clock",
    "datetime.date.today": "take the time from the injected clock",
    "uuid.uuid1": "take ids from the injected source",
    "uuid.uuid4": "take ids from the injected source",
    "uuid_utils.*": "take ids from the injected source",
    "random.*": "take chance from the injected source",
    "secrets.*": "take chance from the injected source",
    "os.urandom": "take chance from the injected source",
    "asyncio.sleep": "wait on the injected clock",
    "asyncio.to_thread": "threads are started in one place, by the adapter for blocking code",
    "os.fork": "a forked process shares database handles and locks",
    "pickle.*": "stored bytes are JSON; unpickling runs code",
    "marshal.*": "stored bytes are JSON",
    "shelve.*": "stored bytes are JSON; shelve is pickle",
    "eval": "stored text never becomes code",
    "exec": "stored text never becomes code",
}

# Naming the type of an injected source is not using one.
FINE = {"random.Random"}

# file → the names it may use, and why it is the door.
ALLOWED: dict[str, tuple[set[str], str]] = {
    "model/ids.py": ({"uuid_utils.uuid7"}, "the source of ids that production injects"),
    "store/sqlite/executor.py": (
        {"time.perf_counter"},
        "measures the disk; nothing that is recorded depends on it",
    ),
    "store/clock.py": (
        {"time.time_ns", "time.clock_gettime_ns", "asyncio.sleep"},
        "the one clock; everybody else is given it",
    ),
    "store/tables/bulk_submit.py": ({"asyncio.sleep"}, "for no time at all: a pass of the loop"),
    "engine/execution.py": ({"asyncio.sleep"}, "for no time at all: a pass of the loop"),
}


def names_used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every name the module uses, with aliases undone: `from time import time as t; t()` is `time.time`."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                aliases[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node)):
            first, dot, rest = name.partition(".")
            yield node.lineno, aliases.get(first, first) + dot + rest


def dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


def why_banned(name: str) -> str | None:
    module = name.partition(".")[0]
    if name in FINE or name == module:
        return BANNED.get(name)
    return BANNED.get(name) or BANNED.get(f"{module}.*")


def test_no_clock_chance_or_code_from_data() -> None:
    offenders = []
    for path in modules(*GUARDED):
        allowed, _why = ALLOWED.get(path.relative_to(PACKAGE).as_posix(), (set(), ""))
        offenders += [
            f"{shown(path)}:{line}: {name}: {why}"
            for line, name in sorted(set(names_used(parsed(path))))
            if name not in allowed and (why := why_banned(name))
        ]
    assert not offenders, "\n" + "\n".join(offenders)


def test_every_exception_is_still_needed() -> None:
    for name, (allowed, why) in ALLOWED.items():
        used = {used for _line, used in names_used(parsed(PACKAGE / name))}
        assert why
        assert allowed <= used, (
            f"{name} no longer uses {', '.join(sorted(allowed - used))}: take it out of ALLOWED"
        )


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.time()",
        "import time as t; t.monotonic()",
        "from time import monotonic",
        "from datetime import datetime; datetime.now()",
        "import datetime; datetime.datetime.utcnow()",
        "import random; random.choice([1])",
        "import asyncio; wait = asyncio.sleep",
        "import pickle; pickle.loads(b'')",
        "eval('1')",
    ],
)
def test_the_check_sees_through_aliases(code: str) -> None:
    assert any(why_banned(name) for _line, name in names_used(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["import random; chance: random.Random", "clock.time()", "self.random.choice([1])"]
)
def test_injected_sources_are_fine(code: str) -> None:
    assert not any(why_banned(name) for _line, name in names_used(ast.parse(code)))
