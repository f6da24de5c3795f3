"""Router: the table of endpoints, and the way from a path to its endpoint.

Paths are matched as they were sent, part by part, and decoded after that: an id may have a slash in it, written %2F.
A part `{key:path}` includes slashes, for step keys that a person types.
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
    """One endpoint: its request, its response, and its handler.

    `statuses` are those of its responses; `keyed` endpoints accept an `Idempotency-Key`; `errors` are its problems
    besides those which all endpoints have.

    `scope` is the permission that a caller needs (`server.access`); an endpoint without one is for admins alone, and
    fails a test. `session` names the part of the path that is a session's id: an agent's key reaches its own session.
    `audited` is its action name in the audit log; `submits` means that it creates work, which has its own rate limit.
    A `shared` endpoint concerns the whole installation: only the default namespace, whose members run it, may call
    it.
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
    """Other media types in which the response is available (`Accept`): files."""
    keyed: bool = False
    errors: tuple[int, ...] = ()
    scope: AccessScope | None = None
    session: str | None = None
    audited: str = ""
    submits: bool = False
    shared: bool = False
    operation: Operation[Any, Any] | None = None
    """The declaration that this endpoint is derived from (`server.operation_routes`)."""

    @property
    def methods(self) -> tuple[str, ...]:
        """A document also answers HEAD; a stream does not."""
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
        # By the first parts, which are literal in all our paths: a request is compared with few templates.
        self._paths: dict[tuple[str, ...], list[tuple[list[str], str]]] = {}
        for path in self._lines:
            template = path.strip("/").split("/")
            assert not any(part.startswith("{") for part in template[:_BEGINS]), path
            self._paths.setdefault(tuple(template[:_BEGINS]), []).append((template, path))
        for templates in self._paths.values():  # a literal part takes precedence over a placeholder
            templates.sort(key=lambda entry: [part.startswith("{") for part in entry[0]])

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, dict[str, str]]:
        """The endpoint, and the values of the path's placeholders."""
        parts = raw_path.decode("latin-1").removeprefix("/").split("/")
        for template, path in self._paths.get(tuple(parts[:_BEGINS]), ()):
            values = _matched(template, parts)
            if values is None:
                continue
            lines = self._lines[path]
            for endpoint in lines:
                if method in endpoint.methods:
                    return endpoint, {name: _decoded(text) for name, text in values.items()}
            allowed = ", ".join(sorted({method for line in lines for method in line.methods}))
            error = NotAllowed(f"{method} is not allowed for {path}", hint=f"Allowed: {allowed}.")
            raise Refusal(405, error, headers={"Allow": allowed})
        raise NotFound("there is no endpoint at this path", hint="GET /api/openapi.json lists the endpoints.")


def _matched(template: list[str], parts: list[str]) -> dict[str, str] | None:
    """The values of the template's placeholders, or None. At most one placeholder spans several parts of the path."""
    wide = next((nth for nth, part in enumerate(template) if part.endswith(":path}")), None)
    if wide is not None:
        behind = len(template) - wide - 1
        if len(parts) < len(template):
            return None
        parts = [*parts[:wide], "/".join(parts[wide : len(parts) - behind]), *parts[len(parts) - behind :]]
    if len(parts) != len(template):
        return None
    values: dict[str, str] = {}
    for expected, part in zip(template, parts, strict=True):
        if expected.startswith("{"):
            values[expected.strip("{}").removesuffix(":path")] = part
        elif expected != part:
            return None
    return values


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidName("the path is not UTF-8", hint="Percent-encode ids as UTF-8.") from None
