"""The document says what there is: every endpoint, every shape, nothing that leads nowhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from holdfast.server.openapi import _PART
from holdfast.server.special_routes import ENDPOINTS, get_openapi
from holdfast.testing.conformance.harness import Backend
from tests.api.server.api import api
from tests.support.project import ROOT

pytestmark = pytest.mark.store("sqlite")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in get_openapi()["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def refs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for below in value.values():
            yield from refs(below)
    elif isinstance(value, list):
        for below in value:
            yield from refs(below)


def schemas(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        if "schema" in value and isinstance(value["schema"], dict):
            yield value["schema"]
        for below in value.values():
            yield from schemas(below)
    elif isinstance(value, list):
        for below in value:
            yield from schemas(below)


async def test_it_is_served_as_it_is_made(backend: Backend) -> None:
    async with api(backend) as web:
        assert await web.get("/api/openapi.json") == json.loads(json.dumps(get_openapi()))


def test_every_schema_is_one() -> None:
    found = [*get_openapi()["components"]["schemas"].values(), *schemas(get_openapi()["paths"])]
    assert len(found) > 100
    for schema in found:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    names = {f"#/components/schemas/{name}" for name in get_openapi()["components"]["schemas"]}
    assert set(refs(get_openapi())) == names


def test_operations_have_names_of_their_own_and_say_what_they_do() -> None:
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names)) == len(ENDPOINTS)
    for _, _, operation in operations():
        assert operation["summary"].endswith((".", "!")), operation["operationId"]
        assert "default" in operation["responses"]


def test_the_parts_of_a_path_are_parameters() -> None:
    for path, _, operation in operations():
        declared = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path))


def test_every_post_takes_a_key() -> None:
    for _, method, operation in operations():
        keyed = any(one["name"] == "Idempotency-Key" for one in operation["parameters"])
        assert keyed == (method == "post"), operation["operationId"]


def test_the_page_names_every_endpoint() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for endpoint in ENDPOINTS:
        last = _PART.sub("", endpoint.path).rstrip("/").rpartition("/")[2]
        assert last in text, endpoint.path
