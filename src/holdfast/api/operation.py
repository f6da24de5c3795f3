"""Operation: one operation of the API, declared once.

    class CancelJob(CommandRequest, frozen=True, kw_only=True):
        job_id: str

    @operation("POST", "/api/jobs/{job_id}/stop", scope=AccessScope.OPERATE, audit="job.cancel")
    async def cancel_job(api: ApiContext, request: CancelJob) -> Accepted:
        "The job starts no further calls and ends cancelled."

From this declaration come the route with its checks and its audit entry, the OpenAPI text (name, docstring, request,
response), the MCP tool if it has one, and what both transports of the client need. `cancel_job` stays callable, so
that one handler can use another.

The name of a field decides where it is sent: `{job_id}` in the path; the others in the query of GET and DELETE, in
the body otherwise. Some names have a special meaning: `by` is completed with the caller's API key, `operation_id`,
`request_key` and `claim_id` may come as `Idempotency-Key`.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, overload

import msgspec

from holdfast.api.context import ApiContext
from holdfast.api.job_records import Accepted, Posted
from holdfast.model.access import AccessScope
from holdfast.model.jobs import SubmittedJob

Q = TypeVar("Q", bound=msgspec.Struct)
R = TypeVar("R")

KEY_FIELDS: Final = ("operation_id", "request_key", "claim_id")
"""Fields that identify a request, so that it can be sent any number of times."""

_PATH_FIELD: Final = re.compile(r"\{(\w+)(?::path)?\}")
_STATUSES: Final[dict[Any, tuple[int, ...]]] = {
    SubmittedJob: (201, 200),
    Accepted: (200, 202),
    Posted: (202,),
}
"""HTTP statuses of responses that themselves tell the outcome of the request."""


class Created(msgspec.Struct, Generic[R], frozen=True):
    """The result of a handler that creates a record: the record, and whether it is new. The caller gets the record."""

    value: R
    is_new: bool


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[Q, R]):
    """A declared operation.

    `statuses` are the HTTP statuses of its responses, `errors` the problems beyond those that every operation has.
    `scope`: the permission that a caller needs. `session` names the field with a session's id: an agent's key reaches
    its own session. `audit`: its action name in the audit log. `submits`: it creates work, which has its own rate
    limit. `shared`: it concerns the whole installation, for callers of the default namespace alone. `location`: the
    path of what was created, with fields of the response. `waits`: the field that says how long the response may
    wait. `etag`: a cheap version of the response, where hashing the response would cost more. `tool`: its description
    for a model; the operation is then a tool of the MCP server, too.
    """

    name: str
    summary: str
    method: str
    path: str
    request: type[Q]
    response: Any
    handle: Callable[[ApiContext, Q], Coroutine[Any, Any, Any]]
    statuses: tuple[int, ...]
    errors: tuple[int, ...] = ()
    scope: AccessScope
    audit: str = ""
    submits: bool = False
    shared: bool = False
    session: str | None = None
    location: str = ""
    waits: str | None = None
    etag: Callable[[ApiContext, Q], Awaitable[str]] | None = None
    tool: str = ""

    @property
    def path_fields(self) -> tuple[str, ...]:
        return tuple(_PATH_FIELD.findall(self.path))

    @property
    def has_body(self) -> bool:
        return self.method not in {"GET", "DELETE"}

    @property
    def key_field(self) -> str | None:
        """The field that an `Idempotency-Key` fills."""
        return next((name for name in KEY_FIELDS if name in self.request.__struct_fields__), None)

    async def __call__(self, api: ApiContext, request: Q) -> R:
        """Performs it in this process."""
        outcome = await self.handle(api, request)
        return typing.cast("R", outcome.value if isinstance(outcome, Created) else outcome)


class Declaration(Protocol):
    """Turns a handler into its operation."""

    @overload
    def __call__(
        self, handle: Callable[[ApiContext, Q], Coroutine[Any, Any, Created[R]]], /
    ) -> Operation[Q, R]: ...

    @overload
    def __call__(self, handle: Callable[[ApiContext, Q], Coroutine[Any, Any, R]], /) -> Operation[Q, R]: ...


def operation(
    method: str,
    path: str,
    *,
    scope: AccessScope,
    errors: tuple[int, ...] = (),
    status: int = 200,
    audit: str = "",
    submits: bool = False,
    shared: bool = False,
    session: str | None = None,
    location: str = "",
    waits: str | None = None,
    etag: Callable[[ApiContext, Any], Awaitable[str]] | None = None,
    tool: str = "",
) -> Declaration:
    """Declares the decorated handler as an operation. Its annotations name the request and the response."""

    def declare(handle: Any) -> Any:
        hints = typing.get_type_hints(handle)
        response, (_context, request) = hints.pop("return"), hints.values()
        statuses = _STATUSES.get(response, (status,))
        if typing.get_origin(response) is Created:
            (response,) = typing.get_args(response)
            statuses = (201, 200)
        declared: Operation[Any, Any] = Operation(
            name=handle.__name__,
            summary=(handle.__doc__ or "").partition("\n")[0],
            method=method,
            path=path,
            request=request,
            response=response,
            handle=handle,
            statuses=(*statuses, 304) if method == "GET" else statuses,
            errors=errors,
            scope=scope,
            audit=audit,
            submits=submits,
            shared=shared,
            session=session,
            location=location,
            waits=waits,
            etag=etag,
            tool=tool,
        )
        unknown = set(declared.path_fields) - set(request.__struct_fields__)
        assert not unknown, f"{handle.__name__}: the path names {unknown}, which the request has not"
        return declared

    return declare


class WireForm(msgspec.Struct, frozen=True):
    """A request as HTTP carries it. Values are the caller's; the transport encodes them."""

    path: str
    query: dict[str, Any]
    body: dict[str, Any] | None


def to_wire(declared: Operation[Q, Any], request: Q, quote: Callable[[str], str]) -> WireForm:
    """Splits the request into path, query and body. Fields with their default value are left out."""
    rest: dict[str, Any] = {}
    parts: dict[str, str] = {}
    for field in msgspec.structs.fields(declared.request):
        value = getattr(request, field.name)
        if field.name in declared.path_fields:
            parts[field.name] = quote(str(value))
        elif field.required or value != _default(field):
            rest[field.encode_name] = (
                msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value
            )
    path = _PATH_FIELD.sub(lambda match: parts[match[1]], declared.path)
    return WireForm(path, {}, rest) if declared.has_body else WireForm(path, rest, None)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def from_wire(declared: Operation[Any, Any], path: dict[str, str], rest: dict[str, Any]) -> dict[str, Any]:
    """The fields of the request by their names on the wire; a path field that is repeated in the rest gets a name
    that the request rejects."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(declared.request)}
    fields = {
        f"{name} (is in the path)" if name in path_names(declared) else name: value
        for name, value in rest.items()
    }
    return fields | {names[name]: value for name, value in path.items()}


def path_names(declared: Operation[Any, Any]) -> set[str]:
    """The wire names of the fields that are in the path."""
    return {
        field.encode_name
        for field in msgspec.structs.fields(declared.request)
        if field.name in declared.path_fields
    }
