"""OpenAPI document, generated from the table of endpoints and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.api.operation import Operation, path_names
from holdfast.model.access import AccessScope
from holdfast.server.idempotency import HEADER
from holdfast.server.problems import MEDIA_TYPE, Problem
from holdfast.server.router import Endpoint
from holdfast.server.settings import DEFAULT_PORT

_REF: Final = "#/components/schemas/{name}"
_PART: Final = re.compile(r"\{(\w+)(:path)?\}")
_SCHEMES: Final = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key from `holdfast api-key create`; or, on loopback, the token that the server printed.",
    }
}
_MEANINGS: Final = {
    200: "OK.",
    201: "Created.",
    202: "Accepted: stored, applied when the job is next driven.",
    204: "OK, without content.",
    304: "Not modified: the client's copy is current.",
    401: "Unauthorized: the API key is missing, unknown, expired or revoked.",
    403: "Forbidden: the key lacks the scope, or the request comes from the page of another site.",
    404: "Not found.",
    409: "Conflict: the current state does not allow it, or another request was first.",
    413: "Request body too large.",
    415: "Unsupported media type: send application/json.",
    422: "Invalid request: a field does not match its schema.",
    429: "Too many requests, or the queue is full: retry after the time in Retry-After.",
    503: "Unavailable: try again later.",
}


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """The whole API."""
    types = [
        declared
        for endpoint in endpoints
        for declared in (endpoint.answers, endpoint.body, endpoint.query)
        if declared
    ]
    types = list(dict.fromkeys([*types, Problem]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    bodies = {endpoint.body.__name__ for endpoint in endpoints if endpoint.body is not None}
    for endpoint in endpoints:
        path = _PART.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, schema_of, components)
    for endpoint in endpoints:
        if endpoint.query.__name__ not in bodies:
            components.pop(endpoint.query.__name__, None)  # its fields are parameters
        if endpoint.operation is not None and endpoint.body is not None:
            _remove_path_fields(components[endpoint.body.__name__], endpoint.operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"http://127.0.0.1:{DEFAULT_PORT}"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
    }


def _operation(endpoint: Endpoint, schema_of: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint, components),
        "responses": _responses(endpoint, schema_of),
        "security": []
        if endpoint.scope is AccessScope.PUBLIC
        else [{"key": [endpoint.scope or AccessScope.ADMIN]}],
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": schema_of[endpoint.body]}}
        in_path = _names_in_path(endpoint.operation)
        required = bool(set(components[endpoint.body.__name__].get("required", ())) - in_path)
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name, _ in _PART.findall(endpoint.path)
    ]
    query, in_path = components[endpoint.query.__name__], _names_in_path(endpoint.operation)
    parameters += [
        {"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema}
        for name, schema in query["properties"].items()
        if name not in in_path
    ]
    if endpoint.keyed:
        schema = {"type": "string", "minLength": 1, "maxLength": 200}
        parameters.append({"name": HEADER, "in": "header", "required": False, "schema": schema})
    return parameters


def _names_in_path(operation: Operation[Any, Any] | None) -> set[str]:
    """The wire names of the request's fields that are in the path."""
    return set() if operation is None else path_names(operation)


def _remove_path_fields(schema: dict[str, Any], operation: Operation[Any, Any]) -> None:
    """Removes the fields that are in the path from the schema of a request body."""
    in_path = path_names(operation)
    schema["properties"] = {
        name: field for name, field in schema["properties"].items() if name not in in_path
    }
    schema["required"] = [name for name in schema.get("required", ()) if name not in in_path]


def _responses(endpoint: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    problem = {MEDIA_TYPE: {"schema": schema_of[Problem]}}
    responses: dict[str, Any] = {}
    for status in endpoint.statuses:
        responses[str(status)] = {"description": _MEANINGS[status]}
        if endpoint.answers is not None and status not in {204, 304}:
            content = {endpoint.media: {"schema": schema_of[endpoint.answers]}}
            content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in endpoint.also}
            responses[str(status)]["content"] = content
    guarded = () if endpoint.scope is AccessScope.PUBLIC else (401, 403, 429)
    for status in (*guarded, *endpoint.errors):
        responses[str(status)] = {"description": _MEANINGS[status], "content": problem}
    responses["default"] = {
        "description": "A problem document (RFC 9457) with a stable code.",
        "content": problem,
    }
    return responses
