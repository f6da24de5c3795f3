"""Somebody who speaks HTTP to a real server, and holds every answer against the OpenAPI document."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import jsonschema_rs

from holdfast.client.local_token import find_token
from holdfast.errors import InvalidName, NotFound
from holdfast.model.jobs import JobFilter
from holdfast.server.openapi import _PART
from holdfast.server.problems import Refusal
from holdfast.server.router import Router
from holdfast.server.settings import Settings
from holdfast.server.special_routes import ENDPOINTS
from holdfast.server.special_routes import get_openapi as document
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import Lives, lives
from tests.api.server.served import served

ROUTER = Router(ENDPOINTS)
NOTHING = object()


class Api:
    def __init__(self, http: httpx2.AsyncClient, one: Lives, url: str) -> None:
        self.http, self.one, self.url = http, one, url

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = NOTHING,
        *,
        content: Any = None,
        **headers: str,
    ) -> httpx2.Response:
        """The server's answer, which fits its description. Underscores in names of headers are dashes."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not NOTHING:
            content = json.dumps(body).encode()
        if method in {"POST", "PUT", "PATCH"}:
            sent.setdefault("content-type", "application/json")
        response = await self.http.request(method, path, content=content, headers=sent)
        must_fit(response)
        return response

    async def get(self, path: str, **headers: str) -> Any:
        response = await self.ask("GET", path, **headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any, **headers: str) -> Any:
        response = await self.ask("POST", path, body, **headers)
        assert response.status_code in {200, 201, 202}, response.text
        return response.json()

    async def refused(self, status: int, code: str, *asked: Any, **more: Any) -> dict[str, Any]:
        """The problem that this request gets."""
        response = await self.ask(*asked, **more)
        problem: dict[str, Any] = response.json()
        assert (response.status_code, problem["code"], problem["status"]) == (status, code, status), problem
        assert problem["hint"], "a problem says what to do"
        return problem

    async def picture(self) -> Any:
        """Everything that a refused request must leave as it was."""
        store = self.one.store
        jobs = [record.job_id for record in await store.jobs.list(JobFilter())]
        heads = [await store.jobs.head(job_id) for job_id in jobs]
        mail = [await store.post.read(job_id) for job_id in jobs]
        return heads, mail, await store.inbox.list("s1")


@asynccontextmanager
async def api(backend: Backend, settings: Settings | None = None) -> AsyncIterator[Api]:
    async with (
        lives(backend) as one,
        served(one.store, backend.clock, settings) as url,
        httpx2.AsyncClient(base_url=url, timeout=30, trust_env=False, headers=as_owner(url)) as http,
    ):
        yield Api(http, one, url)


def as_owner(url: str) -> dict[str, str]:
    """What somebody says who may read the server's token."""
    return {"authorization": f"Bearer {find_token(url)}"}


def must_fit(response: httpx2.Response) -> None:
    """The answer is as the document says: its status, its content type, its body."""
    kind = response.headers.get("content-type", "").partition(";")[0]
    for name in ("x-request-id", "x-content-type-options", "content-security-policy", "cache-control"):
        assert name in response.headers
    assert "access-control-allow-origin" not in response.headers
    described = _described(response)
    if described is None or "content" not in described:
        assert response.content == b"" or kind == "application/problem+json"
        schema = {"$ref": "#/components/schemas/Problem"} if response.content else None
    else:
        assert kind in described["content"], (kind, described)
        schema = described["content"][kind]["schema"]
    if schema is None or response.request.method == "HEAD":
        return
    if kind == "application/x-ndjson":
        for line in response.text.splitlines():
            _validator(json.dumps(schema)).validate(json.loads(line))
    elif kind.endswith("json"):
        _validator(json.dumps(schema)).validate(json.loads(response.text))


def _described(response: httpx2.Response) -> dict[str, Any] | None:
    """What the document says of this status of this operation; None if there is no such operation."""
    request = response.request
    try:
        endpoint, _ = ROUTER.find(request.method, request.url.raw_path.partition(b"?")[0])
    except (NotFound, InvalidName, Refusal):
        assert response.status_code >= 400
        return None
    responses = document()["paths"][_PART.sub(r"{\1}", endpoint.path)][endpoint.method.lower()]["responses"]
    status = str(response.status_code)
    assert status in responses or response.status_code >= 400, f"{status} is not in the document"
    described: dict[str, Any] = responses.get(status, responses["default"])
    return described


@functools.cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator(
        {**json.loads(schema), "components": document()["components"]}, validate_formats=True
    )
