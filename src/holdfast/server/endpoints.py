"""The table of endpoints, and the way from a path to its line in it.

Paths are matched as they were sent, part by part, and decoded after that: an id may have a slash in it, written %2F.
A part `{key:path}` takes the slashes along, for step keys that somebody types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp

from holdfast.api.operation import Operation
from holdfast.api.requests import EmptyRequest
from holdfast.errors import InvalidName, NotAllowed, NotFound
from holdfast.model.access import AccessScope
from holdfast.server.problems import Refusal
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse

Handle: TypeAlias = Callable[[ApiRequest], Awaitable[ApiResponse | ASGIApp]]


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One line: what is asked, what is answered, and who answers.

    `statuses` are those of its answers; `keyed` endpoints take an `Idempotency-Key`; `errors` are the problems that it
    has besides those which all have.

    `scope` is what a caller needs (`service.access`); one that names none is for admins alone, and a test fails. A part
    of the path that is a session's id is named by `session`: an agent's key reaches its own. `audited` is what the
    audit log calls it; `submits` says that it makes work, which has a rate of its own. What is `shared` is about the
    whole installation: the default namespace, whose people run it, may ask, and no other.
    """

    method: str
    path: str
    handle: Handle
    answers: Any
    body: Any = None
    query: Any = EmptyRequest
    statuses: tuple[int, ...] = (200,)
    media: str = "application/json"
    also: tuple[str, ...] = ()
    """Other media types in which the same is given to whoever accepts them: files."""
    keyed: bool = False
    errors: tuple[int, ...] = ()
    scope: AccessScope | None = None
    session: str | None = None
    audited: str = ""
    submits: bool = False
    shared: bool = False
    operation: Operation[Any, Any] | None = None
    """The declaration that this line was derived from (`server.operation_routes`)."""

    @property
    def methods(self) -> tuple[str, ...]:
        """A document can be asked for its head; a stream has none without its body."""
        is_document = self.method == "GET" and self.media == "application/json"
        return ("GET", "HEAD") if is_document else (self.method,)

    @property
    def name(self) -> str:
        return self.handle.__name__ if self.operation is None else self.operation.name

    @property
    def summary(self) -> str:
        if self.operation is not None:
            return self.operation.summary
        return (self.handle.__doc__ or "").partition("\n")[0]


_BEGINS: Final = 2


class Router:
    """Finds the endpoint of a request."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._lines: dict[str, list[Endpoint]] = {}
        for endpoint in endpoints:
            self._lines.setdefault(endpoint.path, []).append(endpoint)
        # By what they begin with, which no path of ours leaves open: a request is held against the few of its own kind.
        self._paths: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
        for path in self._lines:
            template = path.strip("/").split("/")
            assert not any(part.startswith("{") for part in template[:_BEGINS]), path
            self._paths.setdefault(tuple(template[:_BEGINS]), []).append((template, path))
        for templates in self._paths.values():  # a word in the path is meant before a name that it could be
            templates.sort(key=lambda one: [part.startswith("{") for part in one[0]])

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, str]]:
        """The endpoint, and the parts of the path that it named."""
        parts = raw_path.decode("latin-1").removeprefix("/").split("/")
        for template, path in self._paths.get(tuple(parts[:_BEGINS]), ()):
            found = _matched(template, parts)
            if found is None:
                continue
            lines = self._lines[path]
            for endpoint in lines:
                if method in endpoint.methods:
                    return endpoint, {name: _decoded(text) for name, text in found.items()}
            allowed = ", ".join(sorted({method for line in lines for method in line.methods}))
            error = NotAllowed(f"{method} is not allowed for {path}", hint=f"Allowed: {allowed}.")
            raise Refusal(405, error, headers={"Allow": allowed})
        raise NotFound("there is no endpoint at this path", hint="GET /api/openapi.json lists the endpoints.")


def _matched(template: list[str], parts: list[str]) -> dict[str, str] | None:
    """What the names of the template stand for, or None. One part of it at most spans several of the path."""
    wide = next((nth for nth, part in enumerate(template) if part.endswith(":path}")), None)
    if wide is not None:
        behind = len(template) - wide - 1
        if len(parts) < len(template):
            return None
        parts = [*parts[:wide], "/".join(parts[wide : len(parts) - behind]), *parts[len(parts) - behind :]]
    if len(parts) != len(template):
        return None
    found: dict[str, str] = {}
    for expected, part in zip(template, parts, strict=True):
        if expected.startswith("{"):
            found[expected.strip("{}").removesuffix(":path")] = part
        elif expected != part:
            return None
    return found


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidName("the path is not UTF-8", hint="Percent-encode ids as UTF-8.") from None
