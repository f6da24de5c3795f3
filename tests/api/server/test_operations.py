"""Goal: an operation that is declared once is there everywhere. Method: each request of each operation goes over the
wire and back, with every field set and with none; and an operation of this file is called in process, over HTTP and as
an MCP tool, and stands in the OpenAPI document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx2
import msgspec
import pytest
from msgspec import inspect as mi

from holdfast.api.context import ApiContext
from holdfast.api.operation import Created, Operation, from_wire, operation, path_names, to_wire
from holdfast.api.requests import By, CommandRequest, Name
from holdfast.client.client import Client
from holdfast.client.http import RemoteClient
from holdfast.client.in_process import EmbeddedClient
from holdfast.client.local_token import find_token
from holdfast.errors import InvalidPayload, NotFound
from holdfast.model.access import AccessScope
from holdfast.model.ids import RandomIds
from holdfast.server import openapi
from holdfast.server.mcp.lease_keeper import Keeping
from holdfast.server.mcp.operation_tools import to_tool
from holdfast.server.mcp.tools import McpContext
from holdfast.server.operation_routes import operations, to_endpoint
from holdfast.server.router import Router
from holdfast.server.special_routes import ENDPOINTS
from holdfast.store.clock import SystemClock
from tests.api.server.served import served
from tests.support.fixtures.stores import SqliteBackend

OPERATIONS = list(operations())
TEXT = "a/b ü.%2F"


class ShelveBook(CommandRequest, frozen=True, kw_only=True):
    shelf: Name
    book: Name
    by: By
    copies: int = 1


class ShelvedBook(msgspec.Struct, frozen=True):
    shelf: str
    book: str
    by: str
    operation_id: str


@operation(
    "POST",
    "/api/shelves/{shelf}/books",
    scope=AccessScope.OPERATE,
    errors=(404,),
    location="/api/shelves/{shelf}/books/{book}",
    tool="Put a book on a shelf, where others find it again.",
)
async def shelve_book(api: ApiContext, request: ShelveBook) -> Created[ShelvedBook]:
    """The book is on the shelf."""
    if request.shelf == "none":
        raise NotFound("there is no such shelf")
    book = ShelvedBook(request.shelf, request.book, request.by, api.operation_id(request.operation_id))
    return Created(book, is_new=request.copies == 1)


def sample(kind: mi.Type) -> Any:
    """A value of this type, not its default."""
    match kind:
        case mi.Metadata():
            return sample(kind.type)
        case mi.StrType():
            return TEXT
        case mi.IntType():
            return max(kind.ge or 0, min(kind.le or 30, 30))
        case mi.BoolType():
            return False
        case mi.EnumType():
            return list(kind.cls)[-1]
        case mi.LiteralType():
            return kind.values[-1]
        case mi.DictType() | mi.AnyType():
            return {"a": [TEXT, 1, None]}
        case mi.VarTupleType():
            return (sample(kind.item_type),)
        case mi.StructType():
            return kind.cls(**{field.name: sample(field.type) for field in kind.fields})
        case mi.UnionType():
            wanted = [one for one in kind.types if not isinstance(one, mi.NoneType)]
            return sample(wanted[0])
    raise AssertionError(kind)


def whole(request: type[msgspec.Struct]) -> Any:
    return sample(mi.type_info(request))


def bare(request: type[msgspec.Struct]) -> Any:
    fields = {one.name: one for one in mi.type_info(request).fields}  # type: ignore[attr-defined]
    required = {name: sample(one.type) for name, one in fields.items() if one.required}
    return request(**required)


@pytest.mark.parametrize("build", [whole, bare])
@pytest.mark.parametrize("declared", OPERATIONS, ids=lambda one: one.name)
def test_a_request_comes_over_the_wire_as_it_was(declared: Operation[Any, Any], build: Any) -> None:
    request = build(declared.request)
    wire = to_wire(declared, request, lambda part: quote(part, safe=""))
    endpoint, path = Router(ENDPOINTS).find(declared.method, wire.path.encode())
    assert endpoint.operation is declared
    if wire.body is None:
        rest: Any = {name: str(value) for name, value in wire.query.items()}
    else:
        rest = json.loads(msgspec.json.encode(wire.body))
    assert unquote(wire.path).startswith("/api/")
    fields = from_wire(declared, path, rest)
    assert msgspec.convert(fields, declared.request, strict=wire.body is not None) == request


@pytest.mark.parametrize("declared", OPERATIONS, ids=lambda one: one.name)
def test_a_field_of_the_path_is_refused_elsewhere(declared: Operation[Any, Any]) -> None:
    request = bare(declared.request)
    for name in path_names(declared):
        fields = from_wire(
            declared, {one: getattr(request, one) for one in declared.path_fields}, {name: "x"}
        )
        with pytest.raises(msgspec.ValidationError, match="is in the path"):
            msgspec.convert(fields, declared.request, strict=False)


def test_names_are_unique_and_every_operation_says_what_it_does() -> None:
    names = [one.name for one in ENDPOINTS]
    assert len(names) == len(set(names))
    assert [one.name for one in OPERATIONS if len(one.summary) < 10] == []


async def test_one_declaration_is_a_route_a_method_a_tool_and_a_text(volatile_folder: Path) -> None:
    backend = SqliteBackend(volatile_folder)
    store = await backend.open()
    endpoints = [*ENDPOINTS, to_endpoint(shelve_book)]
    request = ShelveBook(shelf="a/b", book="Emma", by="ada")
    try:
        here = await EmbeddedClient(store, backend.clock, RandomIds()).call(shelve_book, request)
        assert (here.shelf, here.book, here.by) == ("a/b", "Emma", "ada")
        async with served(store, backend.clock, endpoints=endpoints) as url, RemoteClient(url) as remote:
            there = await remote.call(shelve_book, request)
            assert (there.shelf, there.book, there.by) == ("a/b", "Emma", "ada")
            with pytest.raises(NotFound):
                await remote.call(shelve_book, msgspec.structs.replace(request, shelf="none"))
            await check_http(url)
            await check_tool(remote)
    finally:
        await store.close()


async def check_http(url: str) -> None:
    token = {"Authorization": f"Bearer {find_token(url)}"}
    async with httpx2.AsyncClient(base_url=url, headers=token, trust_env=False) as http:
        path, book = "/api/shelves/s/books", {"book": "x", "by": "ada"}
        first = await http.post(path, json=book, headers={"Idempotency-Key": "k1"})
        assert (first.status_code, first.headers["location"]) == (201, "/api/shelves/s/books/x")
        assert first.json()["operation_id"] == "k1"
        again = await http.post(path, json=book | {"copies": 2})
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
        wrong = await http.post(path, json=book | {"shelf": "t"})
        assert (wrong.status_code, wrong.json()["code"]) == (422, InvalidPayload.code)


async def check_tool(client: Client) -> None:
    tool = to_tool(shelve_book)
    assert set(tool.schema()["properties"]) == {"shelf", "book", "copies", "why"}
    context = McpContext(client, Keeping(client, SystemClock(), lambda: 0.5))
    assert (await tool.act(context, tool.args(shelf="s", book="Emma"))).by == "mcp"


def test_the_declaration_is_in_the_openapi_document() -> None:
    document = openapi.document([to_endpoint(shelve_book)], "1")
    line = document["paths"]["/api/shelves/{shelf}/books"]["post"]
    assert (line["operationId"], line["summary"]) == ("shelve_book", "The book is on the shelf.")
    assert "shelf" not in document["components"]["schemas"]["ShelveBook"]["properties"]
    assert {"201", "200", "404"} <= set(line["responses"])
