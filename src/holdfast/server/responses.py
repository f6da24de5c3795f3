"""Responses: a value as JSON, with any text in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.server import etags

_write = msgspec.json.Encoder().encode


class ApiResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a handler. With `tagged`, a reader that already has it gets 304 and no body."""

    value: Any = None
    status: int = 200
    headers: Mapping[str, str] = {}
    tagged: bool = False


def encode_json(value: Any) -> bytes:
    """The value as JSON. Lone surrogates, which models do write, are escaped as in the journal."""
    try:
        return _write(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def respond(answer: ApiResponse, if_none_match: str | None) -> Response:
    """The HTTP response for this value."""
    headers = dict(answer.headers)
    if answer.status == 204:
        return Response(status_code=204, headers=headers)
    body = encode_json(answer.value)
    if answer.tagged:
        tag = etags.of(body)
        headers |= {"ETag": tag, "Cache-Control": "private, no-cache"}
        if etags.is_known(tag, if_none_match):
            return Response(status_code=304, headers=headers)
    return Response(body, status_code=answer.status, headers=headers, media_type="application/json")
