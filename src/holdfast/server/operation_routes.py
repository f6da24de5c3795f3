"""Routes of operations: the endpoint of each declaration in `holdfast.api`.

The status tells the outcome of the request: 201 for something new, 202 for a command that the worker of the job
applies next, 200 for everything else. A repeated request gets the first response again, marked
`Idempotency-Replayed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from holdfast.api import (
    agents,
    attention,
    commands,
    external_agents,
    jobs,
    namespaces,
    queues,
    schedules,
    sessions,
    work,
    workers,
)
from holdfast.api.job_records import Accepted, Posted
from holdfast.api.operation import Created, Operation
from holdfast.api.requests import EmptyRequest
from holdfast.model.jobs import SubmittedJob
from holdfast.server import etags
from holdfast.server.idempotency import REPLAYED
from holdfast.server.long_poll import while_heard
from holdfast.server.request import ApiRequest
from holdfast.server.responses import ApiResponse
from holdfast.server.router import Endpoint, Handle

MODULES = (
    jobs,
    commands,
    attention,
    sessions,
    agents,
    external_agents,
    work,
    workers,
    schedules,
    queues,
    namespaces,
)


def operations(modules: Iterable[ModuleType] = MODULES) -> Iterator[Operation[Any, Any]]:
    """Every declared operation, in the order of its module."""
    for module in modules:
        for value in vars(module).values():
            if isinstance(value, Operation) and value.handle.__module__ == module.__name__:
                yield value


def to_endpoint(operation: Operation[Any, Any]) -> Endpoint:
    """The operation as an endpoint."""
    return Endpoint(
        method=operation.method,
        path=operation.path,
        handle=_handler(operation),
        answers=operation.response,
        body=operation.request if operation.has_body else None,
        query=EmptyRequest if operation.has_body else operation.request,
        statuses=operation.statuses,
        keyed=operation.method == "POST",
        errors=operation.errors,
        scope=operation.scope,
        session=operation.session,
        audited=operation.audit,
        submits=operation.submits,
        shared=operation.shared,
        operation=operation,
    )


def _handler(operation: Operation[Any, Any]) -> Handle:
    async def handle(api_request: ApiRequest) -> ApiResponse | ASGIApp:
        request = _complete(api_request, operation)
        headers: dict[str, str] = {}
        if operation.etag is not None:
            tag = f'"{await operation.etag(api_request.api, request)}"'
            headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
            if etags.is_known(tag, api_request.request.headers.get("if-none-match")):
                return Response(status_code=304, headers=headers)
        outcome = await _perform(api_request, operation, request)
        return _to_response(operation, outcome, headers)

    return handle


def _complete(api_request: ApiRequest, operation: Operation[Any, Any]) -> Any:
    """The request with what HTTP carries elsewhere: its key, and the name of the caller's API key."""
    request: Any = api_request.body
    changes: dict[str, Any] = {}
    if "by" in operation.request.__struct_fields__ and operation.has_body:
        changes["by"] = api_request.by(request.by)
    if (name := operation.key_field) is not None:
        wire_name = next(
            field.encode_name for field in msgspec.structs.fields(operation.request) if field.name == name
        )
        key = api_request.key(getattr(request, name), field_name=wire_name)
        # A waiting request is performed again when the server drains, and must find what it was granted.
        changes[name] = api_request.house.ids.new("claim") if key is None and operation.waits else key
    return msgspec.structs.replace(request, **changes) if changes else request


async def _perform(api_request: ApiRequest, operation: Operation[Any, Any], request: Any) -> Any:
    if operation.waits is None or not getattr(request, operation.waits):
        return await operation.handle(api_request.api, request)
    outcome = await while_heard(api_request, operation.handle(api_request.api, request))
    if outcome is None and api_request.house.draining.is_set():
        at_once = msgspec.structs.replace(request, **{operation.waits: 0})
        return await operation.handle(api_request.api, at_once)
    return outcome


def _to_response(operation: Operation[Any, Any], outcome: Any, headers: dict[str, str]) -> ApiResponse:
    value, status, is_repeated = outcome, operation.statuses[0], False
    if isinstance(outcome, Created):
        value, status, is_repeated = outcome.value, 201 if outcome.is_new else 200, not outcome.is_new
    elif isinstance(outcome, SubmittedJob):
        status, is_repeated = 201 if outcome.created else 200, not outcome.created
    elif isinstance(outcome, Accepted):
        status, is_repeated = 200 if outcome.at_once else 202, outcome.repeated
    elif isinstance(outcome, Posted):
        is_repeated = outcome.repeated
    if operation.location:
        fields = {name: quote(str(getattr(value, name)), safe="") for name in value.__struct_fields__}
        headers["Location"] = operation.location.format_map(fields)
    return ApiResponse(
        value=value,
        status=status,
        headers=headers | (REPLAYED if is_repeated else {}),
        tagged=operation.method == "GET" and operation.etag is None,
    )
