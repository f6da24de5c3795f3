"""Step keys: identify a call, the same on every run of the same code.

A key says where in the program the call stands, never when it was made:

    2/research~9f86d081#1/fetch_page#3
    │ │                   └ the third call of that name in this scope
    │ └ the scope: one per asyncio task the job starts, one per `hf.scope`, nested as they are
    └ the ordinal of the last commit of state

A task's scope is the name of its coroutine, a digest of its arguments, and a number among those that have both in
common. So two branches under `gather` never share a counter, whichever is faster, and tasks that a library creates from
a set (`as_completed`) have the same scopes whatever the order of that set was.
"""

from __future__ import annotations

import functools
import hashlib
import zlib
from typing import Final

from holdfast.model import canonical
from holdfast.model.limits import NAME_LENGTH_MAX

NO_ARGS: Final = canonical.hex_digest(canonical.encode([]))
"""The digest of a recorded value that is no call, such as the time. Arguments of a call have names."""

_LOCAL: Final = "<locals>."
_ESCAPES: Final = str.maketrans({"%": "%25", "/": "%2F", "#": "%23"})
_PATH_MAX: Final = NAME_LENGTH_MAX - 80
"""A longer scope is shortened to a digest, so that every key is a valid name in the store."""


class StepScope:
    """A scope of the program, with a counter for its calls and for the scopes inside it.

    `place_hash` distinguishes scopes without the names of functions: by arguments, and by a number among equal ones. A
    set of tasks is ordered by it, so that renaming a function does not change the order.
    """

    __slots__ = ("_calls", "_places", "_scopes", "path", "place_hash")

    def __init__(self, path: str, place_hash: int | None = None) -> None:
        self.path = path
        self.place_hash = (
            zlib.crc32(path.encode("utf-8", "surrogatepass")) if place_hash is None else place_hash
        )
        self._calls: dict[str, int] = {}
        self._scopes: dict[str, int] = {}
        self._places: dict[str, int] = {}

    def key(self, name: str) -> str:
        """The key of the next call of this name here."""
        name = plain_name(name)
        nth = self._calls[name] = self._calls.get(name, 0) + 1
        return f"{self.path}/{name}#{nth}"

    def inner(self, name: str, args_digest: str = "") -> StepScope:
        """The next scope of this name inside this one; for a task, the next with these arguments."""
        name = f"{plain_name(name)}~{args_digest}" if args_digest else plain_name(name)
        nth = self._scopes[name] = self._scopes.get(name, 0) + 1
        place = self._places[args_digest] = self._places.get(args_digest, 0) + 1
        place_hash = zlib.crc32(f"{args_digest}#{place}".encode(), self.place_hash)
        return StepScope(_shorten(f"{self.path}/{name}#{nth}"), place_hash)


def call_name(step_key: str) -> str:
    """The name of the call that a step key identifies."""
    return step_key.rpartition("/")[2].rpartition("#")[0]


def scope_of(step_key: str) -> str:
    """The path of the scope that a call was made in."""
    return step_key.rpartition("/")[0]


def is_within(path: str, step_key: str) -> bool:
    """Whether a call was made in this scope, or in one inside it."""
    return bool(path) and step_key.startswith(f"{path}/")


@functools.lru_cache(1024)
def plain_name(name: str) -> str:
    """A name as part of a key: without enclosing functions and separators, and never too long."""
    name = name.rpartition(_LOCAL)[2].translate(_ESCAPES)
    if len(name) <= 60:
        return name
    return name[:40] + "~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _shorten(path: str) -> str:
    if len(path) <= _PATH_MAX:
        return path
    ordinal, _, rest = path.partition("/")
    return f"{ordinal}/~{hashlib.sha256(rest.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
