"""People with keys, in two namespaces, and the server that they speak to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from holdfast.client.keys import create_key
from holdfast.model.access import Role
from holdfast.model.audit import Act, read_act
from holdfast.server.app import Service
from holdfast.server.settings import Settings
from holdfast.testing.conformance.harness import Backend
from tests.api.client.job_states import lives
from tests.api.server.api import Api
from tests.api.server.served import served

HERE, ELSEWHERE = "default", "elsewhere"
SESSION = "s1"


class Town(Api):
    """An API that asks for keys, and whoever has one."""

    app: Service

    async def key(
        self,
        *roles: Role,
        namespace: str = HERE,
        session_id: str | None = None,
        expires_at: int | None = None,
        name: str = "",
    ) -> dict[str, str]:
        """What somebody with a new key says."""
        _, text = await create_key(
            self.one.store,
            roles,
            name=name or "-".join(roles),
            who="the test",
            why="to see what it opens",
            namespace=namespace,
            session_id=SESSION if Role.AGENT in roles and session_id is None else session_id,
            expires_at=expires_at,
        )
        return {"authorization": f"Bearer {text}"}

    async def acts(self, namespace: str = HERE) -> list[Act]:
        return [read_act(line) for line in await self.one.store.audit.read(namespace=namespace, limit=1000)]


@asynccontextmanager
async def town(backend: Backend, settings: Settings | None = None) -> AsyncIterator[Town]:
    """A server with two namespaces behind it. It has one key that nobody uses, so it asks for keys."""
    made: list[Service] = []
    async with (
        lives(backend) as one,
        served(one.store, backend.clock, settings, made=made.append) as url,
        httpx2.AsyncClient(base_url=url, timeout=30, trust_env=False) as http,
    ):
        web = Town(http, one, url)
        web.app = made[0]
        await one.store.namespaces.create(ELSEWHERE)
        await web.key(Role.VIEWER, name="nobody's")
        yield web
