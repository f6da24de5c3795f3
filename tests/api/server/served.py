"""A real server on loopback, in the loop of the test: the test may look into its store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from holdfast.model.ids import SequentialIds
from holdfast.server.app import Service, make_app
from holdfast.server.origin_checks import Authorise
from holdfast.server.page import StaticPage
from holdfast.server.router import Endpoint
from holdfast.server.serving import Server, bind_socket, url_of
from holdfast.server.settings import Settings
from holdfast.server.special_routes import ENDPOINTS
from holdfast.store.clock import Clock
from holdfast.store.contract import Store


@asynccontextmanager
async def served(
    store: Store,
    clock: Clock,
    settings: Settings | None = None,
    authorise: Authorise | None = None,
    made: Callable[[Service], None] | None = None,
    page: StaticPage | None = None,
    endpoints: Sequence[Endpoint] = ENDPOINTS,
) -> AsyncIterator[str]:
    """The address of a server in front of this store. At the end it is drained like any other.

    Its token is where a client looks for it.
    """
    settings = Settings() if settings is None else settings
    up = asyncio.Event()
    app = make_app(
        store,
        clock=clock,
        ids=SequentialIds(7),
        settings=settings,
        authorise=authorise,
        page=page,
        endpoints=endpoints,
    )
    if made is not None:
        made(app)
    server = Server(app, settings, up.set)
    listening = bind_socket(port=0)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await up.wait()
        yield url_of(listening)
    finally:
        server.should_exit = True
        await serving
        listening.close()
